/** Where a question is typed: Enter sends, Shift+Enter starts a new line, Escape stops an answer. */

import { fill, h, icon } from './dom.js';

/** `<lore-composer>`: fires `ask` with the question as detail, and `stop`. */
export class Composer extends HTMLElement {
  #busy = false;
  #text = h('textarea', {
    id: 'question',
    rows: 1,
    placeholder: 'Ask your documents',
    'aria-describedby': 'composer-keys',
    enterkeyhint: 'send',
    oninput: () => this.#grow(),
    onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
  });
  #button = h('button', { class: 'primary', type: 'submit' });

  connectedCallback() {
    const keys = h('p', { id: 'composer-keys', class: 'keys' }, 'Enter asks · Shift+Enter new line · Esc stops');
    const label = h('label', { for: 'question', class: 'unseen' }, 'Your question');
    const box = h('div', { class: 'composer-box' }, label, this.#text, this.#button);
    fill(this, h('form', { onsubmit: (/** @type {Event} */ event) => this.#submit(event) }, box, keys));
    this.busy = false;
  }

  /** While busy the button stops the answer. */
  set busy(busy) {
    this.#busy = busy;
    fill(this.#button, icon(busy ? 'stop' : 'send'), h('span', {}, busy ? 'Stop' : 'Ask'));
  }

  get busy() {
    return this.#busy;
  }

  focus() {
    this.#text.focus();
  }

  /** @param {Event} event */
  #submit(event) {
    event.preventDefault();
    if (this.#busy) {
      this.dispatchEvent(new CustomEvent('stop'));
      return;
    }
    const question = this.#text.value.trim();
    if (!question) return;
    this.#text.value = '';
    this.#grow();
    this.dispatchEvent(new CustomEvent('ask', { detail: question }));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    // An Enter that ends an input method's composition is not meant for us.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!this.#busy) this.#submit(event);
  }

  #grow() {
    this.#text.style.height = 'auto';
    this.#text.style.height = `${this.#text.scrollHeight}px`;
  }
}

customElements.define('lore-composer', Composer);
