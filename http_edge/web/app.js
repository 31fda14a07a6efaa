/** The page: which view is shown, and which part hears from which. */

import { ApiError, getConfig } from './api.js';
import './chat.js';
import './conversations.js';
import './corpus.js';
import { fill, icon } from './dom.js';
import { fromDrop } from './dropped.js';
import './health.js';
import { currentTheme, nextTheme, THEME_FACES } from './theme.js';
import { counted } from './words.js';

/** A title is given to a conversation shortly after its first answer; the list is read again then. */
const TITLE_DELAY_MS = 2500;

/** @type {<T extends Element>(selector: string) => T} */
const part = (selector) => /** @type {any} */ (document.querySelector(selector));

const chat = /** @type {import('./chat.js').Chat} */ (part('lore-chat'));
const corpus = /** @type {import('./corpus.js').Corpus} */ (part('lore-corpus'));
const conversations = /** @type {import('./conversations.js').Conversations} */ (part('lore-conversations'));
const health = /** @type {import('./health.js').Health} */ (part('lore-health'));
const sidebar = /** @type {HTMLElement} */ (part('#sidebar'));
const menu = /** @type {HTMLButtonElement} */ (part('#menu'));
const documentsLink = /** @type {HTMLAnchorElement} */ (part('#documents-link'));
const narrow = matchMedia('(max-width: 60rem)');

/** Shows what the address names: `#/documents`, `#/c/<id>`, else a new conversation. */
function route() {
  const [, view, id] = location.hash.split('/');
  const documents = view === 'documents';
  chat.hidden = documents;
  corpus.hidden = !documents;
  documentsLink.toggleAttribute('aria-current', documents);
  if (documents) documentsLink.setAttribute('aria-current', 'page');
  if (view === 'c' && id) chat.open(decodeURIComponent(id));
  else if (!documents && chat.conversationId !== null) chat.startNew();
  conversations.current = documents ? null : chat.conversationId;
  document.title = documents ? 'Documents · Loreline' : 'Loreline';
  showSidebar(false);
}

/** @param {boolean} open only matters where the sidebar is a drawer */
function showSidebar(open) {
  sidebar.classList.toggle('open', open);
  sidebar.inert = narrow.matches && !open;
  menu.setAttribute('aria-expanded', String(open));
  if (open) sidebar.querySelector('a')?.focus();
}

function wireSidebar() {
  menu.addEventListener('click', () => showSidebar(!sidebar.classList.contains('open')));
  part('#shade').addEventListener('click', () => showSidebar(false));
  narrow.addEventListener('change', () => showSidebar(false));
  sidebar.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || !narrow.matches) return;
    showSidebar(false);
    menu.focus();
  });
  // The link to a new conversation must work when the address already says so.
  part('#new-link').addEventListener('click', () => {
    if (location.hash === '#/' || location.hash === '') chat.startNew();
    showSidebar(false);
  });
}

function wireConversations() {
  chat.addEventListener('answered', (event) => {
    const id = /** @type {CustomEvent} */ (event).detail;
    if (corpus.hidden) {
      history.replaceState(null, '', `#/c/${encodeURIComponent(id)}`);
      conversations.current = id;
    }
    conversations.refresh();
    setTimeout(() => conversations.refresh(), TITLE_DELAY_MS);
  });
  chat.addEventListener('missing', () => {
    location.hash = '#/';
    conversations.refresh();
  });
  conversations.addEventListener('deleted', (event) => {
    if (chat.conversationId === /** @type {CustomEvent} */ (event).detail) location.hash = '#/';
  });
}

function wireDocuments() {
  let count = '';
  let running = false;
  const label = () => {
    fill(part('#documents-count'), running ? 'ingesting' : count);
  };
  corpus.addEventListener('documents', (event) => {
    const documents = /** @type {CustomEvent} */ (event).detail;
    count = documents.length > 0 ? documents.length.toLocaleString() : '';
    documentsLink.title = counted(documents.length, 'document');
    chat.setDocuments(documents);
    label();
  });
  corpus.addEventListener('running', (event) => {
    running = /** @type {CustomEvent} */ (event).detail;
    label();
  });
}

function wireDrops() {
  let depth = 0;
  const carriesFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes('Files') ?? false;
  const show = (/** @type {number} */ now) => {
    depth = now;
    document.body.classList.toggle('dropping', depth > 0);
  };
  addEventListener('dragenter', (event) => carriesFiles(event) && show(depth + 1));
  addEventListener('dragleave', (event) => carriesFiles(event) && show(Math.max(0, depth - 1)));
  addEventListener('dragover', (event) => carriesFiles(event) && event.preventDefault());
  addEventListener('drop', async (event) => {
    if (!carriesFiles(event) || !event.dataTransfer) return;
    event.preventDefault();
    show(0);
    const picked = await fromDrop(event.dataTransfer);
    location.hash = '#/documents';
    corpus.upload(picked);
  });
}

function wireTheme() {
  const button = /** @type {HTMLButtonElement} */ (part('#theme'));
  const face = () => {
    const { icon: name, label } = THEME_FACES[currentTheme()];
    fill(button, icon(name));
    button.setAttribute('aria-label', label);
    button.title = label;
  };
  button.addEventListener('click', () => {
    nextTheme();
    face();
  });
  face();
}

/** Reads everything the page shows besides a conversation. */
async function load() {
  corpus.refresh();
  conversations.refresh();
  corpus.followIngest();
  try {
    corpus.setConfig(await getConfig());
  } catch (problem) {
    // Without limits the server still judges every upload, and the banner says that it is not answering.
    if (!(problem instanceof ApiError)) throw problem;
  }
}

wireSidebar();
wireConversations();
wireDocuments();
wireDrops();
wireTheme();
addEventListener('hashchange', route);
health.addEventListener('recovered', load);
chat.addEventListener('trouble', () => health.check());
chat.addEventListener('answered', () => health.hidden || health.check());
// Another window or a command may have started an ingest meanwhile.
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) corpus.followIngest();
});
route();
load();
