export { structuredClone } from '../web/structured-clone.ts';
