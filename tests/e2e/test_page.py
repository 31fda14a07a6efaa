"""The page in a real browser, against the real stack."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import JSHandle, Locator, Page, expect

from loreline.processors.models import EmbedderSettings, LanguageModelSettings
from tests.e2e.browser import PATIENCE_MS, Chromium, ask, upload
from tests.servers.scripted import Exchange, scripted
from tests.stack import ingest, stack_at, write

pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE_MS)

HARBOUR = (
    "# Harbour of Varn\n\nThe lighthouse of Varn is 41 metres tall. It was built in 1883 by Ida Sund.\n\n"
    "## Moorings\n\nA mooring for a boat of up to nine metres costs 310 crowns a year.\n"
)
LONG_NAME = "letters/" + "a name that somebody saved whole from the subject of a letter " * 3 + ".txt"
FILES: dict[str, str | bytes] = {
    "harbour.md": HARBOUR,
    LONG_NAME: "Dogs travel free of charge on the ferry to Osmund.\n",
    "渡し船.txt": "最後の渡し船は二十時三十分に出ます。\n",
    "מעבורת.txt": "המעבורת האחרונה יוצאת בשעה 20:30.\n",
    "empty.txt": "",
    "broken.pdf": b"%PDF-1.4 this is not one",
}
TALL = "How tall is the lighthouse of Varn?"


async def focused(page: Page) -> str:
    """The label, or else the text, of what has the focus."""
    script = "(document.activeElement.ariaLabel ?? '') || document.activeElement.textContent.trim()"
    return str(await page.evaluate(script))


async def test_an_uploaded_file_becomes_an_answer_with_evidence_that_outlives_a_reload(
    tmp_path: Path, browser: Chromium
) -> None:
    write(tmp_path, {"harbour.md": HARBOUR, "broken.pdf": b"%PDF-1.4 this is not one"})
    async with stack_at(tmp_path, embedder=EmbedderSettings(backend="bundled")) as (stack, _):
        page = await browser.page(stack.url)
        await expect(page.get_by_role("heading", name="Nothing to ask yet")).to_be_visible()
        await page.get_by_role("link", name="Add documents").click()
        await upload(page, [tmp_path / "harbour.md", tmp_path / "broken.pdf"])

        seen = await _watch(page, ".ingest-line")
        await page.get_by_role("button", name="Ingest").click()
        await expect(page.locator(".ingest-line")).to_have_text("Last ingest: 1 ingested, 1 failed.")
        assert any("of 2 files done" in words for words in await seen.evaluate("seen => seen"))
        await expect(page.locator(".troubles li")).to_contain_text("The PDF is damaged")
        await expect(page.locator(".documents tbody tr")).to_have_count(1)
        await expect(page.locator(".upload-list li")).to_have_count(0)

        await page.get_by_role("link", name="New conversation").click()
        await ask(page, TALL)
        await _has_evidence(page)
        chip = page.locator(".answer .cite").first
        await chip.click()
        assert await focused(page) == "Passage 1, harbour.md"
        await page.keyboard.press("Escape")
        assert await focused(page) == "Passage 1, harbour.md"
        await expect(chip).to_be_focused()

        await page.goto(stack.url)
        await page.get_by_role("navigation").get_by_role("link", name=TALL).click()
        await _has_evidence(page)
        await page.reload()
        await _has_evidence(page)
        assert browser.complaints == []


async def _has_evidence(page: Page) -> None:
    await expect(page.locator(".answer")).to_contain_text("The lighthouse of Varn is 41 metres tall.")
    await expect(page.locator("lore-passage.cited mark").first).to_contain_text("41 metres tall")
    await expect(page.locator("lore-passage.cited .arms")).to_contain_text("by meaning#1")


async def _watch(page: Page, selector: str) -> JSHandle:
    """A growing list of every text an element had, however briefly."""
    return await page.evaluate_handle(
        """selector => {
            const seen = [];
            const watched = document.querySelector(selector);
            const note = () => seen.push(watched.textContent);
            new MutationObserver(note).observe(watched, { childList: true, subtree: true });
            return seen;
        }""",
        selector,
    )


async def test_all_of_it_works_by_keyboard_alone(tmp_path: Path, browser: Chromium) -> None:
    async with stack_at(tmp_path, files={"harbour.md": HARBOUR}) as (stack, client):
        await ingest(client)
        page = await browser.page(stack.url)
        await expect(page.get_by_role("heading", name="Ask your document")).to_be_visible()
        await page.keyboard.type(TALL)  # the page opens with the focus where a question goes
        await page.keyboard.press("Enter")
        chip = page.locator(".answer .cite").first
        await page.get_by_role("button", name="Copy").wait_for()

        await _tab_to(page, chip, "Shift+Tab")
        await page.keyboard.press("Enter")
        card = page.locator("lore-passage").first
        await expect(card).to_be_focused()
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(card).to_contain_text("BM25")
        await page.keyboard.press("Escape")
        await expect(chip).to_be_focused()

        delete = page.get_by_role("button", name=f"Delete conversation {TALL}")
        await _tab_to(page, delete, "Shift+Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Keep it")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(delete).to_be_focused()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Your conversations will be kept here.")).to_be_visible()
        assert await client.get("/api/conversations") == []
        assert browser.complaints == []


async def _tab_to(page: Page, target: Locator, key: str) -> None:
    """Press a key until the target has the focus."""
    for _ in range(60):
        if await target.evaluate("element => element === document.activeElement"):
            return
        await page.keyboard.press(key)
    raise AssertionError(f"{key} never leads to {target}")


async def test_every_view_keeps_the_accessibility_rules_and_fits_a_narrow_window(
    tmp_path: Path, browser: Chromium
) -> None:
    async with stack_at(tmp_path, files=FILES) as (stack, client):
        await ingest(client)
        for scheme, width_px in (("light", 1280), ("dark", 360)):
            page = await browser.page(stack.url, width_px=width_px, scheme=scheme)  # type: ignore[arg-type]
            await page.locator(".newest li").first.wait_for()
            await _is_sound(page)
            await ask(page, f"How tall is the lighthouse of Varn, as seen in the {scheme}{'-' * 80}?")
            await _is_sound(page)
            await page.goto(f"{stack.url}/#/documents")
            await expect(page.locator(".documents tbody tr")).to_have_count(5)
            await _is_sound(page)
            await page.get_by_role("button", name="Delete empty.txt").click()
            await page.get_by_role("dialog").wait_for()
            await _is_sound(page)
            await page.keyboard.press("Escape")
            if width_px == 360:
                await page.get_by_role("button", name="Menu").click()
                await expect(page.locator("#sidebar")).to_be_visible()
                await page.keyboard.press("Escape")
                await expect(page.get_by_role("button", name="Menu")).to_be_focused()
        assert browser.complaints == []


async def _is_sound(page: Page) -> None:
    found = await Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{wide} px stick out sideways"


async def test_a_stopped_answer_can_be_asked_again_and_marks_of_no_passage_are_told(
    tmp_path: Path, browser: Chromium
) -> None:
    pieces = [
        "The lighthouse is **41 metres** tall [1]",
        " and painted red [44].",
        " It is 1\\. of its kind.",
    ]
    go_on = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        if exchange.method == "GET":
            await exchange.send_json({"data": [{"id": "scripted"}]})
            return
        await exchange.begin_stream()
        for piece in pieces:
            await exchange.send_piece(f"data: {json.dumps({'choices': [{'delta': {'content': piece}}]})}\n\n")
            await go_on.wait()
        await exchange.send_piece("data: [DONE]\n\n")
        await exchange.end_stream()

    async with (
        scripted(slow) as model,
        stack_at(
            tmp_path, files={"harbour.md": HARBOUR}, llm=LanguageModelSettings(url=f"{model.url}/v1")
        ) as (stack, client),
    ):
        await ingest(client)
        page = await browser.page(stack.url)
        await page.get_by_label("Your question").fill(TALL)
        await page.keyboard.press("Enter")
        await expect(page.locator(".answer strong")).to_have_text("41 metres")
        await page.get_by_role("button", name="Stop").click()
        await expect(page.locator(".turn-status")).to_contain_text("Stopped.")
        assert await client.get("/api/conversations") == []

        go_on.set()
        await page.get_by_role("button", name="Ask again").click()
        await page.get_by_role("button", name="Copy").wait_for()
        for _ in range(2):
            await expect(page.locator(".answer")).to_contain_text("It is 1. of its kind.")
            await expect(page.locator(".answer .cite")).to_have_count(1)
            await expect(page.locator(".turn-status")).to_contain_text("1 mark named no passage")
            await page.reload()
        assert browser.complaints == []


async def test_a_server_that_stops_answering_is_told_and_the_question_can_be_asked_again(
    tmp_path: Path, browser: Chromium
) -> None:
    async with stack_at(tmp_path, files={"harbour.md": HARBOUR}) as (stack, client):
        await ingest(client)
        page = await browser.page(stack.url)
        await page.locator(".newest li").first.wait_for()
        await page.context.set_offline(True)
        await page.get_by_label("Your question").fill(TALL)
        await page.keyboard.press("Enter")
        await expect(page.locator(".turn-status")).to_contain_text("Loreline is not answering.")
        await expect(page.locator("lore-health")).to_contain_text("Loreline is not answering.")
        await page.context.set_offline(False)
        await page.get_by_role("button", name="Try again").click()
        await expect(page.locator(".answer")).to_contain_text("41 metres")
        await expect(page.locator("lore-health")).to_be_hidden()
    assert all("ERR_INTERNET_DISCONNECTED" in complaint for complaint in browser.complaints)
