import type ivm from 'isolated-vm';
import type { ScriptSource } from '../protocol.ts';
import type { BootedIsolate } from './isolates.ts';
import type { CachedScript } from './scripts.ts';

/** A script that does not compile, or whose top level threw. */
export class ScriptFailure extends Error {
  readonly phase: 'compile' | 'evaluate';

  constructor(phase: 'compile' | 'evaluate', cause: unknown) {
    super('The script failed.', { cause });
    this.phase = phase;
  }
}

/**
 * Compiles and evaluates a script by the asynchronous API, since it is the user's code. Resolves with a module's
 * namespace, or undefined for a classic script.
 * @throws ScriptFailure
 */
export function evaluate(
  booted: BootedIsolate,
  source: ScriptSource,
  script: CachedScript,
): Promise<ivm.Reference | undefined> {
  return source.format === 'module' ? evaluateModule(booted, source, script) : evaluateScript(booted, source, script);
}

async function evaluateScript(
  { isolate, context }: BootedIsolate,
  source: ScriptSource,
  script: CachedScript,
): Promise<undefined> {
  const { fileName: filename } = source;
  // The value of a script crosses the boundary, so it must not be the user's.
  const text = `${script.text}\n;void 0`;
  const cache = script.cachedData === undefined ? { produceCachedData: true } : { cachedData: script.cachedData };
  const compiled: ivm.Script & { cachedData?: ivm.ExternalCopy<ArrayBuffer> } = await isolate
    .compileScript(text, { filename, ...cache })
    .catch(as('compile'));
  script.cachedData ??= compiled.cachedData;
  await compiled.run(context).catch(as('evaluate'));
}

async function evaluateModule(
  { isolate, context }: BootedIsolate,
  source: ScriptSource,
  script: CachedScript,
): Promise<ivm.Reference> {
  const { fileName: filename } = source;
  const module = await isolate.compileModule(script.text, { filename }).catch(as('compile'));
  // No code of the module runs here, and without imports there is nothing to link.
  try {
    module.instantiateSync(context, refuseImport);
  } catch (error) {
    throw new ScriptFailure('compile', error);
  }
  try {
    await module.evaluate();
  } catch (error) {
    if (isolate.isDisposed || !(await wasEvaluated(isolate, context, module)))
      throw new ScriptFailure('evaluate', error);
    // Only a rejection nobody handled; it fails nothing (D34).
  }
  return module.namespace;
}

/**
 * Asynchronous throughout: a synchronous call into an isolate also runs the microtasks that wait in it, here.
 *
 * isolated-vm rejects an evaluation for a stray unhandled rejection as well as for a throw. A module that imports the
 * first one tells the two apart: its own binding is initialised only if the first was evaluated.
 */
async function wasEvaluated(isolate: ivm.Isolate, context: ivm.Context, module: ivm.Module): Promise<boolean> {
  const probe = await isolate.compileModule("import 'script'; export const evaluated = true;", {
    filename: 'jobcell:probe',
  });
  await probe.instantiate(context, () => module);
  try {
    await probe.evaluate();
    return (await probe.namespace.get('evaluated', { copy: true })) === true;
  } catch {
    return false;
  }
}

function refuseImport(specifier: string): never {
  throw new SyntaxError(`Cannot import '${specifier}': bundle the script into one file.`);
}

const as = (phase: 'compile' | 'evaluate') => (error: unknown) => {
  throw new ScriptFailure(phase, error);
};
