/**
 * Starts the chat: in the node page's frame by the bridge, on a page of its own by `/rpc`.
 *
 * Owns which of the two it is. Everything that is seen is `view.js`.
 */

/** @import { Transport } from '../rpc.d.ts' */
import { byId } from './element.js';
import { ChatView } from './view.js';

const chat = byId('chat', HTMLElement);

/** @returns {Promise<Transport>} */
async function transport() {
  if (window.parent !== window) {
    const { archyBridge } = await import('./bridge.js');
    return archyBridge;
  }
  document.body.classList.add('alone');
  const { alone } = await import('./alone.js');
  const { transport, leave } = await alone(byId('entry', HTMLElement), chat);
  byId('bar-actions', HTMLElement).append(leave);
  return transport;
}

const view = new ChatView(chat, await transport());
await view.restore();
if (document.body.classList.contains('alone')) view.focus();
