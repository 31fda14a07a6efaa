/** Loaded as render-blocking, alone, so that a dark page never flashes light. */

import { restoreTheme } from './theme.js';

restoreTheme();
