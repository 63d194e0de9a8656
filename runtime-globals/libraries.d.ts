declare module 'whatwg-url/webidl2js-wrapper.js' {
  interface Interface {
    install(target: object, globalNames: string[]): void;
    is(value: unknown): boolean;
  }
  export const URL: Interface;
  export const URLSearchParams: Interface;
}

declare module '@exodus/bytes/encoding.js' {
  export class TextDecoder {
    constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
    readonly encoding: string;
    decode(input?: Uint8Array, options?: { stream?: boolean }): string;
  }
}
