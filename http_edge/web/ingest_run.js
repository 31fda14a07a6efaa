/** What an ingest run looks like, folded from the frames of its status stream. Pure: no page, no network. */

/** The stages a file goes through, in order: the API's word and the page's. */
export const STAGES = /** @type {const} */ ([
  ['discover', 'Discover'],
  ['parse', 'Parse'],
  ['chunk', 'Chunk'],
  ['contextualize', 'Situate'],
  ['embed', 'Embed'],
  ['store', 'Store'],
]);

/** @typedef {{file: string, outcome: string, reason: string}} Outcome */

/**
 * @typedef {object} IngestRun
 * @property {string} state `idle`, `running`, `completed` or `failed`
 * @property {string | null} error why the run as a whole failed
 * @property {any} summary the API's counters of a finished run
 * @property {number} filesDone
 * @property {number} filesTotal
 * @property {Map<string, {stage: string, current: number | null, total: number | null}>} working file by file
 * @property {Outcome[]} troubles files that failed or hold no text
 * @property {string[]} warnings log lines that warn, newest last
 */

/** Warnings kept: enough to find a file's reason, bounded for a run over very many files. */
const KEPT_WARNINGS = 2000;

/** @returns {IngestRun} */
export function idleRun() {
  return {
    state: 'idle',
    error: null,
    summary: null,
    filesDone: 0,
    filesTotal: 0,
    working: new Map(),
    troubles: [],
    warnings: [],
  };
}

/**
 * The run after one more frame. The given run is used up: keep only the returned one.
 *
 * @param {IngestRun} run
 * @param {{event: string, data: any}} frame
 * @returns {IngestRun}
 */
export function fold(run, { event, data }) {
  if (event === 'status') return foldStatus(run, data.run);
  if (event === 'progress') return foldProgress(run, data);
  if (event === 'log' && /^(warn|err|crit)/i.test(data.level)) {
    const warnings = [...run.warnings, data.message].slice(-KEPT_WARNINGS);
    return { ...run, warnings, troubles: run.troubles.map((trouble) => explained(trouble, warnings)) };
  }
  return run;
}

/**
 * @param {IngestRun} run
 * @param {any} status
 */
function foldStatus(run, status) {
  if (!status) return idleRun();
  const over = status.state !== 'running';
  return {
    ...run,
    state: status.state,
    error: status.error ?? null,
    summary: status.summary ?? null,
    working: over ? new Map() : run.working,
  };
}

/**
 * @param {IngestRun} run
 * @param {any} progress
 */
function foldProgress(run, progress) {
  const filesDone = progress.files_done ?? run.filesDone;
  const filesTotal = progress.files_total ?? run.filesTotal;
  if (!progress.file) return { ...run, filesDone, filesTotal };
  if (progress.stage === 'file_done') {
    run.working.delete(progress.file);
    const trouble = troubleOf(progress);
    const troubles = trouble ? [...run.troubles, explained(trouble, run.warnings)] : run.troubles;
    return { ...run, filesDone, filesTotal, troubles };
  }
  const { stage, current = null, total = null } = progress;
  run.working.set(progress.file, { stage, current, total });
  return { ...run, filesDone, filesTotal };
}

/**
 * @param {any} progress
 * @returns {Outcome | null}
 */
function troubleOf({ file, outcome, reason }) {
  if (outcome !== 'failed' && outcome !== 'no_text') return null;
  return { file, outcome, reason: reason ?? '' };
}

/**
 * The trouble with its reason: its own, else the last warning that names its file.
 *
 * @param {Outcome} trouble
 * @param {string[]} warnings
 * @returns {Outcome}
 */
function explained(trouble, warnings) {
  if (trouble.reason) return trouble;
  const reason = warnings.findLast((line) => line.includes(trouble.file));
  if (!reason) return trouble;
  const prefix = `${trouble.file}: `;
  return { ...trouble, reason: reason.startsWith(prefix) ? reason.slice(prefix.length) : reason };
}

/**
 * How many files stand in each stage now.
 *
 * @param {IngestRun} run
 * @returns {Map<string, number>}
 */
export function filesByStage(run) {
  const counts = new Map();
  for (const { stage } of run.working.values()) counts.set(stage, (counts.get(stage) ?? 0) + 1);
  return counts;
}

/**
 * A finished run in one sentence.
 *
 * @param {any} summary
 */
export function summaryWords(summary) {
  const parts = [
    [summary.ingested, 'ingested'],
    [summary.skipped, 'unchanged'],
    [summary.no_text, 'without text'],
    [summary.failed, 'failed'],
    [summary.unsupported, 'of a kind not read'],
  ];
  const said = parts.filter(([count]) => count > 0).map(([count, word]) => `${count.toLocaleString()} ${word}`);
  return said.length > 0 ? `${said.join(', ')}.` : 'Nothing in docs/ to ingest.';
}
