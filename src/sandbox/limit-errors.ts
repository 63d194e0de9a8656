import type { ErrorCode } from '../errors.ts';
import type { BodyLimits, Usage } from './protocol.ts';
import type { ErrorKind } from './sandbox.ts';
import type { CodedError } from './wire.ts';

const MiB = 1024 * 1024;

/** The texts clients match on. `used` is always more than the limit, however coarse the measure was. */
export function memoryLimitError(limits: Pick<BodyLimits, 'memoryMb'>, usedBytes: number): CodedError {
  const used = Math.max(limits.memoryMb + 1, Math.ceil(usedBytes / MiB));
  return limitError('MEMORY_LIMIT_EXCEEDED', `Memory limit exceeded: used ${used} MB of ${limits.memoryMb} MB limit`);
}

function cpuLimitError(limits: BodyLimits, usedMs: number): CodedError {
  const used = Math.max(Math.floor(limits.cpuMs) + 1, Math.round(usedMs));
  return limitError('CPU_LIMIT_EXCEEDED', `CPU limit exceeded: used ${used} ms of ${limits.cpuMs} ms limit`);
}

function timeLimitError(limits: BodyLimits, usedMs: number): CodedError {
  const used = Math.max(Math.floor(limits.wallMs) + 1, Math.round(usedMs));
  return limitError('TIME_LIMIT_EXCEEDED', `Time limit exceeded: used ${used} ms of ${limits.wallMs} ms limit`);
}

export function crashError(detail: string): CodedError {
  return limitError('CELL_CRASHED', `The script crashed its sandbox process: ${detail}.`);
}

/** A limit that `meter.sample()` found passed. */
export function passedLimit(which: 'memory' | 'cpu' | 'wall', limits: BodyLimits, usage: Usage): CodedError {
  if (which === 'memory') return memoryLimitError(limits, usage.peakMemoryBytes);
  return which === 'cpu' ? cpuLimitError(limits, usage.cpuMs) : timeLimitError(limits, usage.wallMs);
}

function limitError(code: ErrorCode, message: string): CodedError {
  return { name: 'Error', message, stack: '', code, kind: 'USER_NON_RUNTIME' };
}

const nonRuntime: ReadonlySet<string> = new Set<ErrorCode>([
  'INVALID_SCRIPT',
  'MEMORY_LIMIT_EXCEEDED',
  'CPU_LIMIT_EXCEEDED',
  'TIME_LIMIT_EXCEEDED',
  'PAYLOAD_TOO_LARGE',
  'CELL_CRASHED',
]);
const platform: ReadonlySet<string> = new Set<ErrorCode>(['INTERNAL', 'CELL_LOST', 'UNAVAILABLE', 'OVERLOADED']);

/** behaviour.md 3, "Error kinds": what the script threw, limits and the like, or ours. */
export function kindOf(code: string | undefined): ErrorKind {
  if (code === undefined) return 'USER_RUNTIME';
  if (platform.has(code)) return 'PLATFORM';
  return nonRuntime.has(code) ? 'USER_NON_RUNTIME' : 'USER_RUNTIME';
}
