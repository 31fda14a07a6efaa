"""The browser of the end-to-end tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.e2e.browser import Chromium, chromium, chromium_path


@pytest.fixture
async def browser() -> AsyncIterator[Chromium]:
    executable = chromium_path()
    if executable is None:
        pytest.skip("SKIPPED FOR WANT OF A BROWSER: install one (apt-get install chromium) and run again")
    async with chromium(executable) as started:
        yield started
