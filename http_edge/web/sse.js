/**
 * Server-sent events read from a fetch response (WHATWG HTML, section 9.2.6). `EventSource` can only GET; questions are
 * POSTed.
 */

/**
 * @typedef {object} Frame
 * @property {string} event the event's name, `message` when the frame gives none
 * @property {any} data the frame's JSON
 * @property {string} id the last id seen on the stream, empty before the first
 */

/**
 * Yields the frames of an event stream as they arrive. A frame cut short by the end of the stream is dropped.
 *
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<Frame>}
 */
export async function* frames(body) {
  let event = '';
  /** @type {string[]} */
  let data = [];
  let id = '';
  for await (const line of lines(body)) {
    if (line === '') {
      if (data.length > 0) yield { event: event || 'message', data: JSON.parse(data.join('\n')), id };
      event = '';
      data = [];
      continue;
    }
    const [field, value] = split(line);
    if (field === 'event') event = value;
    else if (field === 'data') data.push(value);
    else if (field === 'id') id = value;
  }
}

/**
 * Splits a line into field and value; a comment's field is empty.
 *
 * @param {string} line
 * @returns {[string, string]}
 */
function split(line) {
  const colon = line.indexOf(':');
  if (colon < 0) return [line, ''];
  const value = line.slice(colon + 1);
  return [line.slice(0, colon), value.startsWith(' ') ? value.slice(1) : value];
}

/**
 * Yields complete lines; LF, CR and CRLF all end one.
 *
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<string>}
 */
async function* lines(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      // A CR at the very end may be half of a CRLF: it waits for the next piece.
      const parts = rest.split(/\r\n|\n|\r(?!$)/);
      rest = parts.pop() ?? '';
      yield* parts;
    }
  } finally {
    reader.releaseLock();
  }
}
