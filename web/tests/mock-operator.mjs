/**
 * What the mock does when the operator changes something: contacts, grants, confirmations, sessions.
 *
 * Owns the rules that the pages meet (who may, which field is wrong). They are written after the contract; the proof
 * that the daemon does the same is the daemon's tests.
 */

import { randomInt } from 'node:crypto';

/** @import { World } from './mock-world.mjs' */

/** A refusal as the mock server turns into an error. */
export class Refused extends Error {
  /**
   * @param {string} name
   * @param {string} message
   * @param {Record<string, unknown>} [data]
   */
  constructor(name, message, data = {}) {
    super(message);
    this.refusal = name;
    this.data = data;
  }
}

/**
 * @param {string} field
 * @param {string} message
 */
function wrong(field, message) {
  return new Refused('invalid_params', message, { field, detail: message });
}

export class MockOperator {
  /** What was called with what, oldest first: what the pages did, as against what they say. @type {{ method: string, params: any }[]} */
  calls = [];

  /**
   * @param {() => World} world
   * @param {(what: string) => void} changed
   */
  constructor(world, changed) {
    this.world = world;
    this.changed = changed;
  }

  /**
   * Runs a method of the operator's; `undefined` when it is none of these.
   * @param {string} method
   * @param {any} params
   * @returns {unknown}
   */
  run(method, params) {
    const world = this.world();
    const changes = [
      'mesh.assistant-configure', 'mesh.peer-accept-key', 'mesh.radio-accept', 'mesh.stop-all', 'mesh.distress-clear', 'mesh.pair', 'mesh.send', 'assistant.grants-set', 'assistant.confirm-tool',
    ];
    if (changes.includes(method)) this.calls.push({ method, params });
    switch (method) {
      case 'assistant.pending': return { pending: world.pending };
      case 'assistant.grants-list': return { callers: world.grants, warning: world.grantsWarning };
      case 'assistant.list-tools': return { tools: world.tools };
      case 'assistant.ledger': return { calls: world.ledger.slice(-params.limit) };
      case 'mesh.distress': return { distress: world.distress };
      case 'mesh.distress-clear': {
        const call = world.distress.find(({ id }) => id === params.id);
        if (call === undefined) throw wrong('id', 'no distress text has this id');
        call.seen_at ??= Date.now();
        return { distress: world.distress };
      }
      case 'mesh.history': return { hours: world.history };
      case 'system.info': return world.info;
      case 'system.log': {
        const lines = params.level === 'warn' ? world.log.filter(({ level }) => level !== 'info') : world.log;
        return { lines: lines.slice(-(params.limit ?? 100)) };
      }
      case 'assistant.confirm-tool': return this.#confirm(world, params);
      case 'assistant.grants-set': return this.#grant(world, params);
      case 'mesh.assistant-configure': return this.#configure(world, params);
      case 'mesh.peer-accept-key': return this.#key(world, params);
      case 'mesh.radio-accept':
        if (world.status.refused_radio?.fingerprint !== params.fingerprint) throw wrong('fingerprint', 'no radio with that key is refused now');
        Object.assign(world.status, { connected: true, owner: world.status.refused_radio?.owner, refused_radio: null });
        return world.status;
      case 'mesh.stop-all':
        world.status.stopped = params.resume !== true;
        return { stopped: world.status.stopped, turns: 1, parts: 2 };
      case 'mesh.send': {
        const known = world.assistant.allowed_contacts.find(({ id }) => id === params.to);
        if (known?.fingerprint === null) throw wrong('to', `${known.name} has no key yet: it must write first`);
        world.messages.push({
          at: Date.now(), direction: 'out', node: params.to, name: known?.name ?? params.to, assurance: 'verified', channel: null, text: params.text, delivery: { state: 'queued' }, ignored: null, id: 77,
        });
        return { reply: 'o1', to: params.to, name: known?.name, bytes: params.text.length, budget: 200 };
      }
      case 'mesh.pair':
        if (params.cancel === true) {
          world.pairing = null;
          return {};
        }
        world.pairing = { name: params.name, code: String(randomInt(10_000_000)).padStart(7, '0') };
        return { code: world.pairing.code, expires_in_s: 600 };
    }
    return undefined;
  }

  /** The peer sends its code. */
  paired() {
    const world = this.world();
    if (world.pairing === null) throw new Error('no pairing is open');
    const { name } = world.pairing;
    world.pairing = null;
    world.assistant.allowed_contacts.push({
      id: '!c0ffee01', name, fingerprint: '77aa 0c11 b2d4 90fe', pin: 'confirmed', foreign_fingerprint: null, grants: ['system'], source: 'node', key: 'cGFpcmVk',
    });
    world.grants.push({ caller: 'key:cGFpcmVk', name, source: 'default', in_force: true, categories: [{ category: 'system' }], tools: [], history: [] });
    this.changed('contacts');
  }

  /** @param {World} world @param {{ id: string, approve: boolean }} params */
  #confirm(world, { id, approve }) {
    const call = world.pending.find((call) => call.id === id);
    if (call === undefined) throw new Refused('invalid_params', 'no such call waits: it may have expired', { detail: 'no such call waits: it may have expired' });
    world.pending = world.pending.filter((call) => call.id !== id);
    world.ledger.push({
      at: Date.now(), turn_id: `turn-${id}`, caller: call.caller, tool: call.tool, category: call.category, outcome: approve ? 'ran' : 'denied', millis: 12,
    });
    this.changed('pending');
    return { outcome: approve ? 'ran' : 'denied', text: approve ? 'done' : '' };
  }

  /** @param {World} world @param {any} params */
  #grant(world, { caller, category, granted, tool, mode, until }) {
    const row = world.grants.find((row) => row.caller === caller);
    if (row === undefined) throw wrong('caller', 'there is no such caller');
    if (until !== undefined && until < Date.now()) throw wrong('until', '`until` is in the past');
    if (until !== undefined && until > Date.now() + 3660 * 86_400_000) throw wrong('until', '`until` is more than ten years ahead');
    if (tool !== undefined) {
      const known = world.tools.find(({ name }) => name === tool);
      if (known === undefined) throw wrong('tool', 'there is no such tool');
      if (mode === 'always' && known.destructive && caller !== 'operator') throw wrong('mode', `${tool} changes something: for a peer it can be ask or never`);
      row.tools = row.tools.filter((set) => set.tool !== tool);
      if (mode !== null) row.tools.push({ tool, mode, ...(until ? { until } : {}) });
      row.history.push({ at: Date.now(), by: 'page', tool, mode, ...(until ? { until } : {}) });
    } else {
      row.categories = row.categories.filter((given) => given.category !== category);
      if (granted) row.categories.push({ category, ...(until ? { until } : {}) });
      row.history.push({ at: Date.now(), by: 'page', category, granted, ...(until ? { until } : {}) });
      const contact = world.assistant.allowed_contacts.find(({ key }) => `key:${key}` === caller);
      if (contact !== undefined) contact.grants = row.categories.map((given) => given.category);
    }
    row.source = 'grants.json';
    this.changed('grants');
    return { callers: world.grants, warning: world.grantsWarning };
  }

  /** @param {World} world @param {any} params */
  #configure(world, params) {
    const { assistant } = world;
    const contact = (/** @type {string} */ id) => {
      const found = assistant.allowed_contacts.find((contact) => contact.id === id);
      if (found === undefined) throw wrong('id', `${id} is no contact`);
      return found;
    };
    if (params.add_contact) {
      const { id, key, name } = params.add_contact;
      if (assistant.allowed_contacts.some((known) => known.id === id)) throw wrong('id', `${id} is a contact already`);
      if (key === 'A'.repeat(43)) throw wrong('key', 'not a public key: write the 44 characters of base64 that the phone app shows (32 bytes, and no point of small order such as all zero)');
      assistant.allowed_contacts.push({
        id, name: name ?? id, fingerprint: key ? '0a0a 1b1b 2c2c 3d3d' : null, pin: key ? 'configured' : 'none', foreign_fingerprint: null, grants: key ? ['system'] : [], source: 'node',
      });
    } else if (params.remove_contact) {
      const found = contact(params.remove_contact.id);
      if (found.source !== 'node') throw wrong('id', `${found.id} stands in tombolo.toml: remove it there`);
      assistant.allowed_contacts = assistant.allowed_contacts.filter((known) => known !== found);
    } else if (params.suspend) contact(params.suspend.id).suspended = true;
    else if (params.unsuspend) contact(params.unsuspend.id).suspended = false;
    else if (params.deny) {
      assistant.denied_askers.push(params.deny.asker);
      assistant.denied?.push({ asker: params.deny.asker, source: 'node' });
    } else if (params.undeny) {
      assistant.denied_askers = assistant.denied_askers.filter((asker) => asker !== params.undeny.asker);
      assistant.denied = assistant.denied?.filter(({ asker }) => asker !== params.undeny.asker);
    }
    else if (params.rename) {
      if (params.rename.name.length > 39) throw wrong('name', 'a name has at most 39 bytes');
      contact(params.rename.id).name = params.rename.name;
    } else if (typeof params.trusted_only === 'boolean') assistant.trusted_only = params.trusted_only;
    else if (typeof params.enabled === 'boolean') assistant.enabled = params.enabled;
    else if (typeof params.model === 'string') {
      if (!assistant.models.includes(params.model)) throw wrong('model', `there is no model "${params.model}"; there is: ${assistant.models.join(', ')}`);
      assistant.model = { name: params.model, source: 'node' };
    } else throw new Refused('invalid_params', 'exactly one change is needed');
    this.changed('contacts');
    return assistant;
  }

  /** @param {World} world @param {{ id: string, fingerprint: string, accept: boolean, pinned?: string }} params */
  #key(world, { id, fingerprint, accept, pinned }) {
    const contact = world.assistant.allowed_contacts.find((contact) => contact.id === id);
    if (contact === undefined) throw wrong('id', `${id} is no contact`);
    if (pinned !== undefined && pinned !== contact.fingerprint) throw wrong('pinned', 'another key is pinned by now');
    if (contact.foreign_fingerprint === fingerprint) {
      if (accept) Object.assign(contact, { fingerprint, pin: 'confirmed' });
      contact.foreign_fingerprint = null;
      if (accept) world.pending = world.pending.filter((call) => call.caller !== `key:${contact.key}`);
    } else if (contact.fingerprint === fingerprint) {
      Object.assign(contact, accept ? { pin: 'confirmed' } : { fingerprint: null, pin: 'none' });
    } else throw wrong('fingerprint', 'that key is not asked about');
    this.changed('contacts');
    return world.assistant;
  }
}
