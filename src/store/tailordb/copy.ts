const code = (character: string) => character.charCodeAt(0);
const [slash, star, dash, semicolon] = ['/', '*', '-', ';'].map(code);
const blanks = new Set([' ', '\t', '\n', '\r', '\f', '\v'].map(code));

/**
 * Whether a single statement is a COPY. That cannot stand inside of another statement, only behind blanks, comments and
 * empty statements; and a function's COPY cannot reach the client. By hand: texts are long, and a script's.
 */
export function isCopy(sql: string): boolean {
  let at = 0;
  for (;;) {
    const first = sql.charCodeAt(at);
    const second = sql.charCodeAt(at + 1);
    if (blanks.has(first) || first === semicolon) at++;
    else if (first === dash && second === dash) at = endOfLine(sql, at);
    else if (first === slash && second === star) at = endOfComment(sql, at);
    else break;
  }
  return /^copy(?![\w$\u0080-\uffff])/i.test(sql.slice(at, at + 5));
}

function endOfLine(sql: string, from: number): number {
  let at = from;
  while (at < sql.length && sql[at] !== '\n' && sql[at] !== '\r') at++;
  return at;
}

/** Comments nest. */
function endOfComment(sql: string, from: number): number {
  let depth = 0;
  for (let at = from; at < sql.length; at++) {
    const first = sql.charCodeAt(at);
    const second = sql.charCodeAt(at + 1);
    if (first === slash && second === star) {
      depth++;
      at++;
    } else if (first === star && second === slash) {
      at++;
      if (--depth === 0) return at + 1;
    }
  }
  return sql.length;
}
