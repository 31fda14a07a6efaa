/** What an empty conversation says: how to get documents in, or how to ask those that are there. */

import { h } from './dom.js';

/** How many of the newest documents are named. */
const NAMED = 5;

/**
 * @param {{file_name: string, relative_path?: string | null}[]} documents newest first
 * @returns {HTMLElement}
 */
export function welcome(documents) {
  return documents.length === 0 ? emptyCorpus() : readyCorpus(documents);
}

function emptyCorpus() {
  return h(
    'section',
    { class: 'welcome' },
    h('h2', {}, 'Nothing to ask yet'),
    h('p', {}, 'Drop files anywhere on this page, or put them in ', h('code', {}, 'docs/'), ' and press Ingest.'),
    h('p', {}, h('a', { class: 'button primary', href: '#/documents' }, 'Add documents')),
  );
}

/** @param {{file_name: string, relative_path?: string | null}[]} documents */
function readyCorpus(documents) {
  const count = documents.length === 1 ? 'your document' : `your ${documents.length.toLocaleString()} documents`;
  const names = documents.slice(0, NAMED).map((one) => h('li', {}, one.relative_path ?? one.file_name));
  return h(
    'section',
    { class: 'welcome' },
    h('h2', {}, `Ask ${count}`),
    h(
      'p',
      {},
      'Ask in your own words. The answer carries numbered marks like this one ',
      h('span', { class: 'cite sample', 'aria-hidden': 'true' }, '1'),
      '; each leads to the passage it stands on, with the words it quotes lit up.',
    ),
    h('p', { class: 'side-title' }, 'Newest'),
    h('ul', { class: 'newest' }, ...names),
    h('p', {}, h('a', { href: '#/documents' }, 'All documents')),
  );
}
