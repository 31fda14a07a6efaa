/** Asking before something is lost. */

import { h } from './dom.js';

/**
 * Asks in a dialog; Escape means no, and the focus returns to where it was.
 *
 * @param {object} question
 * @param {string} question.title
 * @param {string} question.body
 * @param {string} question.action what the button that goes ahead says
 * @param {string} [question.option] a choice that goes with it
 * @returns {Promise<{yes: boolean, option: boolean}>}
 */
export function confirmed({ title, body, action, option }) {
  const box = h('input', { type: 'checkbox' });
  const dialog = h(
    'dialog',
    { 'aria-labelledby': 'confirm-title' },
    h(
      'form',
      { method: 'dialog' },
      h('h2', { id: 'confirm-title' }, title),
      h('p', {}, body),
      option !== undefined && h('label', { class: 'option' }, box, option),
      h(
        'div',
        { class: 'dialog-buttons' },
        h('button', { value: 'no', autofocus: true }, 'Keep it'),
        h('button', { value: 'yes', class: 'danger' }, action),
      ),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve({ yes: dialog.returnValue === 'yes', option: box.checked });
    });
  });
}
