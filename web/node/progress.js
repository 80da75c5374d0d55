/**
 * How far the set-up of the first start has come.
 *
 * Owns the browser's note of it. What is done is read from the node itself, so that another browser goes on where this one
 * stopped; the note only says that somebody wants to be led, and what was skipped. It holds nothing secret.
 */

/** @import { Snapshot } from './parts.js' */

const KEY = 'tombolo-setup';

/** @typedef {{ open: boolean, step: number }} Progress */

/** @returns {Progress} */
export function progress() {
  try {
    const { open, step } = JSON.parse(localStorage.getItem(KEY) ?? '{}');
    return { open: open === true, step: Number.isInteger(step) && step >= 0 ? step : 0 };
  } catch {
    return { open: false, step: 0 };
  }
}

/** @param {Partial<Progress>} change */
export function keepProgress(change) {
  try {
    localStorage.setItem(KEY, JSON.stringify({ ...progress(), ...change }));
  } catch {
    // A browser that keeps nothing begins anew after a reload.
  }
}

/** The password was set just now: the set-up goes on from here. */
export function setupBegun() {
  keepProgress({ open: true, step: 0 });
  history.replaceState(null, '', `${location.pathname}#setup`);
}

/**
 * What to say of a set-up that is not done; empty when there is nothing.
 * @param {Snapshot} snapshot
 */
export function setupLine({ assistant }) {
  if (progress().open) return 'The set-up is not finished.';
  if (assistant !== null && (assistant.allowed_contacts ?? []).length === 0 && assistant.trusted_only) {
    return 'Nobody on the mesh may ask yet.';
  }
  return '';
}
