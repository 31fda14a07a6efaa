/** A passage as the page shows it, whether it comes live from a stream or stored with a past turn. */

/**
 * How a passage got its rank; ranks are from 1, and null where an arm never surfaced it.
 *
 * @typedef {object} Trace
 * @property {number | null} [semantic_rank]
 * @property {number | null} [semantic_score]
 * @property {number | null} [bm25_rank]
 * @property {number | null} [bm25_score]
 * @property {number | null} [fused_rank]
 * @property {number | null} [fused_score]
 * @property {number | null} [rerank_score]
 * @property {number | null} [rerank_delta]
 */

/**
 * @typedef {object} Passage
 * @property {number} rank the number its citation marks carry
 * @property {string} chunkId
 * @property {string} fileName
 * @property {string} path where the file stands below `docs/`, else its full path
 * @property {number | null} page
 * @property {string[]} headings titles of the sections it stands in, outermost first
 * @property {string} content
 * @property {string | null} context the blurb that situates it in its document
 * @property {boolean} read by recognising an image's text, which may misread
 * @property {number} score
 * @property {Trace} trace
 */

/**
 * A mark in an answer that was checked against the passage it names.
 *
 * @typedef {object} Citation
 * @property {number} mark
 * @property {string} chunk_id
 * @property {string | null} [quote] the exact part of the passage that the answer quotes
 */

/**
 * From one chunk of a `retrieval` frame.
 *
 * @param {any} chunk
 * @param {number} position place in the list, from 0
 * @returns {Passage}
 */
export function fromRetrieval(chunk, position) {
  const trace = chunk.trace ?? {};
  return passage(chunk.metadata ?? {}, chunk, trace, trace.final_rank ?? position + 1);
}

/**
 * From one source stored with a past answer.
 *
 * @param {any} source
 * @returns {Passage}
 */
export function fromStored(source) {
  const kept = source.trace ?? {};
  const about = { ...kept.metadata, ...kept };
  return passage(about, { ...kept, chunk_id: source.chunk_id }, kept.trace ?? {}, source.rank);
}

/**
 * @param {any} about what is known of the chunk and its file
 * @param {any} chunk
 * @param {Trace} trace
 * @param {number} rank
 * @returns {Passage}
 */
function passage(about, chunk, trace, rank) {
  const path = about.relative_path ?? about.source ?? '';
  return {
    rank,
    chunkId: chunk.chunk_id,
    fileName: about.file_name ?? (path.split('/').pop() || 'Unnamed file'),
    path,
    page: about.page ?? null,
    headings: headings(about.heading_path),
    content: chunk.content ?? '',
    context: chunk.context ?? null,
    read: about.extraction === 'ocr' || about.extraction === 'ocr_fallback',
    score: chunk.score ?? 0,
    trace,
  };
}

/**
 * @param {string | string[] | null | undefined} path
 * @returns {string[]}
 */
function headings(path) {
  if (!path) return [];
  return Array.isArray(path) ? path : path.split(' > ');
}

/**
 * One line a reader can find the passage by: `tides.md, page 2`.
 *
 * @param {Passage} passage
 */
export function whereabouts(passage) {
  return passage.page === null ? passage.fileName : `${passage.fileName}, page ${passage.page}`;
}
