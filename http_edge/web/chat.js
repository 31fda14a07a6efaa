/** A conversation: its turns, the composer below them, and the answer that is being written. */

import { abortTurn, ApiError, ask, getConversation } from './api.js';
import './composer.js';
import { fill, h } from './dom.js';
import './turn.js';
import { welcome } from './welcome.js';

/** @typedef {import('./turn.js').Turn} Turn */
/** @typedef {import('./composer.js').Composer} Composer */

/** @typedef {{abort: AbortController, turnId: string | null, stopped: boolean}} Running */

/**
 * `<lore-chat>`: fires `answered` with the conversation's id when a turn is complete, `missing` when the conversation
 * to open does not exist, and `trouble` when a turn failed.
 */
export class Chat extends HTMLElement {
  /** @type {string | null} */
  #conversationId = null;
  /** @type {Running | null} */
  #running = null;
  #thread = h('div', { class: 'thread' });
  #scroller = h('div', { class: 'scroller', tabindex: -1 }, this.#thread);
  #composer = /** @type {Composer} */ (document.createElement('lore-composer'));
  /** @type {any[]} */
  #documents = [];

  connectedCallback() {
    fill(this, this.#scroller, this.#composer);
    this.#composer.addEventListener('ask', (event) => this.#ask(/** @type {CustomEvent} */ (event).detail));
    this.#composer.addEventListener('stop', () => this.stop());
    this.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.#running) this.stop();
    });
    this.startNew();
  }

  get conversationId() {
    return this.#conversationId;
  }

  /** Starts an empty conversation. */
  startNew() {
    this.stop();
    this.#conversationId = null;
    fill(this.#thread, welcome(this.#documents));
    this.#composer.focus();
  }

  /**
   * What the welcome says depends on what there is to ask.
   *
   * @param {any[]} documents
   */
  setDocuments(documents) {
    this.#documents = documents;
    if (!this.#thread.querySelector('lore-turn')) fill(this.#thread, welcome(documents));
  }

  /**
   * Shows a stored conversation.
   *
   * @param {string} id
   */
  async open(id) {
    if (id === this.#conversationId) return;
    this.stop();
    this.#conversationId = id;
    fill(this.#thread, h('p', { class: 'quiet' }, 'Opening…'));
    try {
      const detail = await getConversation(id);
      if (this.#conversationId !== id) return;
      fill(this.#thread, ...turns(detail.messages));
      this.#thread.lastElementChild?.scrollIntoView({ block: 'start' });
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      if (this.#conversationId !== id) return;
      if (problem.status === 404) this.dispatchEvent(new CustomEvent('missing'));
      else this.#showTrouble(problem.message, id);
    }
  }

  /** Stops the answer that is being written, here and on the server. */
  stop() {
    const running = this.#running;
    if (!running) return;
    running.stopped = true;
    this.#settle(running);
    // The server stops at once when told; a closed connection alone makes it wait for the reader to come back.
    if (running.turnId) abortTurn(running.turnId).catch(() => {});
    running.abort.abort();
  }

  /**
   * @param {string} message
   * @param {string} id
   */
  #showTrouble(message, id) {
    const again = () => {
      this.#conversationId = null;
      this.open(id);
    };
    fill(this.#thread, h('p', { class: 'trouble' }, message), h('button', { type: 'button', onclick: again }, 'Try again'));
  }

  /** @param {string} question */
  #ask(question) {
    const turn = /** @type {Turn} */ (document.createElement('lore-turn'));
    turn.setQuestion(question);
    if (!this.#thread.querySelector('lore-turn')) fill(this.#thread);
    this.#thread.append(turn);
    this.#run(turn);
    turn.scrollIntoView({ block: 'start' });
  }

  /** @param {Turn} turn */
  async #run(turn) {
    if (this.#running) return;
    /** @type {Running} */
    const running = { abort: new AbortController(), turnId: null, stopped: false };
    this.#running = running;
    this.#composer.busy = true;
    turn.begin();
    const retry = () => {
      this.#run(turn);
      this.#composer.focus();
    };
    try {
      await this.#follow(turn, running);
    } catch (problem) {
      if (running.stopped) turn.stopped(retry);
      else if (problem instanceof ApiError) {
        turn.fail(problem.message, retry);
        this.dispatchEvent(new CustomEvent('trouble'));
      }
      else {
        turn.fail('This page could not show the answer. Reload it and ask again.', retry);
        throw problem;
      }
    } finally {
      this.#settle(running);
    }
  }

  /** @param {Running} running */
  #settle(running) {
    // A stopped answer ends late, when the next one may already be under way.
    if (this.#running !== running) return;
    this.#running = null;
    this.#composer.busy = false;
  }

  /**
   * @param {Turn} turn
   * @param {Running} running
   */
  async #follow(turn, running) {
    const stream = ask(turn.question, {
      conversationId: this.#conversationId,
      signal: running.abort.signal,
      onTurn: (turnId) => {
        running.turnId = turnId;
      },
    });
    for await (const { event, data, id } of stream) {
      if (event === 'error') throw new ApiError(data.code, data.message);
      if (running.stopped) throw new DOMException('Stopped', 'AbortError');
      turn.take({ event, data, id });
      if (event !== 'done') continue;
      this.#conversationId = data.conversation_id;
      this.dispatchEvent(new CustomEvent('answered', { detail: data.conversation_id }));
    }
  }
}

/**
 * The stored messages as turns: each question with the answer that follows it.
 *
 * @param {any[]} messages oldest first
 * @returns {Turn[]}
 */
function turns(messages) {
  /** @type {Turn[]} */
  const made = [];
  for (const message of messages) {
    if (message.role === 'user') {
      const turn = /** @type {Turn} */ (document.createElement('lore-turn'));
      turn.setQuestion(message.content);
      made.push(turn);
    } else made[made.length - 1]?.restore(message);
  }
  return made;
}

customElements.define('lore-chat', Chat);
