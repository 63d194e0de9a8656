/** A namespace as it is stored. */
export interface Namespace {
  id: string;
  name: string;
  createdAt: Date;
  /** Names on the PostgreSQL server. Roles belong to the whole server, so theirs hold the id of the database. */
  database: string;
  schema: string;
  /** Owns the tables: what `POST .../sql` runs as. */
  ownerRole: string;
  /** Reads and writes the tables: what scripts run as. */
  scriptRole: string;
}

export const databaseName = (id: string) => `jobcell_${id.replaceAll('-', '')}`;

/** Every role of a database's namespaces begins with it. */
export const rolePrefix = (id: string) => `${databaseName(id)}_`;

export const namespaceNames = (databaseId: string, number: number) => ({
  database: databaseName(databaseId),
  schema: `ns_${number}`,
  ownerRole: `${rolePrefix(databaseId)}${number}_owner`,
  scriptRole: `${rolePrefix(databaseId)}${number}_script`,
});
