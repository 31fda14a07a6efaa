/** The documents: what is ingested, what is on its way, and how to take something out again. */

import { ApiError, deleteDocument, listDocuments } from './api.js';
import { confirmed } from './confirm.js';
import { announce, fill, h, icon } from './dom.js';
import './ingest.js';
import './uploads.js';
import { ago, counted } from './words.js';

/**
 * @typedef {object} DocumentRow
 * @property {string} doc_id
 * @property {string} file_name
 * @property {string} file_type
 * @property {number} n_chunks
 * @property {string} ingested_at
 * @property {string | null} relative_path
 * @property {string} source
 */

/** Rows drawn at once; a filter finds the others. */
const SHOWN_ROWS = 200;

/** `<lore-corpus>`: fires `documents` with the list as detail whenever it was read. */
export class Corpus extends HTMLElement {
  /** @type {DocumentRow[]} */
  #documents = [];
  #shown = SHOWN_ROWS;
  #trouble = '';
  #filter = h('input', { type: 'search', placeholder: 'Filter by name', 'aria-label': 'Filter documents by name', oninput: () => this.#draw() });
  #count = h('span', { class: 'quiet' });
  #table = h('div', { class: 'documents' });
  #uploads = /** @type {import('./uploads.js').Uploads} */ (document.createElement('lore-uploads'));
  #ingest = /** @type {import('./ingest.js').Ingest} */ (document.createElement('lore-ingest'));

  connectedCallback() {
    fill(
      this,
      h('h2', { class: 'page-title' }, 'Documents'),
      h('div', { class: 'corpus-in' }, this.#uploads, this.#ingest),
      h('div', { class: 'documents-head' }, h('h3', {}, 'Ingested ', this.#count), this.#filter),
      this.#table,
    );
    this.#ingest.addEventListener('ingested', () => {
      this.#uploads.settle();
      this.refresh();
    });
    this.#ingest.addEventListener('running', (event) => {
      this.dispatchEvent(new CustomEvent('running', { detail: /** @type {CustomEvent} */ (event).detail }));
    });
  }

  /** Shows an ingest that runs, or how the last one ended. */
  followIngest() {
    return this.#ingest.follow();
  }

  /** @param {any} config the server's */
  setConfig(config) {
    this.#uploads.setLimits(config);
  }

  /** @param {import('./dropped.js').Picked[]} picked */
  upload(picked) {
    this.scrollTo({ top: 0 });
    this.#uploads.add(picked);
  }

  /** Reads the list again. */
  async refresh() {
    try {
      this.#documents = await listDocuments();
      this.#trouble = '';
      this.dispatchEvent(new CustomEvent('documents', { detail: this.#documents }));
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      this.#trouble = problem.message;
    }
    this.#draw();
  }

  #draw() {
    const wanted = this.#filter.value.trim().toLowerCase();
    const found = this.#documents.filter((one) => pathOf(one).toLowerCase().includes(wanted));
    const chunks = this.#documents.reduce((sum, one) => sum + one.n_chunks, 0);
    this.#count.textContent = this.#documents.length
      ? `${counted(this.#documents.length, 'document')}, ${counted(chunks, 'chunk')}`
      : '';
    this.#filter.hidden = this.#documents.length < 8;
    const rows = found.slice(0, this.#shown).map((one) => this.#row(one));
    const rest = found.length - rows.length;
    fill(
      this.#table,
      this.#trouble && h('p', { class: 'trouble' }, this.#trouble),
      rows.length > 0 ? table(rows) : !this.#trouble && h('p', { class: 'quiet' }, this.#emptyWords(wanted)),
      rest > 0 &&
        h('button', { type: 'button', class: 'link', onclick: () => this.#showMore() }, `Show ${Math.min(rest, SHOWN_ROWS)} more of ${rest}`),
    );
  }

  /** @param {string} wanted */
  #emptyWords(wanted) {
    if (wanted) return `No document’s name contains “${wanted}”.`;
    return 'Nothing is ingested yet. Drop files here, or put them in docs/ and press Ingest.';
  }

  #showMore() {
    this.#shown += SHOWN_ROWS;
    this.#draw();
  }

  /** @param {DocumentRow} one */
  #row(one) {
    const path = pathOf(one);
    const folder = path.slice(0, path.length - one.file_name.length);
    return h(
      'tr',
      {},
      h('th', { scope: 'row' }, folder && h('span', { class: 'folder' }, folder), h('span', { class: 'file' }, one.file_name)),
      h('td', {}, one.file_type),
      h('td', { class: ['end', 'end one', 'end some'][Math.min(one.n_chunks, 2)] }, one.n_chunks > 0 ? one.n_chunks.toLocaleString() : 'no text'),
      h('td', { title: new Date(one.ingested_at).toLocaleString() }, ago(one.ingested_at, new Date())),
      h(
        'td',
        { class: 'row-actions' },
        h('button', { type: 'button', class: 'bare', title: 'Delete', 'aria-label': `Delete ${path}`, onclick: () => this.#delete(one) }, icon('trash')),
      ),
    );
  }

  /** @param {DocumentRow} one */
  async #delete(one) {
    const { yes, option } = await confirmed({
      title: `Delete ${one.file_name}?`,
      body: 'Answers will no longer draw on it. Past answers keep the passages they showed.',
      action: 'Delete',
      option: 'Delete the file in docs/ as well',
    });
    if (!yes) return;
    try {
      await deleteDocument(one.doc_id, option);
      announce(`${one.file_name} was deleted.`);
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      this.#trouble = problem.message;
      announce(problem.message);
      this.#draw();
      if (problem.status !== 404) return;
    }
    await this.refresh();
  }
}

/** @param {DocumentRow} one */
function pathOf(one) {
  return one.relative_path ?? one.file_name;
}

/** @param {HTMLElement[]} rows */
function table(rows) {
  const heads = ['Name', 'Kind', 'Chunks', 'Ingested'].map((name) =>
    h('th', { scope: 'col', class: name === 'Chunks' ? 'end' : null }, name),
  );
  const actions = h('th', { scope: 'col' }, h('span', { class: 'unseen' }, 'Delete'));
  return h('table', {}, h('thead', {}, h('tr', {}, ...heads, actions)), h('tbody', {}, ...rows));
}

customElements.define('lore-corpus', Corpus);
