"""`python -m loreline`."""

from __future__ import annotations

import sys

from loreline.cli import main

sys.exit(main())
