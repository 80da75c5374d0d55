/**
 * The chat on a page of its own (`/chat/`): logs in and speaks `/rpc` itself.
 *
 * Loaded only there, never in the frame. Uses the node page's own session and conversation, so there is one way to
 * the assistant and no second path to a model.
 */

/** @import { Answer, Transport } from '../rpc.d.ts' */
import { Conversation } from './conversation.js';
import { RpcClient } from './rpc.js';
import { enter } from './session.js';
import { element } from './element.js';

/**
 * Logs in, where needed with a form in `place`, and gives the transport.
 * @param {HTMLElement} place
 * @param {HTMLElement} chat hidden while a form is shown
 * @returns {Promise<{ transport: Transport, leave: HTMLButtonElement }>}
 */
export async function alone(place, chat) {
  document.head.append(
    element('link', { rel: 'icon', type: 'image/svg+xml', href: '/icon.svg' }),
    element('link', { rel: 'stylesheet', href: '/aiui/entry.css' }),
  );
  const client = new RpcClient();
  chat.hidden = true;
  await enter(client, place);
  chat.hidden = false;
  // From here on a lost session starts the page anew: the form, then the transcript from the daemon.
  client.onSessionLost = () => location.reload();
  const leave = element('button', { type: 'button', class: 'bare' }, 'Log out');
  leave.addEventListener('click', async () => {
    await client.logout().catch(() => {});
    location.reload();
  });
  return { transport: transportOf(new Conversation(client)), leave };
}

/**
 * @param {Conversation} conversation
 * @returns {Transport}
 */
function transportOf(conversation) {
  return {
    onChanged() {},
    async sendChat(text, onToken, onProgress) {
      conversation.onProgress = onProgress ?? null;
      const answer = await conversation.ask(text);
      onToken?.(answer.text);
      return answer;
    },
    stop: () => conversation.stop(),
    history(onProgress) {
      conversation.onProgress = onProgress ?? null;
      return conversation.history();
    },
    clear: () => conversation.clear(),
  };
}
