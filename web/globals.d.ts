/**
 * What the pages find on `window` beyond the standard types.
 *
 * Owns declarations only: nothing here is served.
 */
import type { Transport } from './rpc.d.ts';

declare global {
  interface Window {
    /** AIUI's own side of the bridge: `sendChat(text, onToken)`. */
    archyBridge?: Transport;
  }
}
