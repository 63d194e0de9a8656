import { domainToASCII } from 'node:url';
import type { Outward } from '../boundary.ts';
import type { BodyReplay } from '../protocol.ts';
import { chanceBlock, clockText } from './replay.ts';

type Question = Extract<Outward, ['clock' | 'chance' | 'domain' | 'url', ...unknown[]]>;

/** What an isolate asks and the cell knows without anybody else, as text. */
export function answerAtOnce(question: Question, replay: BodyReplay | null): string {
  switch (question[0]) {
    case 'clock':
      return clockText(replay, question[1]);
    case 'chance':
      return chanceBlock(replay, question[1], question[2]);
    case 'domain':
      return domainToASCII(question[1]);
    case 'url':
      return urlText(question[1]);
  }
}

function urlText(text: string): string {
  const url = URL.parse(text);
  if (url === null) return '';
  return `${url.username === '' && url.password === '' ? 'v' : 'c'}${url.href}`;
}
