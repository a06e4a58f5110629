"""Texts of others: ids that hold anything open from every list, and hostile ones stay texts on every page."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from harness import Dev, ago, wait_for
from playwright.sync_api import Browser, BrowserContext, Page
from views import LOOKS

RULES = (Path(__file__).parent / "rules.js").read_text()
ODD = "a/b?c#d%e&f g 😀 é+="
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "\u202egnp.exe",
    "zero\u200bwidth\u0000",
    "'\"><script>alert(1)</script>",
    "{{7*7}}${7*7}</title></textarea>",
    "W" * 300,
]

LINKS = ("/call?id=", "/event?id=", "/plan?id=", "/run?id=", "/calls?tab=", "/events?type=", "/repair?tab=")
# Reads pages as the browser would get them, without showing them.
READ = "links => Promise.all(links.map((link) => fetch(link).then(async (answer) => [answer.status, await answer.text()])))"
# Markup that no page has of its own.
MARKUP = re.compile(r"<img|<iframe|<script(?! type=\"module\" (blocking=\"render\" )?src=\"/assets/)|href=\"javascript:", re.IGNORECASE)


@pytest.fixture
def page(browser: Browser, own: Dev):
    """A page of a browser of this test's own stack. A dialog or a failing script fails the test."""
    context: BrowserContext = browser.new_context(**LOOKS["light"])
    page = context.new_page()
    problems = []
    page.on("dialog", lambda dialog: (problems.append(f"a script ran: {dialog.message}"), dialog.dismiss()))
    page.on("pageerror", lambda error: problems.append(f"script: {error}"))
    page.goto(own.link)
    page.wait_for_url(f"{own.pages}/")
    yield page
    context.close()
    assert problems == []


def test_odd_ids_open_from_every_list_and_from_a_pasted_link(page: Page, own: Dev):
    call, event = ODD, f"generic:{ODD}"
    own.post_event({"event_id": ODD, "event_type": "call.ringing", "call_id": call, "appointment_id": ODD, "occurred_at": ago(minutes=1)})
    own.post_event({"event_id": f"{ODD}2", "event_type": "call.completed", "call_id": call, "appointment_id": ODD, "occurred_at": ago()})
    own.post_event({"event_id": "other", "event_type": "call.ringing", "call_id": "other", "appointment_id": ODD})
    wait_for("the events are folded", lambda: len(own.events(call)) >= 2 and len(own.events("other")) >= 1)

    def opens(path: str, prefix: str, whole: str) -> None:
        page.goto(own.pages + path)
        link = page.locator(f"main a[href^='{prefix}'][title='{whole}']").first
        link.click()
        page.wait_for_url(f"**{prefix}*")
        assert page.locator("h1").inner_text().count(whole) == 1, page.locator("h1").inner_text()
        assert page.locator("main tbody tr").count() > 0

    for path in ("/calls", "/calls?tab=in_flight"):
        opens(path, "/call?id=", call)
    opens("/events", "/call?id=", call)
    opens("/events", "/event?id=", event)
    # Both calls have the appointment.
    page.locator("#search").fill(ODD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?found=*")
    opens(page.url.removeprefix(own.pages), "/call?id=", call)
    # A link of a chat or a ticket: percent-encoded, with plus signs, and as a person types it.
    for pasted in (quote(call, safe=""), quote(call, safe="").replace("%20", "+"), quote(call, safe="/?:@ 😀é")):
        response = page.goto(f"{own.pages}/call?id={pasted}")
        assert response.status == 200, pasted
        assert call in page.locator("h1").inner_text()
    assert page.goto(f"{own.pages}/event?id={quote(event, safe='')}").status == 200


def test_hostile_texts_stay_texts_on_every_page(page: Page, own: Dev):
    """Texts of others as ids, types, values and causes: nothing runs, nothing becomes markup, and no text leaves its place."""
    for index, text in enumerate(HOSTILE):
        own.post_event(
            {
                "event_id": f"{text}{index}"[:200],
                "event_type": "call.ringing",
                "call_id": f"{text} {index}",
                "appointment_id": text[:120],
                "occurred_at": ago(minutes=index),
                "call": {"sid": text, "to": text, "from": text, "direction": "outbound"},
                "meta": {text: text, "name": text},
                text: [text],
            }
        )
        own.post_event({"event_id": f"type {index}", "event_type": text, "call_id": "types"})
        own.post_event(f"{text} is no JSON".encode())
    wait_for("the events are folded", lambda: own.get("/calls?limit=50")["calls"] and len(own.get("/calls?limit=50")["calls"]) >= len(HOSTILE))

    paths = ["/", "/calls", "/calls?tab=in_flight", "/events", "/repair?tab=quarantined", "/dials"]
    for listing in ("/calls", "/events"):
        page.goto(own.pages + listing)
        prefix = "/call?" if listing == "/calls" else "/event?"
        paths += page.locator(f"main a.id[href^='{prefix}']").evaluate_all("links => [...new Set(links.map(link => link.getAttribute('href')))]")[:12]
    breaches = []
    for look in ("light", "narrow", "zoomed"):
        page.set_viewport_size(LOOKS[look]["viewport"])
        for path in paths:
            response = page.goto(own.pages + path)
            page.locator("footer").wait_for()
            assert response.status == 200, path
            markup = page.locator("main img, main script:not([src^='/assets/']), main iframe, main style, main [onerror], main a[href^='javascript:' i], main a[href*='//']")
            assert markup.count() == 0, f"{path}: {markup.first.evaluate('element => element.outerHTML')}"
            assert not set("\u202e\u200b\u0000") & set(page.locator("main").inner_text()), f"{path}: a character that cannot be seen is not named"
            breaches += [f"{look} {path}: {breach}" for breach in page.evaluate(RULES)]
    assert sorted(set(breaches)) == []
    # As a search, and as a link that somebody else made.
    for text in HOSTILE:
        page.goto(own.pages)
        page.locator("#search").fill(text)
        with page.expect_navigation() as navigation:
            page.keyboard.press("Enter")
        assert navigation.value.status in (200, 404)
        links = [path + quote(text, safe="") for path in LINKS]
        for link, (status, html) in zip(links, page.evaluate(READ, links)):
            assert status < 500, link
            assert not MARKUP.search(html), f"{link}: {MARKUP.search(html)}"
