/** The ingest button and the run it starts, live. */

import { ApiError, ingestStatus, startIngest } from './api.js';
import { announce, fill, h, icon, oncePerFrame } from './dom.js';
import { filesByStage, fold, idleRun, STAGES, summaryWords } from './ingest_run.js';
import { counted } from './words.js';

/** How long to wait before asking again after the stream broke in the middle of a run. */
const RETRY_DELAY_MS = 2000;

/** Files named while they are worked on. */
const NAMED = 3;

/** `<lore-ingest>`: fires `ingested` when a run ends and `running` (detail: boolean) when that changes. */
export class Ingest extends HTMLElement {
  #run = idleRun();
  #following = false;
  #trouble = '';
  #label = h('span');
  #button = h('button', { class: 'primary', type: 'button', onclick: () => this.start() }, icon('ingest'), this.#label);
  #bar = h('progress', { 'aria-label': 'Files ingested', hidden: true });
  #line = h('p', { class: 'ingest-line' });
  #stages = h('ol', { class: 'stages', hidden: true, 'aria-label': 'Files in each stage' });
  #details = h('div', { class: 'ingest-details' });
  #drawSoon = oncePerFrame(() => this.#draw());

  connectedCallback() {
    fill(this, h('div', { class: 'ingest-head' }, this.#button, this.#line), this.#bar, this.#stages, this.#details);
    this.#draw();
  }

  /** Starts a run; when one is under way already, shows that one. */
  async start() {
    this.#trouble = '';
    try {
      await startIngest();
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      if (problem.code !== 'ingest_already_running') {
        this.#trouble = problem.message;
        announce(problem.message);
        this.#draw();
        return;
      }
    }
    announce('Ingest started.');
    await this.follow();
  }

  /** Shows the current or the last run, to its end. */
  async follow() {
    if (this.#following) return;
    this.#following = true;
    try {
      while (await this.#readOnce()) await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY_MS));
    } finally {
      this.#following = false;
    }
  }

  /**
   * Reads the stream once, from the run's first frame.
   *
   * @returns {Promise<boolean>} whether the run goes on although the stream ended
   */
  async #readOnce() {
    const wasRunning = this.#run.state === 'running';
    let sawRunning = wasRunning;
    let run = idleRun();
    try {
      for await (const frame of ingestStatus(new AbortController().signal)) {
        run = fold(run, frame);
        this.#show(run);
        sawRunning ||= run.state === 'running';
      }
    } catch (problem) {
      if (!(problem instanceof ApiError || problem instanceof TypeError)) throw problem;
      return this.#run.state === 'running';
    }
    if (run.state === 'running') return true;
    if (sawRunning) {
      announce(run.summary ? `Ingest ended. ${summaryWords(run.summary)}` : 'Ingest ended.');
      this.dispatchEvent(new CustomEvent('ingested'));
    }
    return false;
  }

  /** @param {import('./ingest_run.js').IngestRun} run */
  #show(run) {
    const before = this.#run.state === 'running';
    const now = run.state === 'running';
    this.#run = run;
    if (before !== now) this.dispatchEvent(new CustomEvent('running', { detail: now }));
    this.#drawSoon();
  }

  #draw() {
    const run = this.#run;
    const running = run.state === 'running';
    this.#button.disabled = running;
    this.#label.textContent = running ? 'Ingesting' : 'Ingest';
    this.#bar.hidden = !running;
    if (run.filesTotal > 0) {
      this.#bar.max = run.filesTotal;
      this.#bar.value = run.filesDone;
    } else this.#bar.removeAttribute('value');
    fill(this.#line, this.#words());
    this.#line.classList.toggle('trouble', Boolean(this.#trouble) || run.state === 'failed');
    this.#stages.hidden = !running;
    if (running) fill(this.#stages, ...stageItems(filesByStage(run)));
    fill(this.#details, running && workingNow(run), run.troubles.length > 0 && troubleList(run.troubles));
  }

  #words() {
    const run = this.#run;
    if (this.#trouble) return this.#trouble;
    if (run.state === 'running') {
      return run.filesTotal > 0
        ? `${run.filesDone.toLocaleString()} of ${counted(run.filesTotal, 'file')} done`
        : 'Looking through docs/';
    }
    if (run.state === 'failed') return run.error ?? 'The last ingest failed. Press Ingest to go on where it stopped.';
    if (run.state === 'completed') return run.summary ? `Last ingest: ${summaryWords(run.summary)}` : 'Last ingest done.';
    return 'Reads what is new or changed in docs/.';
  }
}

/** @param {Map<string, number>} counts */
function stageItems(counts) {
  return STAGES.map(([stage, name]) => {
    const count = counts.get(stage) ?? 0;
    return h('li', { class: count > 0 ? 'active' : null }, h('span', {}, name), h('b', {}, count > 0 ? count : '·'));
  });
}

/** @param {import('./ingest_run.js').IngestRun} run */
function workingNow(run) {
  const files = [...run.working].slice(-NAMED);
  if (files.length === 0) return null;
  const names = new Map(STAGES);
  return h(
    'ul',
    { class: 'working-files' },
    ...files.map(([file, { stage, current, total }]) => {
      const ticks = current !== null && total !== null ? ` ${current}/${total}` : '';
      return h('li', {}, h('span', { class: 'file' }, file), ` ${names.get(/** @type {any} */ (stage)) ?? stage}${ticks}`);
    }),
  );
}

/** @param {import('./ingest_run.js').Outcome[]} troubles */
function troubleList(troubles) {
  const items = troubles.map(({ file, outcome, reason }) =>
    h(
      'li',
      {},
      h('span', { class: outcome === 'failed' ? 'tag bad' : 'tag' }, outcome === 'failed' ? 'failed' : 'no text'),
      h('span', { class: 'file' }, file),
      h('span', { class: 'reason' }, reason || 'No reason was given.'),
    ),
  );
  const title = counted(troubles.length, 'file needs a look', 'files need a look');
  return h('details', { open: troubles.length <= 8, class: 'troubles' }, h('summary', {}, title), h('ul', {}, ...items));
}

customElements.define('lore-ingest', Ingest);
