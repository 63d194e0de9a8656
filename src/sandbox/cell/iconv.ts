import { openSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { compileFunction } from 'node:vm';
import type * as IconvLite from 'iconv-lite';
import { answerError, answerValue, type IconvOperation } from '../boundary.ts';

/** The library keeps its encodings in here once it has looked one up; its types do not say so. */
type Library = typeof IconvLite & { encodings: Record<string, unknown> };

/**
 * Converts between encodings for the isolates: bytes as base64, the answer's first character as in boundary.ts. In
 * here, since an isolate of 32 MB has no room for the tables, and the server's time is not the scripts'.
 */
export type Iconv = (operation: IconvOperation, encoding: string, data: string) => string;

/**
 * The tables would make each start of a cell a quarter longer and each cell 4 MB larger, so the library is a file of its
 * own that is read when it is first used. Opened now, because the cell's user may not be able to later.
 */
export function openIconv(fileName: string): Iconv {
  const file = openSync(fileName, 'r');
  let loaded: Library | undefined;

  function library(): Library {
    if (loaded === undefined) {
      const module = { exports: {} };
      const parameters = ['module', 'exports', 'require'];
      const run = compileFunction(readFileSync(file, 'utf8'), parameters, { filename: fileName });
      run(module, module.exports, createRequire(import.meta.url));
      loaded = module.exports as Library;
      // A first look-up, so that the list of encodings is there.
      loaded.encodingExists('utf8');
    }
    return loaded;
  }

  return (operation, encoding, data) => {
    const iconv = library();
    if (operation === 'encodings') {
      return answerValue + JSON.stringify(Object.keys(iconv.encodings).filter((name) => !name.startsWith('_')));
    }
    if (!iconv.encodingExists(encoding)) {
      return `${answerError}the encoding ${JSON.stringify(encoding)} is not known; tailor.iconv.encodings() lists those that are.`;
    }
    if (operation === 'decode') return answerValue + iconv.decode(Buffer.from(data, 'base64'), encoding);
    return answerValue + iconv.encode(data, encoding).toString('base64');
  };
}
