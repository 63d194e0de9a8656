/** What a workspace's owner names and scripts refer to: namespaces, machine users, vaults, secrets. */
export const ownNamePattern = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
export const ownNameRule =
  'must be 1 to 128 characters of A-Z, a-z, 0-9, _, . and -, and begin with a letter, a digit or _';
