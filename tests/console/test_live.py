"""Live pages: nothing moves because of a refresh, and a hidden page asks for nothing."""

import re

import pytest
from harness import Dev, wait_for
from playwright.sync_api import BrowserContext, Page, expect

# Lets a test hide the page, as another tab in front of it would.
HIDE = """
    let isHidden = false;
    Object.defineProperty(document, "hidden", { get: () => isHidden });
    globalThis.hide = (value) => { isHidden = value; document.dispatchEvent(new Event("visibilitychange")); };
"""


@pytest.fixture
def refreshed(page: Page):
    """Waits until the page has been read again."""

    def wait(times: int = 1) -> None:
        page.evaluate(
            """times => new Promise((done) => {
                document.addEventListener("refreshed", () => { if (--times === 0) done(); });
            })""",
            times,
        )

    return wait


def open_call(page: Page, dev: Dev, call: str) -> None:
    page.goto(f"{dev.pages}/call?id={call}")
    expect(page.locator("#live")).to_have_text("live")


def test_light_says_whether_the_page_is_live(context, dev: Dev):
    # A page without a connection logs errors, so it is no page of the fixture.
    page = context.new_page()
    open_call(page, dev, dev.calls[0])
    context.set_offline(True)
    expect(page.locator("#live")).to_have_text(re.compile(r"^not reached, as of \d\d:\d\d:\d\d$"))
    context.set_offline(False)
    expect(page.locator("#live")).to_have_text("live")


def test_page_of_something_absent_is_live(context, dev: Dev):
    # The browser logs each 404 as an error, so it is no page of the fixture.
    page = context.new_page()
    page.goto(f"{dev.pages}/call?id=not yet")
    page.evaluate("new Promise((done) => document.addEventListener('refreshed', () => done(), { once: true }))")
    expect(page.locator("#live")).to_have_text("live")
    # It shows the call as soon as its first webhook has arrived.
    dev.post_event({"event_id": "at last", "event_type": "call.ringing", "call_id": "not yet"})
    expect(page.locator("h1")).to_have_text("not yet")


def test_refresh_moves_no_focus_scroll_detail_or_selection(page: Page, dev: Dev, refreshed):
    open_call(page, dev, dev.calls[1])
    page.evaluate(
        """() => {
            // A long page with a detail, as payloads are.
            const details = document.createElement("details");
            details.dataset.keep = "";
            details.open = true;
            details.append(Object.assign(document.createElement("summary"), { textContent: "detail" }), "content");
            document.body.append(details);
            document.body.append(Object.assign(document.createElement("div"), { id: "tall" }));
            document.querySelector("#search").value = "half a word";
            document.querySelector("#search").focus();
            getSelection().selectAllChildren(document.querySelector("h1"));
        }"""
    )
    page.keyboard.press("/")
    before = page.evaluate("[scrollY, document.querySelector('h1').getBoundingClientRect().top]")
    refreshed(2)
    after = page.evaluate("[scrollY, document.querySelector('h1').getBoundingClientRect().top]")
    assert after == before
    assert page.locator("#search").input_value() == "half a word"
    assert page.locator("details").last.get_attribute("open") is not None


def test_new_rows_wait_until_the_user_asks(page: Page, dev: Dev):
    call = dev.create_call("+447700900170", "appt_live")
    wait_for("the call is dialled", lambda: dev.call(call)["attempts"])
    open_call(page, dev, call)
    # A new row may belong to any table of the page.
    rows = page.locator("main tbody tr")
    count = rows.count()
    if count:
        page.keyboard.press("j")
    texts = rows.all_inner_texts()
    newer = page.get_by_role("button", name="changed: show")
    expect(newer).to_be_visible()
    assert len(rows.all_inner_texts()) == len(texts), "no row was added"
    # The first change may be no row.
    wait_for("the new rows are shown", lambda: rows.count() > count or page.keyboard.press("n"))


# Places of everything on the page of a call that has a name.
PLACES = """() => Object.fromEntries(
    [...document.querySelectorAll("main :is(h1, .facts, .known, #step, figure, table, tr[id])")].map((part) => {
        const { left, top } = part.getBoundingClientRect();
        return [part.id || part.classList[0] || part.tagName, [left, top]];
    })
)"""


@pytest.mark.parametrize("width", [1280, 360])
def test_page_of_a_young_call_does_not_move(page: Page, dev: Dev, refreshed, width: int):
    """A call that was created a moment ago: its dial and its first events come while somebody looks."""
    page.set_viewport_size({"width": width, "height": 800})
    call = dev.create_call(f"+44770090{width:04}", f"appt_young_{width}")
    open_call(page, dev, call)
    before = page.evaluate(PLACES)
    assert {"H1", "facts", "known", "step"} <= before.keys(), before
    wait_for("the call is answered", lambda: any(attempt["lifecycle"] != "initiated" for attempt in dev.call(call)["attempts"]))
    expect(page.get_by_role("button", name="changed: show")).to_be_visible()
    refreshed(2)
    after = page.evaluate(PLACES)
    assert {name: after.get(name) for name in before} == before
    page.keyboard.press("n")
    wait_for("the attempt is shown", lambda: page.locator("table.attempts tbody tr").count())


@pytest.mark.parametrize("path", ["/calls", "/events"])
def test_refresh_of_a_list_moves_nothing(page: Page, dev: Dev, refreshed, path: str):
    """Calls and events arrive while somebody reads the list: rows, scroll, focus, a typed filter and an open detail stay."""
    page.set_viewport_size({"width": 700, "height": 400})
    page.goto(dev.pages + path)
    expect(page.locator("#live")).to_have_text("live")
    page.locator("main tbody tr").nth(3).wait_for()
    page.evaluate(
        """() => {
            const details = document.createElement("details");
            details.open = true;
            details.dataset.keep = "";
            details.append(Object.assign(document.createElement("summary"), { textContent: "detail" }), "content");
            document.querySelector("footer").append(details);
        }"""
    )
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.evaluate("scrollTo(0, 120)")
    look = """() => ({
        scroll: scrollY,
        focus: document.activeElement.getAttribute("href"),
        chosen: [...document.querySelectorAll("main tr.selected a")].map((link) => link.href),
        rows: [...document.querySelectorAll("main tbody tr")].map((row) => [row.querySelector("a")?.href, row.getBoundingClientRect().top]),
        open: document.querySelector("footer details").open,
    })"""
    before = page.evaluate(look)
    assert before["focus"] and before["scroll"] == 120
    # A call that Switchhook places might wait for its turn.
    dev.post_event({"event_id": f"newer {path}", "event_type": "call.ringing", "call_id": f"newer {path}"})
    newer = page.get_by_role("button", name="changed: show")
    expect(newer).to_be_visible()
    refreshed(2)
    assert page.evaluate(look) == before
    # Another call may have changed before the new one came.
    shown = page.locator("main tbody tr", has=page.locator("a[href*='newer']"))
    wait_for("the new row is shown when the user asks", lambda: shown.count() > 0 or page.keyboard.press("n"))


def requests_to_aws(context: BrowserContext, dev: Dev) -> str:
    """Returns the sum in the footer of a page that reads nothing."""
    other = context.new_page()
    other.goto(f"{dev.pages}/no-such-page")
    text = other.locator("#cost").inner_text()
    other.close()
    return text


def test_row_that_would_grow_waits_until_the_user_asks(page: Page, dev: Dev, refreshed):
    page.goto(dev.pages + "/calls")
    expect(page.locator("#live")).to_have_text("live")
    tops = "() => [...document.querySelectorAll('main tbody tr')].map((row) => row.getBoundingClientRect().top)"
    before = page.evaluate(tops)
    assert before

    page.evaluate(
        """() => {
            const read = globalThis.fetch;
            globalThis.fetch = async (...request) => {
                const page = await (await read(...request)).text();
                const longer = page.replaceAll("</td></tr>", `${" many words".repeat(99)}</td></tr>`);
                return new Response(longer, { headers: { "content-type": "text/html" } });
            };
        }"""
    )
    dev.post_event({"event_id": "a row grows", "event_type": "call.ringing", "call_id": "a row grows"})
    expect(page.get_by_role("button", name="changed: show")).to_be_visible()
    refreshed()
    assert page.evaluate(tops) == before
    page.keyboard.press("n")
    expect(page.locator("main tbody")).to_contain_text("many words")


def test_detail_of_a_row_stays_open_and_is_no_change(page: Page, dev: Dev, refreshed):
    # Three events of a group are visible at once.
    dev.quarantine(5)
    page.goto(f"{dev.pages}/repair?tab=quarantined")
    page.locator("main td summary").click()
    refreshed(2)
    expect(page.locator("main td details")).to_have_attribute("open", "")
    expect(page.get_by_role("button", name="changed: show")).to_have_count(0)


def test_hidden_page_asks_for_nothing(page: Page, dev: Dev, refreshed):
    page.add_init_script(HIDE)
    open_call(page, dev, dev.calls[0])
    refreshed()
    page.evaluate("hide(true)")
    page.wait_for_timeout(300)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    before = requests_to_aws(page.context, dev)
    # A shown page is read once a second.
    page.wait_for_timeout(3_000)
    assert asked == []
    assert requests_to_aws(page.context, dev) == before, "nothing is read for a page that nobody sees"
    page.evaluate("hide(false)")
    expect(page.locator("#live")).to_have_text("live")
    wait_for("the page is read again", lambda: page.evaluate("1") and any("/call?" in url for url in asked))


def test_stream_names_versions_and_no_data(page: Page, dev: Dev):
    open_call(page, dev, dev.calls[0])
    data = page.evaluate(
        """() => new Promise((done) => {
            const source = new EventSource("/live?page=/call");
            source.addEventListener("version", (event) => { source.close(); done(event.data); });
        })"""
    )
    assert data == "1"
