import type { BodyType, ScriptSource } from '../sandbox/protocol.ts';
import { untilConnected } from './connection-errors.ts';
import type { Pool } from './database.ts';
import { findVersion, loadScript, resolveVersion, type ScriptName, type ScriptVersion } from './scripts.ts';

/** A version of a script, ready for a cell. */
export interface ResolvedScript {
  version: number;
  source: ScriptSource;
  load: () => Promise<string>;
  loadSourceMap: () => Promise<string | null>;
}

/** Resolutions kept: a name at a revision never changes, so they stay right for ever. */
const keptResolutions = 10_000;
/** Characters of script text kept in memory, so that a new cell costs no query. */
const keptCharacters = 32 * 1024 * 1024;

/** Finds scripts of one type by name at a revision (D28) and keeps the texts of those in use. */
export class Scripts {
  readonly #pool: Pool;
  readonly #type: BodyType;
  readonly #resolutions = new Map<string, ResolvedScript>();
  readonly #texts = new Map<string, string>();
  #characters = 0;

  constructor(pool: Pool, type: BodyType) {
    this.#pool = pool;
    this.#type = type;
  }

  /** @param pinned a version the workflow names instead. @returns null when there is no such script. */
  async resolve(
    workspaceId: string,
    name: string,
    revision: number,
    pinned: number | undefined,
  ): Promise<ResolvedScript | null> {
    const key = JSON.stringify([workspaceId, revision, pinned ?? null, name]);
    const known = this.#resolutions.get(key);
    if (known) return known;
    const found = await untilConnected(() => this.#find({ workspaceId, type: this.#type, name }, revision, pinned));
    if (!found) return null;
    const { version, hash, format, atRevision } = found;
    const resolved: ResolvedScript = {
      version,
      source: { hash, format, fileName: `${name}@${version}.js` },
      load: () => this.#text(workspaceId, name, version, hash),
      loadSourceMap: async () => (await this.#load(workspaceId, name, version)).sourceMap,
    };
    // A name that was not there yet at the revision resolves to the newest, which may change: not kept.
    if (atRevision) {
      if (this.#resolutions.size >= keptResolutions) this.#resolutions.clear();
      this.#resolutions.set(key, resolved);
    }
    return resolved;
  }

  async #find(script: ScriptName, revision: number, pinned: number | undefined): Promise<ScriptVersion | null> {
    return pinned === undefined
      ? resolveVersion(this.#pool, { ...script, revision })
      : findVersion(this.#pool, script, pinned);
  }

  async #text(workspaceId: string, name: string, version: number, hash: string): Promise<string> {
    const known = this.#texts.get(hash);
    if (known !== undefined) {
      // Moved to the end: the first entry is always the one not used for longest.
      this.#texts.delete(hash);
      this.#texts.set(hash, known);
      return known;
    }
    const { source } = await this.#load(workspaceId, name, version);
    if (!this.#texts.has(hash)) {
      this.#texts.set(hash, source);
      this.#characters += source.length;
    }
    for (const [oldest, text] of this.#texts) {
      if (this.#characters <= keptCharacters) break;
      this.#texts.delete(oldest);
      this.#characters -= text.length;
    }
    return source;
  }

  async #load(
    workspaceId: string,
    name: string,
    version: number,
  ): Promise<{ source: string; sourceMap: string | null }> {
    const script = await untilConnected(() => loadScript(this.#pool, workspaceId, this.#type, name, version));
    // Versions outlive the executions that can reach them (D28).
    if (!script) throw new Error(`version ${version} of script ${name} is gone from the database`);
    return script;
  }
}
