/**
 * Figures as people read them: durations, ages, bytes, percentages.
 *
 * Owns no state and reads no clock: the time is an argument.
 */

/**
 * A length of time, in the two largest units that matter: `0.8 s`, `24 s`, `4 min`, `2 h 5 min`.
 * @param {number} ms
 * @returns {string}
 */
export function duration(ms) {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${trimmed(seconds, 1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
}

/**
 * Seconds of sending, always in seconds, so that used and allowed compare at a glance.
 * @param {number} ms
 * @returns {string}
 */
export function airSeconds(ms) {
  const seconds = Math.max(0, ms) / 1000;
  return seconds < 100 ? trimmed(seconds, 1) : String(Math.round(seconds));
}

/**
 * How long ago: `now`, `12 s ago`, `3 min ago`, `5 h ago`, `2 d ago`.
 * @param {number} thenMs
 * @param {number} nowMs
 * @returns {string}
 */
export function age(thenMs, nowMs) {
  const seconds = Math.round((nowMs - thenMs) / 1000);
  if (seconds < 5) return 'now';
  if (seconds < 60) return `${seconds} s ago`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min ago`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `${hours} h ago` : `${Math.round(hours / 24)} d ago`;
}

/**
 * When something ends: `for 24 min`, `for 5 h`, `for 3 days`; further off, the day.
 * @param {number} untilMs
 * @param {number} nowMs
 * @returns {string}
 */
export function whenOver(untilMs, nowMs) {
  const minutes = Math.ceil(Math.max(0, untilMs - nowMs) / 60_000);
  if (minutes < 60) return `for ${minutes} min`;
  const hours = Math.round(minutes / 60);
  if (hours < 48) return `for ${hours} h`;
  const days = Math.round(hours / 24);
  return days <= 14 ? `for ${days} days` : `until ${new Date(untilMs).toLocaleDateString()}`;
}

/**
 * Bytes in powers of 1000, as disks are sold: `45.4 GB`.
 * @param {number} count
 * @returns {string}
 */
export function bytes(count) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let value = Math.max(0, count);
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${trimmed(value, 1)} ${units[unit]}`;
}

/**
 * `12.5 %`
 * @param {number} value
 * @param {number} [digits]
 * @returns {string}
 */
export function percent(value, digits = 1) {
  return `${trimmed(value, digits)} %`;
}

/**
 * @param {number} value
 * @param {number} digits
 */
function trimmed(value, digits) {
  return String(Number(value.toFixed(digits)));
}
