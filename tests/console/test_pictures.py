"""The pictures of README.md and docs/. Written only with --pictures, from the demo with seed 1, whose time stands still."""

import re
from pathlib import Path

import pytest
from hands import make_dead_letters
from harness import Dev
from playwright.sync_api import Browser, Page, expect
from views import LOOKS

# Most bytes of all pictures together.
BYTES_MAX = 1024 * 1024
WIDTH = 1120


@pytest.fixture
def folder(request) -> Path:
    folder = request.config.getoption("--pictures")
    if folder is None:
        pytest.skip("pictures are written by `make pictures`")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def open_page(browser: Browser, state: dict, look: str) -> Page:
    """Returns a page that looks the same on each machine with the same fonts."""
    options = {**LOOKS[look], "reduced_motion": "reduce"}
    if look != "narrow":
        options["viewport"] = {"width": WIDTH, "height": 800}
    return browser.new_context(storage_state=state, **options).new_page()


def take(page: Page, path: Path, until: str | None = None, most: int = 1400) -> None:
    """Takes a picture from the top of the page to the end of its content, or of an element of it."""
    # The page of a plan does not change by itself.
    expect(page.locator("#live")).to_have_text(re.compile("live|as of"))
    ends = page.locator(until or "main > *").evaluate_all("parts => parts.map((part) => part.getBoundingClientRect().bottom + scrollY)")
    height = min(int(max(ends)) + 16, most)
    page.screenshot(path=path, full_page=True, clip={"x": 0, "y": 0, "width": page.viewport_size["width"], "height": height})


def test_pictures_of_the_demo(browser: Browser, demo: Dev, demo_session: dict, folder: Path):
    for look in ("light", "dark", "narrow"):
        page = open_page(browser, demo_session, look)
        page.goto(demo.pages)
        if look == "light":
            take(page, folder / "health.png")
        page.locator("main p", has_text="Start here.").get_by_role("link").click()
        page.wait_for_url("**/call?id=*")
        # The whole table is for the page itself.
        take(page, folder / f"call-{look}.png", most=1100 if look == "narrow" else 820)
        page.context.close()


def test_pictures_of_a_plan_and_of_try(browser: Browser, own: Dev, folder: Path):
    """These pages need a stack that may be changed. What differs from run to run is replaced by fixed texts."""
    page = open_page(browser, {}, "light")
    page.goto(own.link)
    page.wait_for_url(f"{own.pages}/")
    page.goto(f"{own.pages}/try")
    fix(page)
    take(page, folder / "try.png", until="main section")
    kinds = {"order-7": "user.confirmed", "order-8": "call.ringing"}
    make_dead_letters(own, page, [{"event_id": f"evt_{call}", "event_type": kind, "call_id": call} for call, kind in kinds.items()])
    page.goto(f"{own.pages}/repair")
    page.get_by_role("button", name="Plan: redrive", exact=True).click()
    page.wait_for_url("**/plan?id=*")
    fix(page)
    take(page, folder / "plan.png")
    page.context.close()
    sizes = {path.name: path.stat().st_size for path in folder.glob("*.png")}
    assert sum(sizes.values()) <= BYTES_MAX, sizes


def fix(page: Page) -> None:
    """Replaces the times and the random ids of a page."""
    page.evaluate(
        """() => {
            const times = [...document.querySelectorAll("time")];
            const first = Math.min(...times.map((time) => Date.parse(time.dateTime)));
            const begin = Date.parse("2025-10-20T15:58:20Z");
            for (const time of times) {
                const minutes = Math.round((Date.parse(time.dateTime) - first) / 60000);
                time.textContent = new Date(begin + minutes * 60000).toISOString().slice(11, 19);
            }
            for (const id of document.querySelectorAll("main code")) id.textContent = id.textContent.replace(/\\bp-[0-9a-f]+/, "p-7f3a90c1d2e4");
        }"""
    )
