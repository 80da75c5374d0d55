/**
 * The simulated radio of a daemon under test, as a process that a test drives: `tombolo sim --control`.
 *
 * Owns starting, commanding and stopping it, and what its peers have heard. What it does is the simulator's matter.
 */

import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** What a peer hears comes after airtime, gaps and retries; later than this it does not come. */
const HEARS_MS = 40_000;
/** A fast modem under a law that counts airtime, and peers that everybody knows. */
export const MESH = [
  '[radio]', 'region = "EU_868"', 'preset = "SHORT_FAST"',
  '[[peer]]', 'name = "Ana"', 'id = "!a1b2c3d4"',
  '[[peer]]', 'name = "Ben"', 'id = "!b0b0b0b2"',
  '[[peer]]', 'name = "Mallory"', 'id = "!0badcafe"', '',
].join('\n');

/** @typedef {'say' | 'change' | 'learn_key' | 'reboot' | 'drop_link'} Deed */

/** The public key that a simulated peer of that name has, in base64. @param {string} name */
export function keyOf(name) {
  return createHash('sha256').update(`simulated public key of ${name}`).digest('base64');
}

/** Its fingerprint, as operators compare it. @param {string} name */
export function printOf(name) {
  const digest = createHash('sha256').update(Buffer.from(keyOf(name), 'base64')).digest('hex');
  return digest.slice(0, 16).match(/.{4}/g)?.join(' ') ?? '';
}

/** The line of `allowed_contacts` that makes a peer a contact with its key. @param {string} name @param {string} id */
export function contact(name, id) {
  return `{ id = "${id}", key = "${keyOf(name)}", name = "${name}" }`;
}

export class Radio {
  #binary;
  #folder;
  #port;
  /** @type {import('node:child_process').ChildProcessWithoutNullStreams | null} */
  #child = null;
  /** Commands of the running simulator. */
  #line = 0;
  /** @type {Map<number, { resolve: () => void, reject: (fault: Error) => void }>} */
  #waiting = new Map();
  /** @type {Map<string, string[]>} */
  #heard = new Map();
  /** @type {Set<() => void>} */
  #listeners = new Set();

  /**
   * @param {string} binary
   * @param {string} folder for its scenario
   * @param {number} port where it listens whenever it is on
   */
  constructor(binary, folder, port) {
    this.#binary = binary;
    this.#folder = folder;
    this.#port = port;
  }

  get url() {
    return `tcp://127.0.0.1:${this.#port}`;
  }

  /**
   * Switches it on, and is done when it listens.
   * @param {string} [scenario] who is in the mesh
   */
  async on(scenario = MESH) {
    const path = join(this.#folder, 'mesh.toml');
    writeFileSync(path, scenario);
    const child = spawn(this.#binary, ['sim', '--listen', `127.0.0.1:${this.#port}`, '--control', '--scenario', path]);
    this.#child = child;
    this.#line = 0;
    let said = '';
    createInterface({ input: child.stderr }).on('line', (line) => {
      said += `${line}\n`;
      const [, number = '', problem = ''] = /^line (\d+): (.*)$/.exec(line) ?? [];
      this.#settle(Number(number), new Error(problem));
    });
    await new Promise((resolve, reject) => {
      child.once('exit', () => reject(new Error(`the simulator ended: ${said}`)));
      createInterface({ input: child.stdout }).on('line', (line) => {
        if (line.startsWith('peers: ')) resolve(undefined);
        const [, done] = /^line (\d+): done$/.exec(line) ?? [];
        if (done !== undefined) return this.#settle(Number(done), null);
        const [, peer, text] = /^(.+?) hears(?: on channel \d+)?: (.*)$/.exec(line) ?? [];
        if (peer === undefined || text === undefined) return;
        this.heard(peer).push(unescaped(text));
        for (const listener of this.#listeners) listener();
      });
    });
  }

  /** Switches it off. What was heard stays known. */
  async off() {
    const child = this.#child;
    this.#child = null;
    if (child === null || child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await gone;
  }

  /**
   * A peer says something to our radio, or on a channel; under another's number where it claims one.
   * @param {string} peer
   * @param {string} text
   * @param {{ claims?: string, channel?: number }} [how]
   */
  say(peer, text, how = {}) {
    return this.#command('say', { peer, text, ...how });
  }

  /**
   * A peer changes: out of reach, deaf, forgetful.
   * @param {string} peer
   * @param {{ reachable?: boolean, drop_acks?: boolean, forgets_our_key?: boolean, loss?: number }} change
   */
  change(peer, change) {
    return this.#command('change', { peer, ...change });
  }

  /** Our radio holds that peer's key for the number. @param {string} id @param {string} peer */
  learnKey(id, peer) {
    return this.#command('learn_key', { id, peer });
  }

  /** @param {number} [downtime] seconds */
  reboot(downtime = 0) {
    return this.#command('reboot', { downtime });
  }

  dropLink() {
    return this.#command('drop_link', {});
  }

  /** What a peer has heard, oldest first. @param {string} peer @returns {string[]} */
  heard(peer) {
    let texts = this.#heard.get(peer);
    if (texts === undefined) this.#heard.set(peer, (texts = []));
    return texts;
  }

  /**
   * Waits until a peer has heard so many texts; all of them.
   * @param {string} peer
   * @param {number} count
   * @returns {Promise<string[]>}
   */
  hears(peer, count) {
    return new Promise((resolve, reject) => {
      const look = () => {
        if (this.heard(peer).length < count) return;
        clearTimeout(timer);
        this.#listeners.delete(look);
        resolve(this.heard(peer));
      };
      const timer = setTimeout(() => {
        this.#listeners.delete(look);
        reject(new Error(`${peer} heard ${this.heard(peer).length} of ${count} texts: ${JSON.stringify(this.heard(peer))}`));
      }, HEARS_MS);
      this.#listeners.add(look);
      look();
    });
  }

  /**
   * @param {Deed} deed
   * @param {Record<string, unknown>} how
   * @returns {Promise<void>}
   */
  #command(deed, how) {
    const child = this.#child;
    if (child === null) throw new Error('the radio is off');
    const line = (this.#line += 1);
    return new Promise((resolve, reject) => {
      this.#waiting.set(line, { resolve, reject });
      child.stdin.write(`${JSON.stringify({ [deed]: how })}\n`);
    });
  }

  /**
   * @param {number} line
   * @param {Error | null} problem
   */
  #settle(line, problem) {
    const waiting = this.#waiting.get(line);
    this.#waiting.delete(line);
    if (problem === null) waiting?.resolve();
    else waiting?.reject(problem);
  }
}

/** A text as it was before it was escaped for the terminal. @param {string} text */
function unescaped(text) {
  /** @type {Record<string, string>} */
  const plain = { n: '\n', r: '\r', t: '\t', 0: '\0' };
  return text.replace(/\\(?:u\{([0-9a-f]+)\}|(.))/g, (_, code, letter) =>
    code === undefined ? plain[letter] ?? letter : String.fromCodePoint(parseInt(code, 16)));
}
