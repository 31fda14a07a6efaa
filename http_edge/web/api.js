/** The HTTP API, one function a route. Addresses are relative, so the page also works below a prefix. */

import { frames } from './sse.js';

/** @typedef {import('./sse.js').Frame} Frame */

/** A request that did not do what was asked; the message says why and what to do. */
export class ApiError extends Error {
  /**
   * @param {string} code the API's machine word, or `network` when nothing answered
   * @param {string} message
   * @param {number} [status] HTTP status, 0 when nothing answered
   */
  constructor(code, message, status = 0) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/** Highest log sequence a write of this page was given: lists wait for it, so they show what was just done. */
let lastSeq = 0;

/**
 * Sends a request and refuses every answer that is not a success.
 *
 * @param {string} path
 * @param {RequestInit} [init]
 * @returns {Promise<Response>}
 * @throws {ApiError}
 */
async function send(path, init = {}) {
  /** @type {Response} */
  let response;
  try {
    response = await fetch(path, init);
  } catch (problem) {
    if (init.signal?.aborted) throw problem;
    throw new ApiError(
      'network',
      'Loreline is not answering. Check that “loreline up” is still running, then try again.',
    );
  }
  lastSeq = Math.max(lastSeq, Number(response.headers.get('X-Log-Seq')) || 0);
  if (!response.ok) throw await refusal(response);
  return response;
}

/**
 * Reads the error envelope of a refusal.
 *
 * @param {Response} response
 * @returns {Promise<ApiError>}
 */
async function refusal(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    // Not our envelope (a proxy's page, perhaps): the status has to speak for itself.
  }
  const code = body?.error?.code ?? `http_${response.status}`;
  const message = body?.error?.message ?? `The server answered ${response.status}. Try again in a moment.`;
  return new ApiError(code, message, response.status);
}

/**
 * @param {string} path
 * @returns {Promise<any>}
 */
async function getJson(path) {
  return (await send(path, { headers: { Accept: 'application/json' } })).json();
}

/**
 * A list that contains what this page wrote last; when it is not there in time, the list as it is.
 *
 * @param {string} path
 * @returns {Promise<any>}
 */
async function getList(path) {
  if (lastSeq === 0) return getJson(path);
  try {
    return await getJson(`${path}?min_seq=${lastSeq}`);
  } catch (problem) {
    if (problem instanceof ApiError && problem.status === 503) return getJson(path);
    throw problem;
  }
}

/**
 * @param {string} path
 * @param {unknown} body
 * @param {AbortSignal} [signal]
 * @returns {Promise<Response>}
 */
function postJson(path, body, signal) {
  const headers = { 'Content-Type': 'application/json' };
  return send(path, { method: 'POST', headers, body: JSON.stringify(body), signal });
}

export const getHealth = () => getJson('api/health');
export const getConfig = () => getJson('api/config');
export const listConversations = () => getList('api/conversations');
export const listDocuments = () => getList('api/documents');

/** @param {string} id */
export const getConversation = (id) => getJson(`api/conversations/${encodeURIComponent(id)}`);

/** @param {string} id */
export const deleteConversation = (id) =>
  send(`api/conversations/${encodeURIComponent(id)}`, { method: 'DELETE' });

/**
 * @param {string} docId
 * @param {boolean} removeFile also delete the file in `docs/`
 */
export const deleteDocument = (docId, removeFile) =>
  send(`api/documents/${encodeURIComponent(docId)}?remove_file=${removeFile}`, { method: 'DELETE' });

/**
 * Stores files in `docs/`; they become documents by the next ingest.
 *
 * @param {{file: File, path: string}[]} batch path below `docs/`, empty for a file on its own
 * @returns {Promise<{file_name: string, stored: boolean, replaced: boolean, reason: string | null}[]>} in the batch's order
 */
export async function uploadFiles(batch) {
  const form = new FormData();
  for (const { file, path } of batch) {
    form.append('files', file, file.name);
    form.append('paths', path);
    form.append('modified', String(file.lastModified));
  }
  const response = await send('api/documents', { method: 'POST', body: form });
  return (await response.json()).files;
}

export const startIngest = () => postJson('api/ingest', { reingest: false });

/**
 * Yields the frames of the current or the last ingest run, from its first.
 *
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<Frame>}
 */
export async function* ingestStatus(signal) {
  const response = await send('api/ingest/status', { signal });
  if (response.body) yield* frames(response.body);
}

/** How often a broken answer stream is picked up again, and how long to wait before, in milliseconds. */
const RESUME_DELAYS_MS = [300, 1000, 3000];

/**
 * Asks a question and yields the frames of its answer. A connection that breaks is picked up where it broke.
 *
 * @param {string} query
 * @param {object} options
 * @param {string | null} options.conversationId null starts a conversation
 * @param {AbortSignal} options.signal
 * @param {(turnId: string | null) => void} options.onTurn told the turn's id, which `abortTurn` needs
 * @returns {AsyncGenerator<Frame>}
 * @throws {ApiError}
 */
export async function* ask(query, { conversationId, signal, onTurn }) {
  const first = await postJson('api/chat', { query, conversation_id: conversationId }, signal);
  const turnId = first.headers.get('X-Turn-Id');
  onTurn(turnId);
  let lastId = '';
  let response = first;
  for (let attempt = 0; ; attempt += 1) {
    try {
      for await (const frame of frames(/** @type {ReadableStream<Uint8Array>} */ (response.body))) {
        lastId = frame.id;
        yield frame;
        if (frame.event === 'done' || frame.event === 'error') return;
      }
    } catch (problem) {
      if (signal.aborted || !(problem instanceof TypeError)) throw problem;
    }
    // Without a turn and a position a second stream would repeat what is already on the page.
    if (!turnId || !lastId || attempt >= RESUME_DELAYS_MS.length) break;
    await new Promise((resolve) => setTimeout(resolve, RESUME_DELAYS_MS[attempt]));
    const headers = { 'Last-Event-ID': lastId };
    response = await send(`api/chat/${encodeURIComponent(turnId)}/stream`, { headers, signal });
  }
  throw new ApiError('network', 'The connection broke before the answer was complete. Ask again.');
}

/** @param {string} turnId */
export const abortTurn = (turnId) =>
  send(`api/chat/${encodeURIComponent(turnId)}/abort`, { method: 'POST' });
