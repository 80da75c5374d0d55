/**
 * The node page while there is a session: puts the chat into its frame, keeps the status up to date.
 *
 * Owns what of the page is there when, and that a lost session ends everything that ran on it.
 */

/** @import { RpcClient } from '../aiui/rpc.js' */
/** @import { Context } from './panel.js' */
/** @import { Snapshot } from './parts.js' */
/** @import { MeshEvent } from '../rpc.d.ts' */
import { Conversation } from '../aiui/conversation.js';
import { byId, element } from '../aiui/element.js';
import { mark } from '../aiui/session.js';
import { visibleName } from '../aiui/untrusted.js';
import { airtimePanel } from './airtime.js';
import { assistantPanel } from './assistant.js';
import { attentionBand, stopAll } from './attention.js';
import { Broker } from './broker.js';
import { contactsPanel } from './contacts.js';
import { diskPanel } from './disk.js';
import { distressStrip } from './distress.js';
import { Feed, STALE_MS } from './feed.js';
import { act } from './form.js';
import { showGlance } from './glance.js';
import { messagesPanel } from './messages.js';
import { nodesPanel } from './nodes.js';
import { notice } from './notice.js';
import { refreshAges } from './panel.js';
import { refreshCountdowns } from './pending.js';
import { setupBegun, setupLine } from './progress.js';
import { radioPanel } from './radio.js';
import { securityKind, securityPanel } from './security.js';
import { duration } from './units.js';
import { Views } from './views.js';

const page = byId('node', HTMLElement);
const chatPane = byId('chat-pane', HTMLElement);
const statusPane = byId('status-pane', HTMLElement);
const stale = byId('stale', HTMLElement);
const stopPlace = byId('stop-all', HTMLElement);

byId('brand-mark', HTMLElement).append(mark());

/**
 * One login, from its begin to its end. Resolves with what to say at the next one.
 * @param {RpcClient} client
 * @param {boolean} first the password was set just now
 * @returns {Promise<string>}
 */
export async function session(client, first) {
  if (first) setupBegun();
  const operator = client.role === 'operator';
  page.dataset.role = client.role;
  page.hidden = false;
  const began = Date.now();
  /** @type {Snapshot | null} */
  let latest = null;
  /** @type {Views | null} */
  let views = null;
  /** @type {Broker | null} */
  let broker = null;
  const feed = new Feed(client, (snapshot) => {
    latest = snapshot;
    // What one part can't draw must not keep the others from being drawn, least of all the band.
    for (const part of [strip, band, ...panels, ...(views === null ? [] : [views])]) {
      try {
        part.show(snapshot);
      } catch (fault) {
        reportError(fault);
      }
    }
    showGlance(snapshot);
    tick();
  });
  /** @type {Context} */
  const context = {
    client, feed, operator,
    open: (view) => void views?.open(view),
    chatChanged: () => broker?.changed(),
  };
  const panels = [
    radioPanel(), airtimePanel(), assistantPanel(), securityPanel(), messagesPanel(context), contactsPanel(context), nodesPanel(context),
    diskPanel(),
  ];
  statusPane.replaceChildren(element('div', { class: 'panels' }, ...panels.map((panel) => panel.element)));
  const strip = distressStrip(context);
  const band = attentionBand(context, () => (latest === null || views?.current === 'setup' ? '' : setupLine(latest)));
  if (operator) stopPlace.replaceChildren(act('Stop all', () => stopAll(context, false), { class: 'stop', sure: 'Stop now?' }));

  if (operator) {
    const frame = element('iframe', {
      title: 'Chat with the assistant', sandbox: 'allow-scripts', allow: 'clipboard-write', src: '/aiui/',
    });
    const conversation = new Conversation(client);
    feed.onTurn = (turn) => conversation.heard(turn);
    // The broker listens before the frame can speak.
    broker = new Broker(frame, conversation);
    chatPane.replaceChildren(frame);
  }
  views = new Views(context);
  feed.onMesh = said;

  const tick = () => {
    const now = client.now();
    refreshAges(page, now);
    refreshCountdowns(page);
    const silent = Date.now() - (latest?.at || began);
    const old = silent > STALE_MS && latest?.failing !== false;
    page.classList.toggle('is-stale', old);
    const line = old
      ? `The node does not answer. What is shown is ${latest?.at ? `${duration(silent)} old` : 'not known yet'}; trying again.`
      : '';
    // Written only when it begins or ends, and each ten seconds: a screen reader reads every change.
    if ((line === '') !== (stale.textContent === '') || Math.round(silent / 1000) % 10 === 0) stale.textContent = line;
    if (latest !== null && latest.pending?.some(({ until }) => until < Date.now() && until > Date.now() - 2000)) band.show(latest);
  };
  const ticking = setInterval(tick, 1000);

  const end = await new Promise((/** @type {(notice: string) => void} */ resolve) => {
    client.onSessionLost = () => resolve('Your session has ended. Log in to go on; the conversation is kept.');
    byId('logout', HTMLButtonElement).onclick = async () => {
      await client.logout().catch(() => {});
      resolve('');
    };
  });

  client.onSessionLost = () => {};
  clearInterval(ticking);
  feed.end();
  broker?.end();
  views.end();
  // Nothing of a session stays on the screen after it.
  chatPane.replaceChildren();
  statusPane.replaceChildren();
  stopPlace.replaceChildren();
  byId('distress', HTMLElement).replaceChildren();
  byId('attention', HTMLElement).replaceChildren();
  byId('notices', HTMLElement).replaceChildren();
  stale.textContent = '';
  document.title = 'Tombolo';
  page.hidden = true;
  return end;
}

/**
 * What is said when it happens, whichever view is open.
 * @param {MeshEvent} event
 */
function said(event) {
  if (event.event === 'security') {
    const [tone, word] = securityKind(event.kind);
    if (tone !== 'plain') notice(`Security: ${word}, ${visibleName(event.from)}.`, tone);
  } else if (event.event === 'paired') {
    notice(`${visibleName(event.name)} is paired: key pinned and confirmed.`, 'good', `paired ${event.name}`);
  }
}
