/**
 * The mock's `GET /events`: a ring of events, and the pages that listen.
 *
 * Owns the form of the stream. What happens is told by the mock and by tests.
 */

/** @import { ServerResponse } from 'node:http' */

const KEEP_ALIVE_MS = 15_000;
const RING = 1024;

/** @typedef {{ role: string, session: string }} Listener */

export class MockEvents {
  /** @type {Map<ServerResponse, Listener>} */
  #listeners = new Map();
  /** @type {{ number: number, name: string, data: string, operators: boolean }[]} */
  #ring = [];
  #number = 0;
  #boots = 0;
  boot = 'boot1';
  /** What each page said when it came: its `Last-Event-ID`. @type {string[]} */
  asked = [];
  /** With `false` there is no such path. */
  there = true;

  /** A new start: the numbers begin anew, and nobody listens. */
  restart() {
    this.close();
    this.#ring = [];
    this.#number = 0;
    this.boot = `boot${1 + ++this.#boots}`;
  }

  /** How many listen. */
  get count() {
    return this.#listeners.size;
  }

  /**
   * @param {ServerResponse} response
   * @param {Listener} listener
   * @param {string} lastId
   */
  open(response, listener, lastId) {
    this.asked.push(lastId);
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    const from = lastId.startsWith(`${this.boot}-`) ? Number(lastId.slice(this.boot.length + 1)) : null;
    const reaches = from !== null && from <= this.#number && from >= (this.#ring[0]?.number ?? this.#number + 1) - 1;
    const cursor = reaches ? from : this.#number;
    response.write(`retry: 2000\nid: ${this.boot}-${cursor}\nevent: hello\ndata: ${JSON.stringify({ boot: this.boot })}\n\n`);
    if (lastId !== '' && !reaches) response.write(`id: ${this.boot}-${cursor}\nevent: reset\ndata: {}\n\n`);
    for (const item of this.#ring) if (item.number > cursor) this.#write(response, listener, item);
    this.#listeners.set(response, listener);
    const keepAlive = setInterval(() => this.#listeners.has(response) && response.write(': keep-alive\n\n'), KEEP_ALIVE_MS);
    response.on('close', () => {
      clearInterval(keepAlive);
      this.#listeners.delete(response);
    });
  }

  /**
   * @param {string} name
   * @param {object} data
   * @param {{ operators?: boolean }} [options]
   */
  publish(name, data, { operators = false } = {}) {
    const item = { number: ++this.#number, name, data: JSON.stringify(data), operators };
    this.#ring.push(item);
    if (this.#ring.length > RING) this.#ring.shift();
    for (const [response, listener] of this.#listeners) this.#write(response, listener, item);
  }

  /**
   * @param {ServerResponse} response
   * @param {Listener} listener
   * @param {{ number: number, name: string, data: string, operators: boolean }} item
   */
  #write(response, { role }, { number, name, data, operators }) {
    if (operators && role !== 'operator') return;
    response.write(`id: ${this.boot}-${number}\nevent: ${name}\ndata: ${data}\n\n`);
  }

  /** Ends the lines of a session that is over. @param {string} session */
  end(session) {
    for (const [response, listener] of this.#listeners) {
      if (listener.session !== session) continue;
      this.#listeners.delete(response);
      response.end();
    }
  }

  /** Breaks all lines off. */
  close() {
    for (const response of this.#listeners.keys()) response.destroy();
    this.#listeners.clear();
  }
}
