/** Files on their way into `docs/`: chosen or dropped, each with its own outcome. */

import { ApiError, uploadFiles } from './api.js';
import { announce, fill, h, icon } from './dom.js';
import { fromChooser } from './dropped.js';
import { counted } from './words.js';

/** @typedef {import('./dropped.js').Picked} Picked */
/** @typedef {{name: string, state: 'waiting' | 'stored' | 'replaced' | 'refused', reason: string}} Row */

/** What one request carries at most: small enough to show progress, large enough not to crawl. */
const BATCH_FILES = 20;
const BATCH_BYTES = 32 * 1024 * 1024;

/** Refused rows always show; of the others only so many, so that the ingest button stays near. */
const SHOWN_ROWS = 10;

/** The server's words for a file it did not take, in ours. */
const REFUSALS = new Map([
  ['invalid_path', 'Its name or path can’t be kept: a part is empty, hidden or not printable. Rename it.'],
  ['name_too_long', 'Its name is too long. Shorten it.'],
  ['path_too_deep', 'It lies too many folders deep.'],
  ['reserved_path', 'Its folder’s name is kept for exports. Choose another.'],
  ['extension_not_allowed', 'Not a kind of file that is read.'],
  ['file_too_large', 'Too large to upload. Put it in docs/ yourself.'],
  ['docs_path_not_writable', 'Kept, but docs/ can’t be written to. Check who owns it.'],
]);

/** `<lore-uploads>`: fires `uploaded` when files were stored. */
export class Uploads extends HTMLElement {
  /** @type {Row[]} */
  #rows = [];
  /** @type {{upload_max_mb?: number, allowed_extensions?: string[]}} */
  #limits = {};
  /** @type {Promise<void>} uploads run one after the other */
  #queue = Promise.resolve();
  #files = h('input', { type: 'file', multiple: true, class: 'unseen', tabindex: -1, 'aria-label': 'Files to upload' });
  #hint = h('p', { class: 'quiet' });
  #list = h('div', { class: 'upload-list' });

  connectedCallback() {
    this.#files.addEventListener('change', () => {
      this.add(fromChooser(this.#files.files));
      this.#files.value = '';
    });
    const choose = h('button', { type: 'button', onclick: () => this.#files.click() }, icon('upload'), 'Choose files');
    fill(
      this,
      h('div', { class: 'drop-box' }, h('p', {}, 'Drop files or folders here, or put them in ', h('code', {}, 'docs/'), ' and press Ingest.'), this.#files, choose, this.#hint),
      this.#list,
    );
  }

  /** @param {{upload_max_mb?: number, allowed_extensions?: string[]}} limits what the server takes, from its config */
  setLimits(limits) {
    this.#limits = limits;
    const kinds = (limits.allowed_extensions ?? []).join(' ');
    const size = limits.upload_max_mb ? `, up to ${limits.upload_max_mb} MB each` : '';
    this.#hint.textContent = kinds ? `${kinds}${size}` : '';
  }

  /**
   * Uploads files after those that are already on their way.
   *
   * @param {Picked[]} picked
   */
  add(picked) {
    if (picked.length === 0) return;
    /** @type {[Picked, Row][]} */
    const pairs = picked.map((one) => [one, this.#judge(one)]);
    this.#rows = [...pairs.map(([, row]) => row), ...this.#rows.filter((row) => row.state === 'waiting')];
    this.#draw();
    this.#queue = this.#queue.then(() => this.#sendAll(pairs));
  }

  /**
   * Refuses what the server would refuse, without sending it.
   *
   * @param {Picked} picked
   * @returns {Row}
   */
  #judge({ file, path }) {
    const name = path || file.name;
    const extension = /\.[^.]+$/.exec(file.name)?.[0].toLowerCase() ?? '';
    const { allowed_extensions: allowed, upload_max_mb: maxMb } = this.#limits;
    if (allowed && !allowed.includes(extension)) {
      return { name, state: 'refused', reason: `Not a kind of file that is read. Allowed: ${allowed.join(' ')}` };
    }
    if (maxMb && file.size > maxMb * 1024 * 1024) {
      return { name, state: 'refused', reason: `Larger than ${maxMb} MB. Put it in docs/ yourself.` };
    }
    return { name, state: 'waiting', reason: '' };
  }

  /** @param {[Picked, Row][]} pairs */
  async #sendAll(pairs) {
    const waiting = pairs.filter(([, row]) => row.state === 'waiting');
    for (const batch of batches(waiting)) {
      await this.#sendBatch(batch);
      this.#draw();
    }
    const stored = pairs.filter(([, row]) => row.state === 'stored' || row.state === 'replaced').length;
    const refused = pairs.length - stored;
    const words = refused > 0 ? ` ${refused} refused.` : '';
    announce(`${counted(stored, 'file')} stored.${words}`);
    if (stored > 0) this.dispatchEvent(new CustomEvent('uploaded', { detail: stored }));
  }

  /** @param {[Picked, Row][]} batch */
  async #sendBatch(batch) {
    try {
      const outcomes = await uploadFiles(batch.map(([picked]) => picked));
      batch.forEach(([, row], n) => {
        const { stored, replaced, reason } = outcomes[n];
        row.state = stored ? (replaced ? 'replaced' : 'stored') : 'refused';
        row.reason = REFUSALS.get(reason ?? '') ?? reason ?? '';
      });
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      for (const [, row] of batch) {
        row.state = 'refused';
        row.reason = [...REFUSALS].find(([word]) => problem.message.endsWith(`: ${word}`))?.[1] ?? problem.message;
      }
    }
  }

  #draw() {
    const order = { refused: 0, waiting: 1, stored: 2, replaced: 2 };
    const sorted = [...this.#rows].sort((a, b) => order[a.state] - order[b.state]);
    const shown = sorted.filter((row, n) => row.state === 'refused' || n < SHOWN_ROWS);
    const waiting = this.#rows.filter((row) => row.state === 'waiting').length;
    const stored = this.#rows.filter((row) => row.state === 'stored' || row.state === 'replaced').length;
    const head = waiting > 0 ? `Uploading, ${waiting} to go` : stored > 0 ? `${counted(stored, 'file')} in docs/. Press Ingest to read.` : `${counted(this.#rows.length, 'file')} refused`;
    const clear = h('button', { type: 'button', class: 'link', onclick: () => this.#clear() }, 'Clear');
    fill(
      this.#list,
      this.#rows.length > 0 && h('p', { class: 'upload-head' }, head, waiting === 0 && clear),
      h('ul', {}, ...shown.map(rowItem)),
      sorted.length > shown.length && h('p', { class: 'quiet' }, `and ${sorted.length - shown.length} more`),
    );
  }

  /** Forgets the files that were stored: an ingest has read them since. */
  settle() {
    this.#rows = this.#rows.filter((row) => row.state === 'waiting' || row.state === 'refused');
    this.#draw();
  }

  #clear() {
    this.#rows = [];
    this.#draw();
  }
}

/** @param {Row} row */
function rowItem(row) {
  const face = { waiting: 'tag', stored: 'tag good', replaced: 'tag good', refused: 'tag bad' }[row.state];
  return h(
    'li',
    {},
    h('span', { class: face }, row.state),
    h('span', { class: 'file' }, row.name),
    row.reason && h('span', { class: 'reason' }, row.reason),
  );
}

/**
 * Parts a long list into requests.
 *
 * @param {[Picked, Row][]} pairs
 * @returns {[Picked, Row][][]}
 */
function batches(pairs) {
  /** @type {[Picked, Row][][]} */
  const made = [];
  let bytes = 0;
  for (const pair of pairs) {
    const last = made[made.length - 1];
    bytes += pair[0].file.size;
    if (last && last.length < BATCH_FILES && bytes <= BATCH_BYTES) last.push(pair);
    else {
      made.push([pair]);
      bytes = pair[0].file.size;
    }
  }
  return made;
}

customElements.define('lore-uploads', Uploads);
