"""Every page, in light, dark, narrow and zoomed: names, roles, contrast, focus, targets, geometry."""

import socket
from pathlib import Path

import pytest
from harness import WAIT_MAX, Dev
from playwright.sync_api import Browser, Page
from views import ABSENT, LISTS, LOOKS

RULES = (Path(__file__).parent / "rules.js").read_text()
# Most bytes of a list page with its style sheet and scripts.
LIST_BYTES_MAX = 62 * 1024
# Presses of Tab on each page.
TABS = 25


def visit(page: Page, dev: Dev, path: str) -> None:
    """Opens a page, and waits until all of it has arrived."""
    page.goto(dev.pages + path)
    page.locator("footer").wait_for()


@pytest.mark.parametrize("look", LOOKS)
def test_pages_keep_the_rules(browser: Browser, session: dict, dev: Dev, paths: dict[str, str], look: str):
    context = browser.new_context(storage_state=session, **{"reduced_motion": "reduce", **LOOKS[look]})
    page = context.new_page()
    breaches = []
    for name, path in (paths | ABSENT).items():
        visit(page, dev, path)
        breaches += [f"{name}: {breach}" for breach in page.evaluate(RULES)]
    context.close()
    assert breaches == []


@pytest.mark.parametrize("look", ["light", "narrow"])
def test_pages_of_the_demo_keep_the_rules(browser: Browser, demo_session: dict, demo: Dev, look: str):
    """Its calls have every fault, and its console is read-only."""
    context = browser.new_context(storage_state=demo_session, **{"reduced_motion": "reduce", **LOOKS[look]})
    page = context.new_page()
    paths = ["/", "/calls", "/calls?tab=settled", "/events", "/repair?tab=quarantined"]
    visit(page, demo, "/calls?tab=settled")
    paths += page.locator("main a[href^='/call?']").evaluate_all("links => links.slice(0, 4).map(link => link.getAttribute('href'))")
    breaches = []
    for path in paths:
        visit(page, demo, path)
        breaches += [f"{path}: {breach}" for breach in page.evaluate(RULES)]
    context.close()
    assert breaches == []


def test_focus_is_seen_and_goes_in_order(page: Page, dev: Dev, paths: dict[str, str]):
    """The first Tab shows the link that skips the header. Each further one shows an outline, further down in the document."""
    for path in [paths[name] for name in (*LISTS, "call", "event", "plan", "search")]:
        visit(page, dev, path)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.locator(".skip").bounding_box()["x"] >= 0
        for _ in range(TABS):
            before = page.evaluate_handle("document.activeElement")
            page.keyboard.press("Tab")
            found = page.evaluate(
                """before => {
                    const now = document.activeElement, style = getComputedStyle(now), box = now.getBoundingClientRect();
                    // After the last element comes the first one again, or the browser itself.
                    if (now === document.body || now.className === "skip") return "end";
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


def test_pages_are_complete_without_scripts(browser: Browser, session: dict, dev: Dev, paths: dict[str, str]):
    context = browser.new_context(storage_state=session, java_script_enabled=False)
    plain = context.new_page()
    for name, path in paths.items():
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
    for path in LISTS.values():
        visit(page, dev, path)
    assert set(statuses.values()) <= {200}, statuses
    assert {"console.css", "keys.js", "live.js"} <= set(statuses)


def test_list_page_is_small(page: Page, dev: Dev):
    for path in ("/calls", "/events"):
        visit(page, dev, path)
        size = page.evaluate(
            """() => {
                const [page] = performance.getEntriesByType("navigation"), all = performance.getEntriesByType("resource");
                return [page, ...all.filter((entry) => entry.name.includes("/assets/"))].reduce((sum, entry) => sum + entry.decodedBodySize, 0);
            }"""
        )
        assert size <= LIST_BYTES_MAX, path


def chunks_of(dev: Dev, session: dict, path: str) -> list[str]:
    """Returns the chunks of a response, as the server has sent them."""
    cookie = "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in session["cookies"])
    host = dev.pages.removeprefix("http://")
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nSec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", dev.port), timeout=WAIT_MAX) as connection:
        connection.sendall(request.encode())
        received = connection.makefile("rb").read()
    head, body = received.split(b"\r\n\r\n", 1)
    assert head.startswith(b"HTTP/1.1 200") and b"transfer-encoding: chunked" in head.lower(), head
    chunks = []
    while body:
        size, body = body.split(b"\r\n", 1)
        length = int(size, 16)
        chunks.append(body[:length].decode())
        body = body[length + 2 :]
    return chunks[:-1]


@pytest.mark.parametrize("path", LISTS.values())
def test_frame_is_sent_before_the_first_read(dev: Dev, session: dict, path: str):
    """The browser draws the header and the navigation while the stack is read, however slow that is."""
    if path == "/try":
        pytest.skip("the page Try reads nothing")
    frame, *rest = chunks_of(dev, session, path)
    assert frame.endswith('<main id="main" tabindex="-1">'), frame[-200:]
    assert "<nav" in frame and 'id="search"' in frame and "<h1" not in frame
    assert "<h1" in "".join(rest) and "".join(rest).endswith("</html>")
