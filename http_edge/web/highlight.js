/** Quoted sentences inside a passage: where they stand, how to mark them, which part of the passage to show first. */

import { h } from './dom.js';

/** @typedef {[start: number, end: number]} Span half open, in UTF-16 units of the passage's text */

/** Characters of a passage that are shown before it is opened. */
const EXCERPT_CHARS = 340;

/** Characters within which further quotes are still shown. */
const QUOTES_CHARS = 640;

/** Characters kept before a quote, so that it is read in its sentence's company. */
const LEAD_CHARS = 90;

/**
 * Where quotes stand in a text; overlapping ones join. A quote that is not in the text exactly is left out.
 *
 * @param {string} text
 * @param {string[]} quotes
 * @returns {Span[]} in order, disjoint
 */
export function findQuotes(text, quotes) {
  /** @type {Span[]} */
  const found = [];
  for (const quote of quotes) {
    const start = quote ? text.indexOf(quote) : -1;
    if (start >= 0) found.push([start, start + quote.length]);
  }
  found.sort((a, b) => a[0] - b[0]);
  /** @type {Span[]} */
  const joined = [];
  for (const [start, end] of found) {
    const last = joined[joined.length - 1];
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else joined.push([start, end]);
  }
  return joined;
}

/**
 * The part of a text to show first: around the first quote and those near it, else the beginning; cut between words.
 *
 * @param {string} text
 * @param {Span[]} spans
 * @returns {Span}
 */
export function excerpt(text, spans) {
  if (text.length <= EXCERPT_CHARS * 1.25) return [0, text.length];
  const [quoteStart, firstEnd] = spans[0] ?? [0, 0];
  const start = quoteStart <= LEAD_CHARS ? 0 : afterSpace(text, quoteStart - LEAD_CHARS, quoteStart);
  const quoteEnd = Math.max(firstEnd, ...spans.map(([, end]) => end).filter((end) => end <= start + QUOTES_CHARS));
  const wanted = Math.max(start + EXCERPT_CHARS, quoteEnd + 40);
  if (wanted >= text.length) return [start, text.length];
  const space = text.lastIndexOf(' ', wanted);
  return [start, space > quoteEnd ? space : wanted];
}

/**
 * @param {string} text
 * @param {number} from
 * @param {number} limit
 */
function afterSpace(text, from, limit) {
  const space = text.indexOf(' ', from);
  return space < 0 || space >= limit ? from : space + 1;
}

/**
 * A stretch of text with its quotes marked.
 *
 * @param {string} text
 * @param {Span[]} spans
 * @param {Span} shown
 * @param {boolean} tight close up blank lines
 * @returns {Node[]}
 */
export function marked(text, spans, [from, to], tight) {
  /** @type {Node[]} */
  const nodes = [];
  let at = from;
  const piece = (/** @type {number} */ start, /** @type {number} */ end) =>
    tight ? text.slice(start, end).replace(/\n\s*\n/g, '\n') : text.slice(start, end);
  const plain = (/** @type {number} */ end) => {
    if (end > at) nodes.push(document.createTextNode(piece(at, end)));
  };
  if (from > 0) nodes.push(document.createTextNode('… '));
  for (const [start, end] of spans) {
    if (end <= from || start >= to) continue;
    plain(Math.max(start, from));
    nodes.push(h('mark', {}, piece(Math.max(start, from), Math.min(end, to))));
    at = Math.min(end, to);
  }
  plain(to);
  if (to < text.length) nodes.push(document.createTextNode('\u00a0…'));
  return nodes;
}
