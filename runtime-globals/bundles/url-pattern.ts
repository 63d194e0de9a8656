import { URLPattern } from 'urlpattern-polyfill/urlpattern';
import { asInterface } from '../interface.ts';

asInterface('URLPattern', URLPattern);

export { URLPattern };
