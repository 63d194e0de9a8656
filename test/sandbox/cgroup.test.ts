import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import { beforeEach, expect, inject, test } from 'vitest';
import { openCellCgroups } from '../../src/sandbox/cgroup.ts';

/**
 * The files that the kernel would show. Whether it then kills what it should was not tested anywhere: no machine with
 * cgroup v2 was at hand (docs/security.md).
 */
let root: string;
let logged: string;

const pid = 4711;
const logger = () =>
  pino(
    { base: null },
    new Writable({
      write(chunk, _encoding, done) {
        logged += String(chunk);
        done();
      },
    }),
  );

function place(files: Record<string, string>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(root, name, '..'), { recursive: true });
    writeFileSync(join(root, name), text);
  }
}

const text = (name: string) => readFileSync(join(root, name), 'utf8');
const open = () => openCellCgroups(logger(), { proc: join(root, 'proc'), pid });

beforeEach(() => {
  root = mkdtempSync(join(inject('runFolder'), 'cgroup-'));
  logged = '';
  place({
    'proc/cgroup': '4:memory:/old\n0::/system.slice/jobcell.service\n',
    'proc/mountinfo': `30 23 0:27 / ${root}/cg rw,relatime shared:9 - cgroup2 cgroup2 rw\n31 23 0:28 / /tmp rw - tmpfs tmpfs rw\n`,
    'cg/system.slice/jobcell.service/cgroup.controllers': 'cpu memory pids\n',
    'cg/system.slice/jobcell.service/cgroup.subtree_control': '',
    'cg/system.slice/jobcell.service/cgroup.type': 'domain\n',
    'cg/system.slice/jobcell.service/cgroup.procs': `${pid}\n`,
  });
});
const own = 'cg/system.slice/jobcell.service';

test('the server moves into a leaf of its own and lets its cells have the memory controller', () => {
  const cgroups = open();
  expect(logged).toContain('cells have a memory.max of the kernel');
  expect(text(`${own}/jobcell-server/cgroup.procs`)).toBe(String(pid));
  expect(text(`${own}/cgroup.subtree_control`)).toBe('+memory');

  const cell = cgroups!.create(99)!;
  const folder = `${own}/jobcell-cell-99`;
  expect(text(`${folder}/cgroup.procs`)).toBe('99');
  place({ [`${folder}/memory.current`]: '1000\n', [`${folder}/memory.max`]: 'max\n' });
  const outer = cell.limitGrowth(500);
  expect([outer, text(`${folder}/memory.max`)]).toEqual(['max', '1500']);
  cell.restore(outer);
  expect(text(`${folder}/memory.max`)).toBe('max');
  expect(cell.killedForMemory()).toBe(false);
  place({ [`${folder}/memory.events`]: 'low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\n' });
  expect(cell.killedForMemory()).toBe(true);
});

test('what a killed server left behind is removed', () => {
  mkdirSync(join(root, own, 'jobcell-cell-1'));
  open();
  expect(existsSync(join(root, own, 'jobcell-cell-1'))).toBe(false);
});

test('the root of the hierarchy may hold processes', () => {
  place({
    'proc/cgroup': '0::/\n',
    'cg/cgroup.controllers': 'memory',
    'cg/cgroup.subtree_control': '',
    'cg/cgroup.procs': '1 2 3',
  });
  expect(open()).toBeDefined();
  expect(existsSync(join(root, 'cg/jobcell-server'))).toBe(false);
});

test.each<[string, Record<string, string>, string]>([
  ['no cgroup v2', { 'proc/cgroup': '4:memory:/old\n' }, 'there is no cgroup v2 here'],
  ['it is not mounted', { 'proc/mountinfo': '31 23 0:28 / /tmp rw - tmpfs tmpfs rw\n' }, 'is not mounted'],
  ['no memory controller', { [`${own}/cgroup.controllers`]: 'cpu\n' }, 'the memory controller is not available'],
  ['other processes beside the server', { [`${own}/cgroup.procs`]: `1\n${pid}\n` }, 'holds 1 other processes'],
])('says once why there is none: %s', (_, files, reason) => {
  place(files);
  expect(open()).toBeUndefined();
  expect(logged.trim().split('\n')).toHaveLength(1);
  expect(JSON.parse(logged)).toMatchObject({ level: 30, msg: expect.stringContaining(reason) });
});

test('on this machine it finds out without harm', () => {
  openCellCgroups(logger());
  expect(JSON.parse(logged)).toMatchObject({ level: 30, msg: expect.stringContaining('memory.max') });
});
