/** The list of past conversations. */

import { ApiError, deleteConversation, listConversations } from './api.js';
import { confirmed } from './confirm.js';
import { announce, fill, h, icon } from './dom.js';
import { stretch } from './words.js';

/** @typedef {{conversation_id: string, title: string, updated_at: string, message_count: number}} Summary */

/** `<lore-conversations>`: links to conversations; fires `deleted` with the id. */
export class Conversations extends HTMLElement {
  /** @type {Summary[]} */
  #all = [];
  /** @type {string | null} */
  #current = null;
  #trouble = '';

  /** Reads the list again. */
  async refresh() {
    try {
      this.#all = await listConversations();
      this.#trouble = '';
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      // A list that was read before stays as it is: the banner says what is wrong.
      this.#trouble = this.#all.length === 0 ? problem.message : '';
    }
    this.#draw();
  }

  /** @param {string | null} id the conversation that is open */
  set current(id) {
    this.#current = id;
    this.#draw();
  }

  #draw() {
    if (this.#all.length === 0) {
      const kept = h('p', { class: 'quiet' }, 'Your conversations will be kept here.');
      fill(this, this.#trouble ? h('p', { class: 'trouble' }, this.#trouble) : kept);
      return;
    }
    const now = new Date();
    /** @type {Map<string, Summary[]>} */
    const groups = new Map();
    for (const one of this.#all) {
      const name = stretch(one.updated_at, now);
      groups.set(name, [...(groups.get(name) ?? []), one]);
    }
    fill(
      this,
      this.#trouble && h('p', { class: 'trouble' }, this.#trouble),
      ...[...groups].flatMap(([name, members]) => [
        h('h2', { class: 'side-title' }, name),
        h('ul', {}, ...members.map((one) => this.#item(one))),
      ]),
    );
  }

  /** @param {Summary} one */
  #item(one) {
    const title = one.title || 'Untitled';
    const current = one.conversation_id === this.#current ? 'page' : null;
    return h(
      'li',
      {},
      h('a', { href: `#/c/${encodeURIComponent(one.conversation_id)}`, 'aria-current': current, title }, h('span', {}, title)),
      h('button', { type: 'button', class: 'bare', title: 'Delete', 'aria-label': `Delete conversation ${title}`, onclick: () => this.#delete(one) }, icon('trash')),
    );
  }

  /** @param {Summary} one */
  async #delete(one) {
    const { yes } = await confirmed({
      title: 'Delete this conversation?',
      body: `“${one.title || 'Untitled'}” and its answers will be gone.`,
      action: 'Delete',
    });
    if (!yes) return;
    try {
      await deleteConversation(one.conversation_id);
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      if (problem.status !== 404) {
        this.#trouble = problem.message;
        announce(problem.message);
        this.#draw();
        return;
      }
    }
    announce('The conversation was deleted.');
    this.#all = this.#all.filter((other) => other.conversation_id !== one.conversation_id);
    this.#draw();
    this.dispatchEvent(new CustomEvent('deleted', { detail: one.conversation_id }));
    await this.refresh();
  }
}

customElements.define('lore-conversations', Conversations);
