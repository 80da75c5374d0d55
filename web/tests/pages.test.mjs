/**
 * The files of the pages, read as they are: what they load, from where, and how they begin.
 *
 * Owns what no browser is needed for.
 */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { describe, test } from 'node:test';

const WEB = new URL('../', import.meta.url);
/** @param {string} name */
const read = (name) => readFileSync(new URL(name, WEB), 'utf8');
/** @param {string} folder */
const files = (folder) => readdirSync(new URL(folder, WEB)).map((name) => `${folder}${name}`);

/**
 * The modules that come with that one, whether it wants or not.
 * @param {string} name
 * @param {Set<string>} [seen]
 */
function together(name, seen = new Set()) {
  if (seen.has(name)) return seen;
  seen.add(name);
  for (const [, from = ''] of read(name).matchAll(/^(?:import|export)[^;]*?from '([^']+)';/gm)) together(posix.join(posix.dirname(name), from), seen);
  return seen;
}

describe('the files', () => {
  test('all modules of the first view are asked for at once, and none of the views that are not open', () => {
    const preloaded = [...read('node/index.html').matchAll(/modulepreload" href="([^"]+)"/g)].map(([, href = '']) => href);
    const order = (/** @type {Iterable<string>} */ names) => [...names].map((name) => (name.startsWith('aiui/') ? `/${name}` : name.slice(4)))
      .sort((a, b) => (a < b ? -1 : 1)).sort((a, b) => Number(b.startsWith('/aiui/')) - Number(a.startsWith('/aiui/')));
    // What asks who is there is first, and does not wait for the page.
    const first = together('node/start.js');
    const rest = [...together('node/main.js')].filter((name) => !first.has(name));
    assert.deepEqual(preloaded, [...order([...first].filter((name) => name !== 'node/start.js')), ...order(rest)]);
    assert.match(read('node/index.html'), /<script type="module" src="\/start\.js"><\/script>\n<link rel="modulepreload"/);
    for (const late of ['people', 'log', 'history', 'settings', 'setup', 'chart', 'grants']) assert.ok(!preloaded.includes(`/${late}.js`), late);
  });

  test('nothing is loaded from anywhere else, and nothing is written as markup', () => {
    for (const name of files('node/')) {
      const text = read(name);
      assert.doesNotMatch(text.replaceAll('http://www.w3.org/2000/svg', ''), /https?:\/\//, name);
      assert.doesNotMatch(text, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function/, name);
    }
  });

  test('every file begins with what it owns', () => {
    for (const name of [...files('node/'), ...files('aiui/'), ...files('tests/'), ...files('bench/')].filter((name) => /\.(m?js|css)$/.test(name))) {
      assert.match(read(name), /^\/\*\*?\n \* [A-Z]/, name);
    }
  });

  test('no file is longer than can be read', () => {
    for (const name of [...files('node/'), ...files('aiui/')]) assert.ok(read(name).split('\n').length <= 430, name);
  });
});
