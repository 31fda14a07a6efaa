/** Light, dark, or as the system says. The choice stays in this browser. */

const KEY = 'loreline.theme';

/** @typedef {'auto' | 'light' | 'dark'} Theme */

/** @type {Theme[]} */
const THEMES = ['auto', 'light', 'dark'];

/** @type {Record<Theme, {icon: string, label: string}>} */
export const THEME_FACES = {
  auto: { icon: 'auto', label: 'Colours: as the system' },
  light: { icon: 'sun', label: 'Colours: light' },
  dark: { icon: 'moon', label: 'Colours: dark' },
};

/**
 * The chosen theme.
 *
 * @returns {Theme}
 */
export function currentTheme() {
  const name = document.documentElement.dataset.theme;
  return name === 'light' || name === 'dark' ? name : 'auto';
}

/**
 * Moves on to the next theme and remembers it.
 *
 * @returns {Theme}
 */
export function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length];
  show(theme);
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Storage may be switched off; the choice then lasts as long as the page.
  }
  return theme;
}

/** Shows the theme remembered from the last visit. The page calls it before its first paint. */
export function restoreTheme() {
  try {
    show(/** @type {Theme} */ (localStorage.getItem(KEY) ?? 'auto'));
  } catch {
    show('auto');
  }
}

/** @param {Theme} theme */
function show(theme) {
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}
