/**
 * Starts the node page: gets the operator in, while the rest of the page is on its way.
 *
 * Owns only that order: who is there is asked before anything is known of the page, so that neither waits for the other.
 */

import { byId } from '../aiui/element.js';
import { RpcClient } from '../aiui/rpc.js';
import { enter } from '../aiui/session.js';

const client = new RpcClient();
const entry = byId('entry', HTMLElement);
const page = import('./main.js');

for (let notice = ''; ; ) {
  const first = await enter(client, entry, notice === '' ? {} : { notice });
  const { session } = await page;
  notice = await session(client, first);
}
