export { fetch } from '../web/fetch.ts';
export { Headers } from '../web/headers.ts';
export { Request } from '../web/request.ts';
export { Response } from '../web/response.ts';
