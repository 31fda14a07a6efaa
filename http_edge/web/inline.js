/** Markdown inside a paragraph, as DOM nodes: code, bold, italic, struck, links and citation marks. */

import { h } from './dom.js';

/**
 * Makes the node for citation mark `n`; null when no passage has that number, and the mark then stays plain text.
 *
 * @typedef {(mark: number) => Node | null} CiteMaker
 */

/**
 * One construct: where it starts, and what it becomes. `null` from `build` means: not one after all.
 *
 * @typedef {object} Rule
 * @property {RegExp} pattern anchored at the current position (sticky)
 * @property {(match: RegExpExecArray, cite: CiteMaker) => Node | null} build
 */

/** @type {Rule[]} */
const RULES = [
  { pattern: /\\([\\`*_{}[\]()#+\-.!|>~])/y, build: (m) => document.createTextNode(m[1]) },
  { pattern: /(`+)(?!`)([^]*?[^`])\1(?!`)/y, build: (m) => h('code', {}, m[2].replace(/^ (.*) $/s, '$1')) },
  { pattern: /\[(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\](?!\()/y, build: buildMarks },
  { pattern: /\[([^\]\n]+)\]\(([^\s()]+(?:\([^\s()]*\)[^\s()]*)?)(?:\s+"[^"]*")?\)/y, build: buildLink },
  { pattern: /<(https?:\/\/[^\s<>]+)>/y, build: (m) => link(m[1], [m[1]]) },
  { pattern: /https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]*_]/y, build: (m) => link(m[0], [m[0]]) },
  { pattern: /\*\*(?=\S)([^]+?\S)\*\*(?!\*)|\*\*(\S)\*\*/y, build: (m, cite) => wrap('strong', m, cite) },
  { pattern: /(?<!\w)__(?=\S)([^]*?\S)__(?!\w)/y, build: (m, cite) => wrap('strong', m, cite) },
  { pattern: /(?<!\d)\*(?![\s*])([^*]*[^\s*])\*(?!\*)/y, build: (m, cite) => wrap('em', m, cite) },
  { pattern: /(?<!\w)_(?![\s_])([^_]*[^\s_])_(?!\w)/y, build: (m, cite) => wrap('em', m, cite) },
  { pattern: /~~(?=\S)([^]*?\S)~~/y, build: (m, cite) => wrap('s', m, cite) },
  { pattern: / {2,}\n|\\\n/y, build: () => h('br') },
];

/** Characters a construct can start with; everything between two of them is text. */
const STARTS = /[\\`[<h*_~ ]/g;

/**
 * Renders a run of text.
 *
 * @param {string} text
 * @param {CiteMaker} cite
 * @returns {Node[]}
 */
export function renderInline(text, cite) {
  /** @type {Node[]} */
  const nodes = [];
  let plainFrom = 0;
  let at = 0;
  while (at < text.length) {
    STARTS.lastIndex = at;
    const start = STARTS.exec(text);
    if (!start) break;
    at = start.index;
    const found = matchAt(text, at, cite);
    if (!found) {
      at += 1;
      continue;
    }
    if (at > plainFrom) nodes.push(document.createTextNode(text.slice(plainFrom, at)));
    nodes.push(found.node);
    at = found.end;
    plainFrom = at;
  }
  if (plainFrom < text.length) nodes.push(document.createTextNode(text.slice(plainFrom)));
  return nodes;
}

/**
 * @param {string} text
 * @param {number} at
 * @param {CiteMaker} cite
 * @returns {{node: Node, end: number} | null}
 */
function matchAt(text, at, cite) {
  for (const { pattern, build } of RULES) {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    const end = pattern.lastIndex;
    const node = match && build(match, cite);
    if (node) return { node, end };
  }
  return null;
}

/**
 * @param {'strong' | 'em' | 's'} tag
 * @param {RegExpExecArray} match
 * @param {CiteMaker} cite
 */
function wrap(tag, match, cite) {
  return h(tag, {}, ...renderInline(match[1] ?? match[2], cite));
}

/**
 * `[2]` or `[1, 3]`: every number must name a passage, or the whole mark stays text.
 *
 * @param {RegExpExecArray} match
 * @param {CiteMaker} cite
 */
function buildMarks(match, cite) {
  const chips = match[1].split(/[,;]/).map((number) => cite(Number(number)));
  if (chips.some((chip) => chip === null)) return null;
  const fragment = document.createDocumentFragment();
  fragment.append(.../** @type {Node[]} */ (chips));
  return fragment;
}

/**
 * Text of a link holds no chips and no links: `cite` makes nothing there.
 *
 * @param {RegExpExecArray} match
 */
function buildLink(match) {
  return link(match[2], renderInline(match[1].replace(/https?:/g, ''), () => null));
}

/**
 * A link that leaves; only the web's own schemes make one.
 *
 * @param {string} address
 * @param {(Node | string)[]} children
 * @returns {HTMLAnchorElement | null}
 */
function link(address, children) {
  if (!/^https?:\/\//i.test(address) || !URL.canParse(address)) return null;
  return h('a', { href: address, target: '_blank', rel: 'noopener noreferrer' }, ...children);
}
