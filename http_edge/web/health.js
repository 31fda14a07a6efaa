/** A banner while a part of the system is not answering; nothing while all is well. */

import { ApiError, getHealth } from './api.js';
import { fill, h, icon } from './dom.js';

const WELL_EVERY_MS = 20_000;
const ILL_EVERY_MS = 4_000;

/** What each part is there for, for those who never heard its name. */
const PARTS = new Map([
  ['nats', 'the log (nats)'],
  ['postgres', 'the passages and conversations (postgres)'],
  ['elasticsearch', 'the word index (elasticsearch)'],
  ['embedder', 'the embedder'],
  ['infinity', 'the embedder (infinity)'],
  ['llm', 'the language model'],
  ['llamacpp', 'the language model (llamacpp)'],
  ['views', 'what is shown and searched (views)'],
]);

/** `<lore-health>`: fires `recovered` when all is well again. */
export class Health extends HTMLElement {
  #well = true;
  #timer = 0;

  connectedCallback() {
    this.setAttribute('role', 'status');
    this.hidden = true;
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) this.check();
    });
    this.check();
  }

  /** Asks now, and again later. */
  async check() {
    clearTimeout(this.#timer);
    const words = await diagnosis();
    const well = words === null;
    if (well && !this.#well) this.dispatchEvent(new CustomEvent('recovered'));
    this.#well = well;
    this.hidden = well;
    if (words !== null && this.textContent !== words) fill(this, icon('alert'), h('span', {}, words));
    clearTimeout(this.#timer);
    if (!document.hidden) this.#timer = window.setTimeout(() => this.check(), well ? WELL_EVERY_MS : ILL_EVERY_MS);
  }
}

/** @returns {Promise<string | null>} what is wrong and what to do, null when all is well */
async function diagnosis() {
  try {
    const { ok, services } = await getHealth();
    if (ok) return null;
    const down = Object.entries(services).filter(([, service]) => !service.ok);
    const parts = down.map(([name, { detail }]) => `${PARTS.get(name) ?? name}${detail ? `: ${detail}` : ''}`);
    return `Not answering: ${parts.join('; ') || 'a part of Loreline'}. It is tried again by itself; “loreline status” tells more.`;
  } catch (problem) {
    if (!(problem instanceof ApiError)) throw problem;
    return problem.message;
  }
}

customElements.define('lore-health', Health);
