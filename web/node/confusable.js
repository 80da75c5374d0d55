/**
 * Tells when two names look alike though they are not the same.
 *
 * Owns which letters are taken for one another. It only warns: a name is never evidence, whatever it looks like.
 */

/** Letters of other scripts, and figures, for the Latin letter that they look like. */
const ALIKE = new Map(
  Object.entries({
    а: 'a', ɑ: 'a', α: 'a', в: 'b', ь: 'b', ß: 'b', с: 'c', ϲ: 'c', ԁ: 'd', е: 'e', є: 'e', ε: 'e', ѳ: 'e', ɡ: 'g', һ: 'h', н: 'h', і: 'i', ı: 'i', ι: 'i',
    ј: 'j', к: 'k', κ: 'k', ӏ: 'i', м: 'm', п: 'n', η: 'n', о: 'o', ο: 'o', σ: 'o', օ: 'o', р: 'p', ρ: 'p', ԛ: 'q', г: 'r', ѕ: 's', ꜱ: 's', т: 't', τ: 't',
    υ: 'u', ս: 'u', ν: 'v', ѵ: 'v', ω: 'w', ԝ: 'w', х: 'x', χ: 'x', у: 'y', γ: 'y', ᴢ: 'z', 0: 'o', 1: 'i', l: 'i', '|': 'i', '!': 'i', 3: 'e', 4: 'a', 5: 's', 8: 'b',
  }),
);

/**
 * What is left of a name for the eye.
 * @param {string} name
 * @returns {string}
 */
export function skeleton(name) {
  const plain = String(name ?? '').normalize('NFKD').toLowerCase();
  let made = '';
  for (const character of plain) made += ALIKE.get(character) ?? character;
  return made.replace(/[^\p{L}\p{N}]/gu, '').replaceAll('rn', 'm').replaceAll('vv', 'w');
}

/**
 * The name among `others` that this one could be taken for, if there is one.
 * @template {{ name: string }} Named
 * @param {string} name
 * @param {readonly Named[]} others
 * @returns {Named | undefined}
 */
export function lookalike(name, others) {
  const bones = skeleton(name);
  if (bones === '') return undefined;
  return others.find((other) => skeleton(other.name) === bones);
}
