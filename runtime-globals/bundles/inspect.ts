export { inspect } from '../inspect/inspect.ts';
export { formatArguments } from '../inspect/printf.ts';
export { tableOf } from '../inspect/table.ts';
