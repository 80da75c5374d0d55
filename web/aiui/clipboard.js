/**
 * Puts text on the clipboard, from a sandboxed frame and over plain HTTP too.
 *
 * Owns the two ways to do that, and the button that says whether it worked.
 */

import { element } from './element.js';

/**
 * @param {string} text
 * @returns {HTMLButtonElement}
 */
export function copyButton(text) {
  const button = element('button', { type: 'button', class: 'bare small' }, 'Copy');
  button.addEventListener('click', async () => {
    const done = await copied(text);
    button.textContent = done ? 'Copied' : 'Could not copy';
    setTimeout(() => (button.textContent = 'Copy'), 2000);
  });
  return button;
}

/**
 * The clipboard's own interface is missing over plain HTTP from another machine, and may be refused in a frame.
 * @param {string} text
 * @returns {Promise<boolean>}
 */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = element('textarea', { class: 'visually-hidden', 'aria-hidden': 'true', tabindex: -1 });
    field.value = text;
    document.body.append(field);
    const before = document.activeElement;
    field.select();
    const done = document.execCommand('copy');
    field.remove();
    if (before instanceof HTMLElement) before.focus();
    return done;
  }
}
