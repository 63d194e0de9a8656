declare module 'whatwg-url/webidl2js-wrapper.js' {
  interface Interface {
    install(target: object, globalNames: string[]): void;
    is(value: unknown): boolean;
  }
  export const URL: Interface;
  export const URLSearchParams: Interface;
}
