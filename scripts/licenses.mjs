// The licences of the npm packages whose code stands in the build itself. Those that dist/ imports at run time bring
// their own along in node_modules.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..');
const licenceFile = /^(?:licen[cs]e|copying|notice)(?:[-.](?:md|txt|mit|apache2?))?$/i;

/** @param metafiles esbuild's accounts of what it bundled. @returns the folders of the packages of which something is in there */
export function packagesIn(metafiles) {
  const folders = new Set();
  for (const { outputs } of metafiles) {
    for (const { inputs } of Object.values(outputs)) {
      for (const [file, { bytesInOutput }] of Object.entries(inputs)) {
        const folder = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0];
        if (folder !== undefined && bytesInOutput > 0) folders.add(folder);
      }
    }
  }
  return [...folders].sort();
}

/** The text of LICENSES.txt. @throws Error for a package that brings no licence along: it must not be given on then */
export function licensesOf(folders) {
  const head =
    'jobcell stands under the Apache License 2.0. These files also contain code of the following packages, under the\nlicences that they brought along.\n';
  return [head, ...folders.map(section)].join(`\n${'-'.repeat(80)}\n\n`);
}

function section(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));
  const files = readdirSync(join(root, folder)).filter((file) => licenceFile.test(file));
  if (files.length === 0) throw new Error(`${folder} has no licence file, and its code is bundled into dist/.`);
  const texts = files.sort().map((file) => readFileSync(join(root, folder, file), 'utf8').trim());
  return `${name} ${version} (${license})\n\n${texts.join('\n\n')}\n`;
}
