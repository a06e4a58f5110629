"""Every page, in light, dark and narrow: names, roles, contrast, focus, targets, geometry. And its picture."""

from pathlib import Path

import pytest
from harness import Dev
from playwright.sync_api import Browser, Page
from views import LISTS, views

RULES = (Path(__file__).parent / "rules.js").read_text()
# A width of 1,280 px at 400 % zoom is 320 px.
LOOKS = {"light": ("light", 1280, 800), "dark": ("dark", 1280, 800), "narrow": ("light", 360, 740), "zoomed": ("dark", 320, 640)}


def entries(page: Page) -> set[str]:
    return set(page.locator("nav a").evaluate_all("links => links.map(link => link.getAttribute('href'))"))


def visit(page: Page, dev: Dev, path: str) -> None:
    """Opens a page. A page that does not exist is an error on the browser's console, so its path is left out by callers."""
    page.goto(dev.pages + path)
    page.locator("footer").wait_for()


@pytest.mark.parametrize("look", LOOKS)
def test_pages_keep_the_rules(browser: Browser, session: dict, dev: Dev, look: str, request):
    scheme, width, height = LOOKS[look]
    context = browser.new_context(
        storage_state=session, viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(dev.pages)
    folder = request.config.getoption("--pictures")
    breaches = []
    for name, path in views(dev, entries(page)).items():
        visit(page, dev, path)
        breaches += [f"{name}: {breach}" for breach in page.evaluate(RULES)]
        if folder and look != "zoomed":
            folder.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=folder / f"{name}-{look}.png")
    context.close()
    assert breaches == []


def test_focus_is_seen_and_goes_in_order(page: Page, dev: Dev):
    """The first Tab shows the link that skips the header. Each further one shows an outline, further down in the document."""
    for path in views(dev, entries(page)).values():
        if path == "/no-such-page":
            continue
        visit(page, dev, path)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.locator(".skip").bounding_box()["x"] >= 0
        for _ in range(25):
            before = page.evaluate_handle("document.activeElement")
            page.keyboard.press("Tab")
            found = page.evaluate(
                """before => {
                    const now = document.activeElement, style = getComputedStyle(now), box = now.getBoundingClientRect();
                    if (now === document.body) return "end";
                    if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) return `no outline: ${now.outerHTML}`;
                    if (box.bottom < 0 || box.top > innerHeight) return `out of sight: ${now.outerHTML}`;
                    // A field for a time has a tab stop for each of its parts.
                    if (before === now) return "";
                    if (!(before.compareDocumentPosition(now) & Node.DOCUMENT_POSITION_FOLLOWING)) return `out of order: ${now.outerHTML}`;
                    return "";
                }""",
                before,
            )
            if found == "end":
                break
            assert found == "", path


def test_pages_are_complete_without_scripts(browser: Browser, session: dict, dev: Dev, page: Page):
    names = views(dev, entries(page))
    context = browser.new_context(storage_state=session, java_script_enabled=False)
    plain = context.new_page()
    for name, path in names.items():
        plain.goto(dev.pages + path)
        assert plain.locator("h1").count() == 1, name
        assert plain.locator("main").inner_text().strip(), name
        assert plain.locator("footer code").inner_text().startswith("switchhook "), name
        # Buttons that only scripts could answer stay hidden.
        assert plain.locator("header button:visible").all_inner_texts() == ["Search"], name
        assert plain.locator("footer button:visible").count() == 0, name
    context.close()


def test_everything_that_a_page_needs_is_found(page: Page, dev: Dev):
    """A missing icon or script would be an error on the browser's console, which the fixture watches."""
    statuses = {}
    page.on("response", lambda response: statuses.__setitem__(response.url.split("/")[-1], response.status))
    for name in entries(page) & set(LISTS.values()):
        visit(page, dev, name)
    assert set(statuses.values()) <= {200}, statuses
    assert {"console.css", "keys.js", "live.js"} <= set(statuses)


def test_page_is_small_and_fast(page: Page, dev: Dev):
    """The frame is drawn within 200 ms; a list with its style and scripts is at most 60 KB."""
    visit(page, dev, "/calls")
    timing = page.evaluate(
        """() => {
            const [page] = performance.getEntriesByType("navigation"), all = performance.getEntriesByType("resource");
            const size = [page, ...all.filter((entry) => entry.name.includes("/assets/"))].reduce((sum, entry) => sum + entry.decodedBodySize, 0);
            return { size, begins: page.responseStart - page.requestStart };
        }"""
    )
    assert timing["size"] <= 60 * 1024, timing
    assert timing["begins"] <= 200, timing


def test_health_shows_verdicts_and_troubled_ids_at_once(page: Page, dev: Dev):
    visit(page, dev, "/")
    assert page.locator(".questions h2 .badge").count() == 3
    assert page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd") < 2_000
    poison = page.locator(".questions section", has_text="Poison?")
    assert "Act" in poison.locator("h2").inner_text(), "unreadable webhooks wait in the dead-letter queue too"
    assert poison.locator("a[href^='/event?id=']").first.is_visible()
