/** Numbers, sizes and times in words. */

/**
 * @param {number} count
 * @param {string} one
 * @param {string} [many]
 */
export function counted(count, one, many = `${one}s`) {
  return `${count.toLocaleString()} ${count === 1 ? one : many}`;
}

/**
 * When something was, as seen from now: `just now`, `5 min ago`, `yesterday`, else the date.
 *
 * @param {string} isoTime
 * @param {Date} now
 */
export function ago(isoTime, now) {
  const then = new Date(isoTime);
  const minutes = Math.floor((now.getTime() - then.getTime()) / 60_000);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return `${minutes} min ago`;
  const days = daysBetween(then, now);
  if (days === 0) return then.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  if (days === 1) return 'yesterday';
  return then.toLocaleDateString([], { day: 'numeric', month: 'short', year: 'numeric' });
}

/**
 * Which stretch of the past a time belongs to.
 *
 * @param {string} isoTime
 * @param {Date} now
 */
export function stretch(isoTime, now) {
  const days = daysBetween(new Date(isoTime), now);
  if (days <= 0) return 'Today';
  if (days === 1) return 'Yesterday';
  return days < 7 ? 'This week' : 'Earlier';
}

/**
 * @param {Date} then
 * @param {Date} now
 */
function daysBetween(then, now) {
  const midnight = (/** @type {Date} */ date) => new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();
  return Math.round((midnight(now) - midnight(then)) / 86_400_000);
}
