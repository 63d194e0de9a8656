import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import ivm from 'isolated-vm';

/** One script of the runtime globals. */
export interface GlobalScript {
  text: string;
  /** The name in stacks, by which frames of ours are known. */
  filename: string;
  /**
   * V8's code cache, as the build made it with this very Node (scripts/code-caches.mjs). Under another one V8 does
   * without it, and isolates start slower.
   */
  cachedData: ivm.ExternalCopy<ArrayBuffer>;
}

/** Everything is read at once: later the cell may be a user who cannot read it (`dropPrivileges`). */
export function readGlobals(folder: string): { core: GlobalScript; bundles: Map<string, GlobalScript> } {
  const files = readdirSync(folder).filter((file) => file.endsWith('.js'));
  const bundles = new Map(files.map((file) => [basename(file, '.js'), read(folder, basename(file, '.js'))]));
  const core = bundles.get('core') as GlobalScript;
  bundles.delete('core');
  return { core, bundles };
}

function read(folder: string, name: string): GlobalScript {
  const cache = readFileSync(join(folder, `${name}.cache`));
  return {
    text: readFileSync(join(folder, `${name}.js`), 'utf8'),
    filename: `jobcell:${name}`,
    cachedData: new ivm.ExternalCopy(new Uint8Array(cache).buffer),
  };
}
