import { URLPattern } from 'urlpattern-polyfill/urlpattern';
import { asInterface } from '../interface.ts';

// Of no standard yet.
delete (URLPattern as { compareComponent?: unknown }).compareComponent;
asInterface('URLPattern', URLPattern);

export { URLPattern };
