export { CompressionStream, DecompressionStream } from '../web/compression.ts';
