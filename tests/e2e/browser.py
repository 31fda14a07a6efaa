"""A real Chromium for a test, and what its console said."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from playwright.async_api import Browser, Page, async_playwright

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 30_000


def chromium_path() -> str | None:
    """Where the machine has a Chromium; None where it has none."""
    for name in ("chromium", "chromium-browser", "google-chrome", "/usr/bin/chromium"):
        if (found := shutil.which(name)) is not None:
            return found
    return None


@dataclass
class Chromium:
    """A running browser; `complaints` collects what every page's console says, CSP violations included."""

    browser: Browser
    complaints: list[str] = field(default_factory=list)

    async def page(
        self,
        url: str,
        *,
        width_px: int = 1280,
        height_px: int = 800,
        scheme: Literal["light", "dark"] = "light",
    ) -> Page:
        """A page of a browser profile of its own, opened at an address."""
        context = await self.browser.new_context(
            viewport={"width": width_px, "height": height_px}, color_scheme=scheme
        )
        context.set_default_timeout(PATIENCE_MS)
        page = await context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        page.on(
            "console",
            lambda said: (
                self.complaints.append(f"{said.type}: {said.text}")
                if said.type in {"error", "warning"}
                else None
            ),
        )
        await page.goto(url)
        return page


@asynccontextmanager
async def chromium(executable: str) -> AsyncIterator[Chromium]:
    """Start a browser and end it."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=list(FLAGS))
        try:
            yield Chromium(browser)
        finally:
            await browser.close()


async def ask(page: Page, question: str) -> None:
    """Ask, and wait until the answer is complete."""
    await page.get_by_label("Your question").fill(question)
    await page.keyboard.press("Enter")
    turn = page.locator("lore-turn", has_text=question)
    await turn.get_by_role("button", name="Copy").wait_for()


async def upload(page: Page, paths: Sequence[Path]) -> None:
    """Choose files on the documents view, and wait until they are stored."""
    await page.get_by_label("Files to upload").set_input_files(list(paths))
    await page.locator(".upload-list .tag.good").nth(len(paths) - 1).wait_for()
