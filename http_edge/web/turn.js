/** One turn: the question, the answer as it comes, and the evidence beside it. */

import { announce, fill, h, icon, oncePerFrame, patch } from './dom.js';
import './evidence.js';
import { renderMarkdown } from './markdown.js';
import { fromRetrieval, fromStored, whereabouts } from './passages.js';
import { counted } from './words.js';

/** @typedef {import('./evidence.js').Evidence} Evidence */
/** @typedef {import('./passages.js').Citation} Citation */

/** `<lore-turn>`: fed by the frames of a live answer, or whole from a stored conversation. */
export class Turn extends HTMLElement {
  #question = '';
  #answerText = '';
  #reasoningText = '';
  /** @type {Set<number> | null} marks that were checked; null while the answer is still coming */
  #checked = null;
  #searched = h('p', { class: 'searched', hidden: true });
  #reasoning = h('div', { class: 'prose' });
  #reasoningBox = h('details', { class: 'reasoning', hidden: true }, h('summary', {}, 'Reasoning'), this.#reasoning);
  #answer = h('div', { class: 'answer prose' });
  #status = h('p', { class: 'turn-status' });
  #side = h('div', { class: 'answer-side' }, this.#reasoningBox, this.#answer, this.#status);
  #evidence = /** @type {Evidence} */ (document.createElement('lore-evidence'));
  #drawSoon = oncePerFrame(() => this.#drawAnswer());

  connectedCallback() {
    const measure = () => this.#side.style.setProperty('--answer-height', `${this.#side.offsetHeight}px`);
    new ResizeObserver(measure).observe(this.#side);
  }

  /** @param {string} question */
  setQuestion(question) {
    this.#question = question;
    this.#evidence.hidden = true;
    fill(
      this,
      h('h2', { class: 'question' }, question),
      this.#searched,
      h(
        'div',
        { class: 'turn-body' },
        this.#side,
        this.#evidence,
      ),
    );
  }

  get question() {
    return this.#question;
  }

  /** Empties the turn for a first or a new try. */
  begin() {
    this.#answerText = '';
    this.#reasoningText = '';
    this.#checked = null;
    this.#evidence.hidden = true;
    this.#searched.hidden = true;
    this.#reasoningBox.hidden = true;
    this.#drawAnswer();
    this.#working('Searching your documents');
    announce('Searching your documents.');
  }

  /**
   * Takes in one frame of the answer stream.
   *
   * @param {import('./sse.js').Frame} frame
   */
  take({ event, data }) {
    if (event === 'retrieval') this.#takeRetrieval(data);
    else if (event === 'reasoning') this.#takeReasoning(data.delta);
    else if (event === 'token') {
      if (this.#answerText === '') this.#working('Writing');
      this.#answerText += data.delta;
      this.#drawSoon();
    } else if (event === 'stats') this.#working(`Writing, ${rate(data.tokens_per_second)}`);
    else if (event === 'done') {
      this.#finish(data, data.usage ?? {});
      announce(`The answer is complete. ${this.#answer.querySelectorAll('.cite').length} citations.`);
    }
  }

  /**
   * Shows a stored turn.
   *
   * @param {any} message the assistant's message as the API gives it
   */
  restore(message) {
    this.#evidence.setPassages((message.sources ?? []).map(fromStored));
    this.#evidence.hidden = false;
    this.#setSearched(message.condensed_query);
    if (message.reasoning) this.#takeReasoning(message.reasoning);
    this.#finish({ ...message, answer: message.content }, { latency_ms: message.latency_ms });
  }

  /**
   * Says why there is no answer, and offers to try again.
   *
   * @param {string} message
   * @param {() => void} retry
   */
  fail(message, retry) {
    announce(message);
    const again = h('button', { type: 'button', onclick: retry }, icon('again'), 'Try again');
    fill(this.#status, h('span', { class: 'trouble' }, icon('alert'), h('span', {}, message)), again);
  }

  /**
   * Says that the reader stopped it.
   *
   * @param {() => void} retry
   */
  stopped(retry) {
    announce('Stopped.');
    const again = h('button', { type: 'button', onclick: retry }, icon('again'), 'Ask again');
    fill(this.#status, h('span', {}, 'Stopped. This turn is not kept in the conversation.'), again);
  }

  /** @param {any} data */
  #takeRetrieval(data) {
    // A question that is taken up again starts with its evidence: what came before is void.
    this.#answerText = '';
    this.#reasoningText = '';
    this.#evidence.setPassages((data.chunks ?? []).map(fromRetrieval));
    this.#evidence.hidden = false;
    this.#setSearched(data.condensed_query);
    this.#working('Reading the passages');
  }

  /** @param {string} delta */
  #takeReasoning(delta) {
    this.#reasoningText += delta;
    this.#reasoningBox.hidden = false;
    this.#drawSoon();
  }

  /** @param {string | null | undefined} query */
  #setSearched(query) {
    this.#searched.hidden = !query;
    if (query) fill(this.#searched, 'Searched for: ', h('q', {}, query));
  }

  /**
   * @param {{answer?: string, found?: boolean | null, answered_by?: string | null, citations?: Citation[] | null, dropped_marks?: number[] | null}} data
   * @param {any} usage
   */
  #finish(data, usage) {
    this.#answerText = data.answer ?? this.#answerText;
    const citations = data.citations ?? [];
    if (data.citations) {
      this.#checked = new Set(citations.map((citation) => citation.mark));
      this.#evidence.setCitations(citations);
    }
    this.#drawAnswer();
    const dropped = data.dropped_marks?.length ?? 0;
    const copy = h('button', { type: 'button', class: 'link', onclick: () => this.#copy(copy) }, 'Copy');
    fill(
      this.#status,
      dropped > 0 && h('span', { class: 'trouble' }, icon('alert'), h('span', {}, `${counted(dropped, 'mark')} named no passage and ${dropped === 1 ? 'was' : 'were'} dropped.`)),
      h('span', { class: 'quiet' }, facts(usage, data)),
      copy,
    );
  }

  /** @param {HTMLElement} button */
  async #copy(button) {
    try {
      await navigator.clipboard.writeText(this.#answerText);
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Your browser does not allow copying here';
    }
  }

  /** @param {string} text */
  #working(text) {
    const line = this.#status.firstElementChild;
    // The same line stays, so that its animation does not start over with every word.
    if (line?.classList.contains('working')) fill(line, text);
    else fill(this.#status, h('span', { class: 'working' }, text));
  }

  #drawAnswer() {
    const cite = (/** @type {number} */ mark) => this.#chip(mark);
    patch(this.#answer, renderMarkdown(this.#answerText, cite));
    patch(this.#reasoning, renderMarkdown(this.#reasoningText, () => null));
  }

  /**
   * The button a citation mark becomes.
   *
   * @param {number} mark
   */
  #chip(mark) {
    const passage = this.#evidence.passage(mark);
    if (!passage || (this.#checked && !this.#checked.has(mark))) return null;
    const chip = h(
      'button',
      {
        class: 'cite',
        type: 'button',
        title: whereabouts(passage),
        'aria-label': `Passage ${mark}, ${whereabouts(passage)}`,
        onclick: () => this.#evidence.show(mark, chip),
        onpointerenter: () => this.#evidence.point(mark, true),
        onpointerleave: () => this.#evidence.point(mark, false),
      },
      mark,
    );
    return chip;
  }
}

/** @param {number} tokensPerSecond */
function rate(tokensPerSecond) {
  return `${tokensPerSecond.toFixed(tokensPerSecond < 10 ? 1 : 0)} tokens a second`;
}

/**
 * @param {any} usage
 * @param {{found?: boolean | null, answered_by?: string | null}} data
 */
function facts(usage, { found, answered_by: by }) {
  const parts = [];
  if (by === 'extractive' && found) parts.push('Quoted from your documents');
  const total = usage.latency_ms?.total;
  if (typeof total === 'number') parts.push(total < 995 ? `${Math.round(total)} ms` : `${(total / 1000).toFixed(1)} s`);
  if (typeof usage.tokens_per_second === 'number') parts.push(rate(usage.tokens_per_second));
  return parts.join(' · ');
}

customElements.define('lore-turn', Turn);
