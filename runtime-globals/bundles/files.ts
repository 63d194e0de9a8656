export { Blob, chunksOf, File, isBlob, ownBlob } from '../web/blob.ts';
export { entriesOf, FormData, isFormData } from '../web/form-data.ts';
export { decodeForm, encodeForm } from '../web/multipart.ts';
