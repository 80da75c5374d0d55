/**
 * Adding a contact: by number and key, from what was heard, or by a code that the peer sends.
 *
 * Owns the two forms and the code's countdown. Whether a key is right, only the operator and the peer can tell.
 */

/** @import { Context } from './panel.js' */
/** @import { Snapshot } from './parts.js' */
/** @import { Contact, MeshNode } from '../rpc.d.ts' */
import { element } from '../aiui/element.js';
import { visibleName } from '../aiui/untrusted.js';
import { act, FieldError, form, textField } from './form.js';
import { notice } from './notice.js';
import { countdown } from './pending.js';
import { configure } from './people.js';
import { lookalikeGuard } from './person.js';

const ID = /^!?[0-9a-f]{8}$/i;
/** 32 bytes in base64, padded or not. */
const KEY = /^[A-Za-z0-9+/]{43}=?$/;

export class Adding {
  /** @type {Context} */
  #context;
  /** @type {Contact[]} */
  #contacts = [];
  #id = textField('id', 'Node number', { placeholder: '!a1b2c3d4', hint: 'Eight hexadecimal digits, as the radio shows them.' });
  #name = textField('name', 'Name', { maxlength: 39 });
  #key = textField('key', 'Public key', { placeholder: 'base64', hint: 'Optional. Without it, the key of its first encrypted message is pinned and waits for you to compare it.' });
  #form;
  #pairing;
  /** The buttons that open the forms. */
  buttons;
  /** Where the forms are. */
  place;

  /** @param {Context} context */
  constructor(context) {
    this.#context = context;
    const guard = lookalikeGuard();
    this.#form = form('Add contact', [this.#id, this.#name, this.#key], async () => {
      const id = this.#id.input.value.trim().toLowerCase();
      const key = this.#key.input.value.trim();
      const name = this.#name.input.value.trim();
      if (!ID.test(id)) throw new FieldError('id', 'Write eight hexadecimal digits, for instance !a1b2c3d4.');
      if (key !== '' && !KEY.test(key)) throw new FieldError('key', 'A public key is 44 characters of base64.');
      const whole = id.startsWith('!') ? id : `!${id}`;
      guard(name, this.#contacts.filter((contact) => contact.id !== whole));
      const contact = { id: whole, ...(key ? { key } : {}), ...(name ? { name } : {}) };
      await configure(context, { add_contact: contact }, `${visibleName(name || whole)} is a contact now.`);
      for (const { input } of [this.#id, this.#name, this.#key]) input.value = '';
      this.#show(null);
    });
    const cancel = act('Cancel', async () => this.#show(null), { class: 'bare' });
    this.#form.querySelector('.form-end')?.append(cancel);
    this.#pairing = new Pairing(context, () => this.#show(null));
    this.buttons = element(
      'div', { class: 'view-actions' },
      act('Pair by code', async () => this.#show('pairing'), { class: 'primary', key: 'open-pairing' }),
      act('Add by number', async () => this.#show('form'), { key: 'open-adding' }),
    );
    this.place = element(
      'div', { class: 'adding' },
      element('section', { 'aria-label': 'Add a contact' }, this.#form), element('section', { 'aria-label': 'Pair a contact' }, this.#pairing.element),
    );
    this.#show(null);
  }

  /** @param {'form' | 'pairing' | null} which */
  #show(which) {
    const [form, pairing] = this.place.children;
    if (form instanceof HTMLElement) form.hidden = which !== 'form';
    if (pairing instanceof HTMLElement) pairing.hidden = which !== 'pairing';
    this.place.hidden = which === null;
    if (which === 'form') this.#id.input.focus();
    if (which === 'pairing') this.#pairing.focus();
  }

  /**
   * Opens the form with what was heard: a number and a name that its owner chose.
   * @param {MeshNode} node
   */
  fill(node) {
    this.#id.input.value = node.node;
    this.#name.input.value = visibleName(node.long_name || node.short_name, 39);
    this.#show('form');
    this.#name.input.focus();
    this.place.scrollIntoView({ block: 'nearest' });
  }

  /** @param {Snapshot} snapshot */
  show({ assistant, status }) {
    this.#contacts = assistant?.allowed_contacts ?? [];
    this.#pairing.show({ contacts: this.#contacts, trigger: assistant?.trigger ?? '!ai', owner: status?.owner ?? '', node: status?.my_node ?? null });
  }
}

/** The pairing by a code: shown here, sent by the peer, and nowhere else. */
export class Pairing {
  /** @type {Context} */
  #context;
  #name = textField('name', 'Whom do you pair?', { maxlength: 39, hint: 'The name that this contact will have here.' });
  #form;
  #shown = element('div', { class: 'pairing-code', hidden: true });
  #instruction = element('p', {});
  #code = '';
  #wanted = '';
  /** @type {() => void} */
  #done;
  /** @type {{ trigger: string, owner: string, node: string | null }} */
  #known = { trigger: '!ai', owner: '', node: null };
  /** @type {Contact[]} */
  #contacts = [];
  /** @type {Set<string>} */
  #before = new Set();
  element;

  /**
   * @param {Context} context
   * @param {() => void} done called when it is over, with or without a pair
   */
  constructor(context, done) {
    this.#context = context;
    this.#done = done;
    const guard = lookalikeGuard();
    this.#form = form('Show a code', [this.#name], async () => {
      const name = this.#name.input.value.trim();
      if (name === '') throw new FieldError('name', 'Give the contact a name.');
      guard(name, this.#contacts);
      const { code, expires_in_s: seconds, warnings } = await context.client.call('mesh.pair', { name });
      for (const warning of Array.isArray(warnings) ? warnings : []) notice(String(warning), 'wait');
      this.#begin(name, String(code), Number(seconds));
    });
    this.element = element('div', { class: 'pairing' }, this.#form, this.#shown);
  }

  focus() {
    this.#name.input.focus();
  }

  /**
   * @param {string} name
   * @param {string} code
   * @param {number} seconds
   */
  #begin(name, code, seconds) {
    this.#code = code;
    this.#wanted = name;
    this.#before = new Set(this.#contacts.map(pinOf));
    this.#form.hidden = true;
    this.#shown.hidden = false;
    const cancel = act('Cancel', async () => {
      await this.#context.client.call('mesh.pair', { cancel: true });
      this.#end();
      this.#done();
    }, { class: 'bare' });
    this.#shown.replaceChildren(
      this.#instruction,
      element('p', { class: 'fine' }, 'Only the person you mean may see this code. It is good for one device, for ', countdown(Date.now() + seconds * 1000), '; five wrong tries void it.'),
      cancel,
    );
    this.#instruct();
    this.#shown.tabIndex = -1;
    this.#shown.focus();
  }

  #end() {
    this.#code = '';
    this.#form.hidden = false;
    this.#shown.hidden = true;
    this.#name.input.value = '';
  }

  #instruct() {
    const { trigger, owner, node } = this.#known;
    const text = `${trigger} pair ${this.#code}`;
    if (this.#instruction.dataset.text === `${text}${owner}`) return;
    this.#instruction.dataset.text = `${text}${owner}`;
    this.#instruction.replaceChildren(
      'From ', element('bdi', {}, visibleName(this.#wanted)), '’s device, send this direct message to ',
      element('strong', {}, visibleName(owner) || 'this node'), node === null ? '' : ` (${node})`, ':',
      element('code', { class: 'code-big' }, text),
    );
  }

  /** @param {{ contacts: Contact[], trigger: string, owner: string, node: string | null }} known */
  show(known) {
    const { contacts } = known;
    this.#known = known;
    this.#contacts = contacts;
    if (this.#code === '') return;
    this.#instruct();
    const paired = contacts.find((contact) => contact.name === this.#wanted && contact.pin === 'confirmed' && !this.#before.has(pinOf(contact)));
    if (paired === undefined) return;
    notice(`${visibleName(paired.name)} is paired: its key ${paired.fingerprint ?? ''} is pinned and confirmed.`, 'good', `paired ${paired.name}`);
    this.#end();
    this.#done();
  }
}

/** @param {Contact} contact */
function pinOf({ id, pin, fingerprint }) {
  return `${id} ${pin} ${fingerprint}`;
}
