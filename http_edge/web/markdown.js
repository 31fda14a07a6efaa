/**
 * A small Markdown renderer for answers (a subset of CommonMark 0.31 with GitHub's tables). It builds nodes and never
 * parses HTML, so the worst an answer can do is look odd. Half-streamed text renders as far as it goes.
 */

import { h } from './dom.js';
import { renderInline } from './inline.js';

/** @typedef {import('./inline.js').CiteMaker} CiteMaker */

/**
 * Reads the block that starts at a line; also gives the line after it.
 *
 * @typedef {(lines: string[], at: number, cite: CiteMaker, depth: number) => [Node, number]} BlockReader
 */

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*(\S*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|(\d{1,9})[.)])(\s+|$)/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** Nesting deeper than this is shown as text: an answer is not a program to run. */
const MAX_DEPTH = 8;

/**
 * Renders an answer.
 *
 * @param {string} text
 * @param {CiteMaker} cite
 * @returns {DocumentFragment}
 */
export function renderMarkdown(text, cite) {
  const fragment = document.createDocumentFragment();
  fragment.append(...blocks(text.replace(/\r\n?/g, '\n').replace(/\t/g, '    ').split('\n'), cite, 0));
  return fragment;
}

/**
 * @param {string[]} lines
 * @param {CiteMaker} cite
 * @param {number} depth
 * @returns {Node[]}
 */
function blocks(lines, cite, depth) {
  /** @type {Node[]} */
  const nodes = [];
  let at = 0;
  while (at < lines.length) {
    if (lines[at].trim() === '') {
      at += 1;
      continue;
    }
    const [node, next] = block(lines, at, cite, depth);
    nodes.push(node);
    at = next;
  }
  return nodes;
}

/** @type {BlockReader} */
const block = (lines, at, cite, depth) => {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return codeBlock(lines, at, fence);
  const heading = HEADING.exec(line);
  // The page's own headings end at level 3: an answer's start below them.
  if (heading) return [h(heading[1].length < 3 ? 'h4' : 'h5', {}, ...renderInline(heading[2], cite)), at + 1];
  if (RULE.test(line)) return [h('hr'), at + 1];
  if (depth < MAX_DEPTH && QUOTE.test(line)) return quote(lines, at, cite, depth);
  if (depth < MAX_DEPTH && ITEM.test(line)) return list(lines, at, cite, depth);
  if (line.includes('|') && TABLE_RULE.test(lines[at + 1] ?? '') && (lines[at + 1] ?? '').includes('-')) {
    return table(lines, at, cite, depth);
  }
  return paragraph(lines, at, cite, depth);
};

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {RegExpExecArray} fence
 * @returns {[Node, number]}
 */
function codeBlock(lines, at, fence) {
  const close = new RegExp(`^ {0,3}\\${fence[1][0]}{${fence[1].length},}\\s*$`);
  let end = at + 1;
  while (end < lines.length && !close.test(lines[end])) end += 1;
  const code = h('code', {}, lines.slice(at + 1, end).join('\n'));
  return [h('pre', { tabindex: 0 }, code), end + 1];
}

/** @type {BlockReader} */
const quote = (lines, at, cite, depth) => {
  let end = at;
  while (end < lines.length && (QUOTE.test(lines[end]) || isProse(lines[end]))) end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ''));
  return [h('blockquote', {}, ...blocks(inner, cite, depth + 1)), end];
};

/** @type {BlockReader} */
const list = (lines, at, cite, depth) => {
  const first = /** @type {RegExpExecArray} */ (ITEM.exec(lines[at]));
  const ordered = first[3] !== undefined;
  /** @type {string[][]} */
  const items = [];
  let end = at;
  let indent = 0;
  while (end < lines.length) {
    const line = lines[end];
    const item = ITEM.exec(line);
    // An item two columns further in belongs to the one above.
    if (item && item[1].length < first[1].length + 2) {
      if ((item[3] !== undefined) !== ordered || RULE.test(line)) break;
      indent = item[0].length;
      items.push([line.slice(indent)]);
    } else if (line.trim() === '') {
      const next = lines[end + 1] ?? '';
      if (!ITEM.test(next) && !/^ {2,}\S/.test(next)) break;
      items[items.length - 1].push('');
    } else if (/^ {2,}/.test(line)) {
      items[items.length - 1].push(line.slice(Math.min(indent, line.search(/\S/))));
    } else if (isProse(line) && lines[end - 1].trim() !== '') {
      items[items.length - 1].push(line);
    } else break;
    end += 1;
  }
  const rendered = items.map((item) => h('li', {}, ...tight(blocks(item, cite, depth + 1))));
  const start = ordered && first[3] !== '1' ? first[3] : null;
  return [ordered ? h('ol', { start }, ...rendered) : h('ul', {}, ...rendered), end];
};

/**
 * An item that is one paragraph needs no paragraph.
 *
 * @param {Node[]} nodes
 * @returns {Node[]}
 */
function tight(nodes) {
  const [first, ...rest] = nodes;
  if (!(first instanceof HTMLParagraphElement)) return nodes;
  return [...first.childNodes, ...rest];
}

/** @type {BlockReader} */
const table = (lines, at, cite) => {
  const head = cells(lines[at]);
  const align = cells(lines[at + 1]).map((cell) => (cell.endsWith(':') ? (cell.startsWith(':') ? 'mid' : 'end') : null));
  let end = at + 2;
  while (end < lines.length && lines[end].includes('|')) end += 1;
  const body = lines.slice(at + 2, end).map((line) => {
    const row = cells(line);
    return h('tr', {}, ...head.map((_, n) => h('td', { class: align[n] }, ...renderInline(row[n] ?? '', cite))));
  });
  const top = h('tr', {}, ...head.map((cell, n) => h('th', { scope: 'col', class: align[n] }, ...renderInline(cell, cite))));
  const grid = h('table', {}, h('thead', {}, top), h('tbody', {}, ...body));
  return [h('div', { class: 'table-scroll', tabindex: 0, role: 'region', 'aria-label': 'Table' }, grid), end];
};

/**
 * @param {string} line
 * @returns {string[]}
 */
function cells(line) {
  const inner = line.trim().replace(/^\|/, '').replace(/(?<!\\)\|$/, '');
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, '|'));
}

/** @type {BlockReader} */
const paragraph = (lines, at, cite) => {
  let end = at + 1;
  while (end < lines.length && isProse(lines[end])) end += 1;
  return [h('p', {}, ...renderInline(lines.slice(at, end).join('\n').trim(), cite)), end];
};

/**
 * Whether a line carries on a paragraph rather than starting something of its own.
 *
 * @param {string} line
 */
function isProse(line) {
  if (line.trim() === '') return false;
  return ![FENCE, HEADING, RULE, QUOTE, ITEM].some((pattern) => pattern.test(line));
}
