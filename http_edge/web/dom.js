/** Building elements without HTML strings, so that nothing a document says can become markup. */

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Creates an element.
 *
 * A prop named `onclick`, `oninput`, … with a function listens; `true` sets a bare attribute; `null`, `undefined` and
 * `false` leave the attribute out; anything else becomes the attribute's text.
 *
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, unknown>} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') {
      element.addEventListener(name.replace(/^on/, ''), /** @type {EventListener} */ (value));
    } else {
      element.setAttribute(name, value === true ? '' : String(value));
    }
  }
  element.append(...present(children.flat()));
  return element;
}

/**
 * Replaces an element's children.
 *
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function fill(element, ...children) {
  element.replaceChildren(...present(children.flat()));
}

/**
 * Makes an element's children those of a fragment, keeping the ones that did not change: what a reader has selected or
 * focused in a growing text stays so.
 *
 * @param {Element} element
 * @param {DocumentFragment} wanted
 */
export function patch(element, wanted) {
  let same = 0;
  while (same < element.childNodes.length && wanted.firstChild?.isEqualNode(element.childNodes[same])) {
    wanted.firstChild.remove();
    same += 1;
  }
  while (element.childNodes.length > same) element.lastChild?.remove();
  element.append(wanted);
}

/**
 * Drops the children that stand for nothing.
 *
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
function present(children) {
  const kept = [];
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    kept.push(child instanceof Node ? child : String(child));
  }
  return kept;
}

/**
 * Draws one of the icons in `icons.svg`; it says nothing to a screen reader, its button's label does.
 *
 * @param {string} name the symbol's id
 * @returns {SVGSVGElement}
 */
export function icon(name) {
  const space = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(space, 'svg');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const use = document.createElementNS(space, 'use');
  use.setAttribute('href', new URL(`icons.svg#${name}`, import.meta.url).href);
  svg.append(use);
  return svg;
}

/**
 * Says something once to a screen reader, after what it is reading now.
 *
 * @param {string} text
 */
export function announce(text) {
  const region = document.getElementById('announcer');
  if (region) region.textContent = text;
}

/**
 * Runs a drawing function at most once a frame, however often it is asked for.
 *
 * @param {() => void} draw
 * @returns {() => void}
 */
export function oncePerFrame(draw) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  };
}
