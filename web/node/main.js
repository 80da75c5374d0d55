/**
 * Starts the node page: gets the operator in, puts the chat into its frame, keeps the status up to date.
 *
 * Owns what of the page is shown when, and that a lost session ends everything that ran on it.
 */

/** @import { Snapshot } from './feed.js' */
import { Conversation } from '../aiui/conversation.js';
import { byId, element } from '../aiui/element.js';
import { RpcClient } from '../aiui/rpc.js';
import { enter, mark } from '../aiui/session.js';
import { airtimePanel } from './airtime.js';
import { assistantPanel } from './assistant.js';
import { Broker } from './broker.js';
import { contactsPanel } from './contacts.js';
import { diskPanel } from './disk.js';
import { Feed, STALE_MS } from './feed.js';
import { showGlance } from './glance.js';
import { messagesPanel } from './messages.js';
import { nodesPanel } from './nodes.js';
import { refreshAges } from './panel.js';
import { radioPanel } from './radio.js';
import { duration } from './units.js';

const client = new RpcClient();
const entry = byId('entry', HTMLElement);
const page = byId('node', HTMLElement);
const chatPane = byId('chat-pane', HTMLElement);
const statusPane = byId('status-pane', HTMLElement);
const stale = byId('stale', HTMLElement);

byId('brand-mark', HTMLElement).append(mark());

/**
 * One login, from its begin to its end. Resolves with what to say at the next one.
 * @returns {Promise<string>}
 */
async function session() {
  const panels = [
    radioPanel(), airtimePanel(), assistantPanel(), messagesPanel(), contactsPanel(), nodesPanel(), diskPanel(),
  ];
  statusPane.replaceChildren(...panels.map((panel) => panel.element));
  page.hidden = false;

  const frame = element('iframe', {
    title: 'Chat with the assistant', sandbox: 'allow-scripts', allow: 'clipboard-write', src: '/aiui/',
  });
  // The broker listens before the frame can speak.
  const broker = new Broker(frame, new Conversation(client));
  chatPane.replaceChildren(frame);

  /** @type {Snapshot | null} */
  let latest = null;
  const began = Date.now();
  const feed = new Feed(client, (snapshot) => {
    latest = snapshot;
    for (const panel of panels) panel.show(snapshot);
    showGlance(snapshot);
    tick();
  });
  const tick = () => {
    refreshAges(page, client.now());
    const silent = Date.now() - (latest?.at || began);
    const old = silent > STALE_MS && latest?.failing !== false;
    page.classList.toggle('is-stale', old);
    const line = old
      ? `The node does not answer. What is shown is ${latest?.at ? `${duration(silent)} old` : 'not known yet'}; trying again.`
      : '';
    // Written only when it begins or ends, and each ten seconds: a screen reader reads every change.
    if ((line === '') !== (stale.textContent === '') || Math.round(silent / 1000) % 10 === 0) stale.textContent = line;
  };
  const ticking = setInterval(tick, 1000);

  const notice = await new Promise((/** @type {(notice: string) => void} */ resolve) => {
    client.onSessionLost = () => resolve('Your session has ended. Log in to go on; the conversation is kept.');
    byId('logout', HTMLButtonElement).onclick = async () => {
      await client.logout().catch(() => {});
      resolve('');
    };
  });

  client.onSessionLost = () => {};
  clearInterval(ticking);
  feed.end();
  broker.end();
  // Nothing of a session stays on the screen after it.
  chatPane.replaceChildren();
  statusPane.replaceChildren();
  stale.textContent = '';
  page.hidden = true;
  return notice;
}

/** @param {'chat' | 'status'} view which of the two a narrow page shows; a wide one shows both */
function show(view) {
  page.dataset.view = view;
  for (const name of ['chat', 'status']) {
    byId(`view-${name}`, HTMLButtonElement).setAttribute('aria-pressed', String(name === view));
  }
}
byId('view-chat', HTMLButtonElement).addEventListener('click', () => show('chat'));
byId('view-status', HTMLButtonElement).addEventListener('click', () => show('status'));
show('chat');

for (let notice = ''; ; ) {
  await enter(client, entry, notice === '' ? {} : { notice });
  notice = await session();
}
