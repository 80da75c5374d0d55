/**
 * What is allowed now, in sentences.
 *
 * Owns the wording. It says what the daemon says; where something is not known, it says that.
 */

/** @import { Snapshot } from './parts.js' */
import { element } from '../aiui/element.js';
import { visibleName } from '../aiui/untrusted.js';
import { airSeconds } from './units.js';

/**
 * @param {Snapshot} snapshot
 * @returns {HTMLElement}
 */
export function allowedNow({ status, assistant, grants }) {
  /** @type {(string | HTMLElement)[]} */
  const lines = [];
  if (assistant !== null) {
    const contacts = assistant.allowed_contacts ?? [];
    const able = contacts.filter(({ pin, suspended, denied }) => suspended !== true && denied !== true && (pin === 'configured' || pin === 'confirmed'));
    if (!assistant.enabled) lines.push('Nobody on the mesh is answered.');
    else if (assistant.trusted_only) {
      lines.push(able.length === 0
        ? 'Only contacts are answered, and none has a confirmed key yet: so nobody is.'
        : `Only contacts are answered: ${able.map(({ name }) => visibleName(name)).join(', ')}. Everybody else meets silence.`);
    } else lines.push('Everybody is answered; strangers without tools and without memory.');
    for (const { name, grants } of able) {
      if (grants === null) continue;
      lines.push(`${visibleName(name)} may use ${(grants ?? []).length > 0 ? grants.map((grant) => visibleName(grant)).join(', ') : 'no tools'}.`);
    }
    const waiting = contacts.length - able.length;
    if (waiting > 0) lines.push(`${waiting} ${waiting === 1 ? 'contact has' : 'contacts have'} no confirmed key or ${waiting === 1 ? 'is' : 'are'} suspended or refused, and may use nothing.`);
    if ((assistant.denied_askers ?? []).length > 0) lines.push(`${assistant.denied_askers.length} refused, whatever they send.`);
    const channels = assistant.channels ?? [];
    lines.push(channels.length === 0 ? 'Questions on channels are not answered, only direct messages.' : `Questions are answered on ${channels.map((name) => `#${visibleName(name)}`).join(', ')} too, where anyone can read the answer.`);
    lines.push(assistant.claude_available || assistant.openai_configured
      ? 'When no local model answers, a question may go to a cloud model, as far as assistant.cloud in the configuration allows.'
      : 'No question leaves for a cloud model: none is set up.');
  }
  const mine = (grants ?? []).find(({ caller }) => caller === 'operator');
  if (mine) lines.push(`You may use ${mine.categories.map(({ category }) => visibleName(category)).join(', ') || 'no tools'} at this page.`);
  lines.push('Whatever changes something is asked of you first, with its exact arguments.');
  const airtime = status?.airtime;
  if (airtime && airtime.share_ms !== null && airtime.limit_ms !== null) {
    lines.push(`Answers may take ${airSeconds(airtime.share_ms)} s on air in an hour, of ${airSeconds(airtime.limit_ms)} s that the law allows.`);
  } else if (status !== null) lines.push('The region is not set, so nothing is sent at all.');
  return element('ul', { class: 'sentences' }, ...lines.map((line) => element('li', {}, line)));
}
