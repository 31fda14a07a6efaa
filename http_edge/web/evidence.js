/** The evidence beside an answer: one card a passage, with why it stands where it stands. */

import { fill, h } from './dom.js';
import { excerpt, findQuotes, marked } from './highlight.js';
import { whereabouts } from './passages.js';

/** @typedef {import('./passages.js').Passage} Passage */
/** @typedef {import('./passages.js').Citation} Citation */

/** Cards shown at once; the cited ones always show. */
const SHOWN_AT_FIRST = 4;

/** `<lore-evidence>`: the passages of one turn. */
export class Evidence extends HTMLElement {
  /** @type {Passage[]} */
  #passages = [];
  /** @type {Citation[]} */
  #citations = [];
  /** @type {Map<number, Card>} */
  #cards = new Map();
  #all = false;

  /**
   * Shows passages, best first.
   *
   * @param {Passage[]} passages
   */
  setPassages(passages) {
    this.#passages = passages;
    this.#citations = [];
    this.#draw();
  }

  /**
   * Marks which passages the answer cites and what it quotes from them.
   *
   * @param {Citation[]} citations
   */
  setCitations(citations) {
    this.#citations = citations;
    this.#draw();
  }

  /**
   * The passage a mark names.
   *
   * @param {number} rank
   * @returns {Passage | undefined}
   */
  passage(rank) {
    return this.#passages.find((passage) => passage.rank === rank);
  }

  /**
   * Brings a passage's card into view, lights it up and moves the focus there; Escape brings the focus back.
   *
   * @param {number} rank
   * @param {HTMLElement} from where the focus returns to
   */
  show(rank, from) {
    if (!this.#cards.has(rank)) {
      this.#all = true;
      this.#draw();
    }
    this.#cards.get(rank)?.light(from);
  }

  /**
   * Points at a card without moving anything.
   *
   * @param {number} rank
   * @param {boolean} on
   */
  point(rank, on) {
    this.#cards.get(rank)?.classList.toggle('pointed', on);
  }

  #draw() {
    const opened = new Set([...this.#cards].filter(([, card]) => card.open).map(([rank]) => rank));
    this.#cards.clear();
    if (this.#passages.length === 0) {
      fill(this, h('p', { class: 'quiet' }, 'No passage in your documents matched this question.'));
      return;
    }
    const cited = new Set(this.#citations.map((citation) => citation.mark));
    const shown = this.#passages.filter((one, n) => this.#all || n < SHOWN_AT_FIRST || cited.has(one.rank));
    const items = shown.map((passage) => {
      const mine = this.#citations.filter((citation) => citation.mark === passage.rank);
      const card = new Card(passage, mine);
      card.open = opened.has(passage.rank);
      this.#cards.set(passage.rank, card);
      return h('li', {}, card);
    });
    const hidden = this.#passages.length - shown.length;
    const tally = cited.size > 0 ? `${cited.size} of ${this.#passages.length} cited` : `${this.#passages.length} found`;
    fill(
      this,
      h('h3', { class: 'side-title' }, 'Evidence ', h('span', { class: 'quiet' }, tally)),
      h('ol', { class: 'cards' }, ...items),
      hidden > 0 &&
        h('button', { class: 'link', type: 'button', onclick: () => this.#showAll() }, `Show ${hidden} more`),
    );
  }

  #showAll() {
    const first = this.#passages.find((passage) => !this.#cards.has(passage.rank));
    this.#all = true;
    this.#draw();
    if (first) this.#cards.get(first.rank)?.focus();
  }
}

/** `<lore-passage>`: one passage. */
class Card extends HTMLElement {
  /** @type {Passage} */
  #passage;
  /** @type {import('./highlight.js').Span[]} */
  #spans;
  /** @type {HTMLElement | null} */
  #from = null;
  #open = false;
  #text = h('p', { class: 'passage-text' });
  #more = h('div', { class: 'passage-more', hidden: true });
  #toggle = h('button', { class: 'link', type: 'button', onclick: () => (this.open = !this.open) });

  /**
   * @param {Passage} passage
   * @param {Citation[]} citations those that name this passage
   */
  constructor(passage, citations) {
    super();
    this.#passage = passage;
    this.#spans = findQuotes(passage.content, citations.map((citation) => citation.quote ?? ''));
    this.classList.add('card');
    this.classList.toggle('cited', citations.length > 0);
    this.tabIndex = -1;
    this.setAttribute('role', 'group');
    this.setAttribute('aria-label', `Passage ${passage.rank}, ${whereabouts(passage)}`);
    this.addEventListener('keydown', (event) => this.#back(event));
    this.append(header(passage), this.#text, this.#more, h('footer', {}, arms(passage), this.#toggle));
    fill(this.#more, ...details(passage));
  }

  /** @param {HTMLElement} from */
  light(from) {
    this.#from = from;
    this.classList.remove('lit');
    // Reading a size makes the browser notice the class going, so that its animation starts again.
    void this.offsetWidth;
    this.classList.add('lit');
    this.focus({ preventScroll: true });
    this.scrollIntoView({ block: 'nearest' });
  }

  /** @param {KeyboardEvent} event */
  #back(event) {
    if (event.key !== 'Escape' || !this.#from) return;
    event.stopPropagation();
    this.#from.focus();
    this.#from = null;
  }

  get open() {
    return this.#open;
  }

  /** Whether the whole text shows, and what else is known of it. */
  set open(open) {
    this.#open = open;
    this.#draw();
  }

  #draw() {
    const { content } = this.#passage;
    const shown = this.#open ? /** @type {[number, number]} */ ([0, content.length]) : excerpt(content, this.#spans);
    fill(this.#text, ...marked(content, this.#spans, shown, !this.#open));
    this.#text.classList.toggle('whole', this.#open);
    this.#more.hidden = !this.#open;
    const whole = shown[0] === 0 && shown[1] === content.length;
    this.#toggle.hidden = whole && !this.#open && this.#more.childElementCount === 0;
    this.#toggle.textContent = this.#open ? 'Less' : whole ? 'More about it' : 'Full text';
    this.#toggle.setAttribute('aria-expanded', String(this.#open));
    const label = `${this.#toggle.textContent}, passage ${this.#passage.rank}`;
    this.#toggle.setAttribute('aria-label', label);
  }
}

/** @param {Passage} passage */
function header(passage) {
  return h(
    'header',
    {},
    h('span', { class: 'rank', 'aria-hidden': 'true' }, passage.rank),
    h(
      'div',
      {},
      h('span', { class: 'file', title: passage.path }, passage.fileName),
      passage.page !== null && h('span', { class: 'page' }, `p. ${passage.page}`),
    ),
    passage.headings.length > 0 && h('span', { class: 'headings' }, passage.headings.join(' › ')),
  );
}

/**
 * What opens under the text.
 *
 * @param {Passage} passage
 */
function details(passage) {
  const rows = [];
  if (passage.context) rows.push(h('p', {}, h('b', {}, 'Context '), passage.context));
  if (passage.path && passage.path !== passage.fileName) rows.push(h('p', {}, h('b', {}, 'File '), passage.path));
  if (passage.read) rows.push(h('p', {}, 'Read from an image; letters may be misread.'));
  const told = scores(passage);
  if (told) rows.push(h('p', {}, h('b', {}, 'Scores '), told));
  return rows;
}

/**
 * The places the lists behind an answer gave the passage. Places compare, scores of different lists do not: those are
 * told when the card is opened.
 *
 * @param {Passage} passage
 */
function arms({ trace }) {
  const places = [
    place('by meaning', trace.semantic_rank, 'Place among the passages closest in meaning'),
    place('by words', trace.bm25_rank, 'Place among the passages that share the question’s words'),
    place('reranked', moved(trace.rerank_delta), 'Places it moved when the passages were read again'),
  ];
  return h('dl', { class: 'arms' }, ...places.filter((one) => one !== null));
}

/**
 * @param {string} name
 * @param {number | string | null | undefined} rank
 * @param {string} title
 */
function place(name, rank, title) {
  if (rank === null || rank === undefined) return null;
  return h('div', { title }, h('dt', {}, name), h('dd', {}, typeof rank === 'number' ? `#${rank}` : rank));
}

/** @param {Passage} passage */
function scores({ trace, score }) {
  /** @type {[string, number | null | undefined][]} */
  const all = [
    ['cosine similarity', trace.semantic_score],
    ['BM25', trace.bm25_score],
    ['fused', trace.fused_score ?? score],
    ['reranker', trace.rerank_score],
  ];
  const known = all.filter(([, value]) => typeof value === 'number');
  return known.map(([name, value]) => `${name} ${short(/** @type {number} */ (value))}`).join(', ');
}

/** @param {number | null | undefined} delta */
function moved(delta) {
  if (delta === null || delta === undefined) return null;
  return delta > 0 ? `+${delta}` : delta < 0 ? `−${-delta}` : '±0';
}

/** @param {number} score three significant digits are enough to compare two */
function short(score) {
  return `${Number(score.toPrecision(3))}`.replace('-', '−');
}

customElements.define('lore-evidence', Evidence);
customElements.define('lore-passage', Card);
