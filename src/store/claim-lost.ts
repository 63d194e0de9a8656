/** The execution is no longer this server's: taken over, canceled, or final. Whoever meets it stops and writes nothing. */
export class ClaimLostError extends Error {
  override readonly name = 'ClaimLostError';
  constructor(executionId: string) {
    super(`The claim on execution ${executionId} is lost: another server took it over, or it was ended.`);
  }
}
