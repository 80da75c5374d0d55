/**
 * Hostile names and texts on every view: HTML, bidi, zero-width, ANSI, 10 kB. What strangers write is text and nothing else.
 *
 * Owns that no such thing becomes an element, runs, hides, turns the text around, or breaks the page.
 */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { missing, openBrowser, openNode, OUTPUT, PHONE, WIDE } from './browser.mjs';
import { waiting } from './mock-world.mjs';
import { startServer } from './server.mjs';

/** @import { Browser } from 'playwright-core' */
/** @import { Server } from './server.mjs' */

const onMock = process.env.TOMBOLO_BIN ? 'the mock’s world is needed' : false;
const EVIL = '<img src=x onerror="window.ran=1"><b>b</b>\u202e\u2066evil\u200b\u200f\ufeff\u0007\u001b[31m\r\n\u0085\u2028"\'`${x}</script>';
const LONG = `${EVIL}${'Ä'.repeat(10_000)}`;

/** What holds the rows in an answer. */
const ROWS = new Map([
  ['mesh.messages', 'messages'], ['mesh.distress', 'distress'], ['mesh.nodes', 'nodes'], ['assistant.pending', 'pending'], ['assistant.grants-list', 'callers'], ['assistant.list-tools', 'tools'],
  ['assistant.ledger', 'calls'], ['auth.sessions', 'sessions'], ['mesh.history', 'hours'], ['system.log', 'lines'],
]);

describe('hostile names and texts', { skip: missing || onMock }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {Server} */
  let server;
  before(async () => {
    [browser, server] = await Promise.all([openBrowser(), startServer()]);
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  for (const [name, size] of /** @type {[string, typeof WIDE][]} */ ([['1280', WIDE], ['375', PHONE]])) {
    test(`at ${name} px, on every view, in every text that the daemon gives`, async () => {
      const { page, mock, faults, close } = await openNode(browser, server, {
        size,
        change: (world) => {
          poison(world, new Set([
            // What the page decides by, and what is a figure.
            'connected', 'stopped', 'direction', 'caller', 'id', 'pin', 'standing', 'source', 'mode', 'level', 'event', 'key',
          ]));
          world.assistant.denied = [{ asker: EVIL, source: 'node' }];
          world.assistant.warnings = [EVIL];
          world.assistant.pairing = null;
          const [ana] = world.assistant.allowed_contacts;
          if (ana) Object.assign(ana, { key: 'QW5h', foreign_fingerprint: LONG, fingerprint: EVIL });
          world.pending.push(waiting({ id: EVIL, caller: EVIL, name: LONG, tool: EVIL, category: EVIL, arguments: { [EVIL]: LONG } }));
          world.status.refused_radio = { fingerprint: EVIL, owner: LONG, node: EVIL };
        },
      });
      for (const kind of ['security', 'turn_started', 'turn_ended', 'link', 'paused', 'paired', 'changed', EVIL]) {
        mock.events.publish('mesh', { at: Date.now(), event: kind, kind: EVIL, from: EVIL, name: LONG, detail: LONG, reason: LONG, backend: EVIL, tools: [{ name: EVIL, outcome: EVIL }], millis: EVIL, parts: EVIL, by: EVIL, what: LONG, up: EVIL });
      }
      mock.events.publish('turn', { turn_id: EVIL, stage: EVIL, tool: LONG, leg: EVIL });
      mock.events.publish('changed', { what: EVIL });
      mock.events.publish(EVIL.replaceAll(/[\r\n]/g, ''), { [EVIL]: EVIL });
      await page.locator('.card', { hasText: '<img src=x' }).first().waitFor();
      for (const view of ['Status', 'Contacts', 'Log', 'History', 'Node', 'Chat']) {
        await page.locator('#views').getByRole('button', { name: view, exact: true }).click();
        if (view === 'Contacts') for (const button of await page.locator('.person-toggle').all()) await button.click();
        if (view === 'Contacts') for (const summary of await page.locator('.person summary').all()) await summary.click();
        if (view === 'Log') await page.locator('.log-line').first().waitFor();
        if (view === 'History') await page.locator('.chart').first().waitFor();
        if (view === 'Node') await page.getByText('What is allowed now').waitFor();
        assert.equal(await page.locator('#node img, #node b, #node script, #notices img, #notices b').count(), 0, view);
        const shown = await page.locator('body').innerText();
        const hidden = shown.split('\n').filter((line) => /[\u202a-\u202e\u2066-\u2069\u200b\u200f\ufeff\u0007\u001b\u0085\u2028]/.test(line)).map((line) => line.slice(0, 120));
        assert.deepEqual(hidden, [], view);
        if (view !== 'Chat' && view !== 'History') assert.match(shown, /<img src=x onerror=/, `${view}: it is there as text`);
        assert.equal(await page.evaluate(() => /** @type {any} */ (window).ran), undefined, view);
        // One text of 10 kB does not push everything else away.
        const wide = await page.locator('html').evaluate((box) => box.scrollWidth - box.clientWidth);
        assert.equal(wide, 0, view);
        await page.screenshot({ path: `${OUTPUT}hostile-${view.toLowerCase()}-${name}.png` });
      }
      assert.deepEqual(faults, []);
      await close();
    });
  }

  test('a daemon that answers with the wrong forms leaves the page standing', async () => {
    for (const wrong of ['text', [null], [7, 'x'], [{}]]) {
      const { page, mock, world, faults, close } = await openNode(browser, server);
      await page.locator('#disk .meter').first().waitFor();
      await page.route('**/rpc', async (route) => {
        const { id, method } = route.request().postDataJSON();
        if (['auth.whoami', 'mesh.status'].includes(method)) return route.continue();
        const name = ROWS.get(method);
        return route.fulfill({ json: { jsonrpc: '2.0', id, result: name === undefined ? wrong : { [name]: wrong } } });
      });
      for (const view of ['Contacts', 'Log', 'History', 'Node', 'Status']) {
        await page.locator('#views').getByRole('button', { name: view, exact: true }).click();
        // Everything is asked anew; what comes after it shows that the answers were drawn.
        const asked = page.waitForResponse((response) => response.request().postDataJSON()?.method === 'mesh.messages');
        mock.events.publish('reset', {});
        await asked;
        world.status.owner = `after ${view}`;
        await page.locator('#radio', { hasText: `after ${view}` }).waitFor({ state: 'attached' });
      }
      assert.deepEqual(faults, [], JSON.stringify(wrong));
      await close();
    }
  });
});

/**
 * Puts the evil text in the place of every text, however deep.
 * @param {any} value
 * @param {Set<string>} but
 */
function poison(value, but) {
  for (const [key, inner] of Object.entries(value)) {
    if (but.has(key)) continue;
    if (typeof inner === 'string') value[key] = key.length % 2 === 0 ? LONG : EVIL;
    else if (typeof inner === 'object' && inner !== null) poison(inner, but);
  }
}
