import 'web-streams-polyfill';

declare module 'web-streams-polyfill' {
  /** Added by scripts/streams-library.mjs: where the library keeps the state of a stream. */
  export const $disturbed: unique symbol;
  export const $state: unique symbol;
}
