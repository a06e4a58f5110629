"""The page of a call: its drawing, its sentences, and what it shows on demand. The calls are those of a finished demo."""

import json
from urllib.parse import urlencode

import pytest
from harness import DEMO_CALLS, Dev
from playwright.sync_api import Browser, Page, expect

EVENTS = "#events > tbody > tr:not(.write, .move, .opened)"
DRAWING = ".drawing .scroll > svg:last-of-type"


@pytest.fixture(scope="module")
def cookies(demo_session: dict) -> dict:
    return demo_session


@pytest.fixture(scope="module")
def stories(demo: Dev) -> list[dict]:
    """The stories of all calls, as the terminal prints them for programs."""
    found, cursor = [], []
    while True:
        listed = json.loads(demo.run("call", "list", "--json", "--limit", "100", *cursor))
        found += [json.loads(demo.run("timeline", call["call_id"], "--json")) for call in listed["calls"]]
        if not listed.get("cursor"):
            return found
        cursor = ["--cursor", listed["cursor"]]


def opened(browser: Browser, cookies: dict, **options):
    options = {"viewport": {"width": 1280, "height": 800}, **options}
    return browser.new_context(storage_state=cookies, **options)


def path_of(demo: Dev, story: dict, **chosen) -> str:
    return f"{demo.pages}/call?{urlencode({'id': story['call']['call_id'], **chosen})}"


def events_of(story: dict) -> list[dict]:
    return [line for line in story["story"] if line["what"] == "event"]


def longest(stories: list[dict]) -> dict:
    return max(stories, key=lambda story: len(story["story"]))


def plain(text: str) -> str:
    return " ".join(text.split())


def assert_drawn_is_in_table(page: Page) -> None:
    ids = set(page.locator("#events > tbody > tr").evaluate_all("rows => rows.map(row => row.id)"))
    drawn = page.locator("svg [data-rows]").evaluate_all("marks => marks.flatMap(mark => mark.dataset.rows.split(' '))")
    assert {f"r{row}" for row in drawn} <= ids, "every drawn item is in the table"


def test_every_event_has_its_sentence_and_the_terminal_says_the_same(browser: Browser, demo: Dev, cookies: dict, stories: list[dict]):
    assert len(stories) >= DEMO_CALLS
    context = opened(browser, cookies, java_script_enabled=False)
    page = context.new_page()
    for story in stories:
        events = events_of(story)
        page.goto(path_of(demo, story, attempt="all"))
        rows = page.locator(EVENTS)
        shown = [plain(text) for text in rows.locator("td:last-child").all_inner_texts()]
        assert shown == [plain(event["why"]) for event in events], story["call"]["call_id"]
        for event in events:
            # A sentence names its attempt, the other event that decides, or what became of the dial, the claim or the retry.
            names = ("ttempt ", "(", "dial", "claim", "retry", "row")
            assert event["why"].endswith(".") and any(name in event["why"] for name in names), event
        assert_drawn_is_in_table(page)
    printed = plain(demo.run("timeline", longest(stories)["call"]["call_id"]))
    for event in events_of(longest(stories)):
        assert plain(event["why"]) in printed
    context.close()


def test_page_is_complete_without_scripts(browser: Browser, demo: Dev, cookies: dict, stories: list[dict]):
    context = opened(browser, cookies, java_script_enabled=False)
    page = context.new_page()
    page.goto(path_of(demo, longest(stories)))
    assert_drawn_is_in_table(page)
    page.locator(f"{EVENTS} a").first.click()
    expect(page.locator("#opened")).to_contain_text("Trace id")
    page.get_by_role("link", name="Look for them").click()
    expect(page.locator("#unfolded")).to_contain_text("Examined:")
    width = page.locator(DRAWING).bounding_box()["width"]
    page.get_by_role("link", name="Zoom in").click()
    assert page.locator(DRAWING).bounding_box()["width"] > 1.5 * width
    expect(page.locator("#opened")).to_be_visible()
    context.close()


def test_drawing_fits_and_its_texts_are_legible(browser: Browser, demo: Dev, cookies: dict, stories: list[dict]):
    """At 1,280 px nothing is cut off, at 360 px the other drawing is shown, and every text has contrast to what is below it."""
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 360), ("dark", 360)):
        context = opened(browser, cookies, java_script_enabled=False, color_scheme=scheme, viewport={"width": width, "height": 800})
        page = context.new_page()
        for story in sorted(stories, key=lambda story: -len(story["story"]))[:6]:
            page.goto(path_of(demo, story))
            assert page.locator("svg.down").is_visible() == (width == 360)
            assert page.locator(DRAWING).is_visible() == (width == 1280)
            if width == 1280:
                cut = page.locator(".drawing .scroll").evaluate("view => view.scrollWidth - view.clientWidth")
                assert cut <= 0, story["call"]["call_id"]
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert page.evaluate(LOW_CONTRAST) == [], f"{scheme} {width}: {story['call']['call_id']}"
        context.close()


# Texts of the visible drawings whose contrast to the filled shapes below them is less than 4.5.
LOW_CONTRAST = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const parse = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const luminance = (rgb) => {
        const [r, g, b] = rgb.map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ratio = (one, other) => {
        const [a, b] = [luminance(one.slice(0, 3)), luminance(other.slice(0, 3))];
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    };
    const meets = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    const found = [];
    for (const svg of document.querySelectorAll("svg.story")) {
        if (!svg.checkVisibility()) continue;
        const shapes = [...svg.querySelectorAll("rect, circle")].filter((shape) => !shape.closest("defs"));
        for (const text of svg.querySelectorAll("text")) {
            const colour = parse(getComputedStyle(text).fill), box = text.getBoundingClientRect();
            const below = shapes.filter((shape) => meets(shape.getBoundingClientRect(), box) && shape.compareDocumentPosition(text) & 4);
            const grounds = below.map((shape) => getComputedStyle(shape).fill).filter((fill) => fill !== "none" && !fill.startsWith("url"));
            grounds.push(getComputedStyle(document.querySelector("figure.drawing")).backgroundColor);
            // What is in a mark stands on the mark alone.
            const last = text.closest(".many") ? [getComputedStyle(text.parentElement.querySelector("circle")).fill] : grounds;
            for (const ground of last) if (ratio(colour, parse(ground)) < 4.5) found.push(`${text.textContent}: ${ground}`);
        }
    }
    return found;
}"""


@pytest.fixture
def call(browser: Browser, demo: Dev, cookies: dict, stories: list[dict]):
    """The page of the call with the longest story. It fails the test if a script fails."""
    context = opened(browser, cookies)
    page = context.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(path_of(demo, longest(stories)))
    expect(page.locator("#live")).to_have_text("live")
    yield page
    context.close()
    assert problems == []


def width_of(page: Page) -> float:
    return page.locator(DRAWING).bounding_box()["width"]


def test_keys_make_the_drawing_wider_and_the_ruler_stays(call: Page):
    before = width_of(call)
    call.keyboard.press("+")
    call.wait_for_url("**zoom=2*")
    expect(call.locator(".zoom")).to_contain_text("2 ×")
    twice = width_of(call)
    assert twice > 1.5 * before
    call.keyboard.press("+")
    expect(call.locator(".zoom")).to_contain_text("4 ×")
    names = call.locator("svg.names").bounding_box()["x"]
    call.locator(".drawing .scroll").evaluate("view => { view.scrollLeft = 500; }")
    assert call.locator("svg.names").bounding_box()["x"] == names, "names of the rails stay in sight"
    call.keyboard.press("-")
    expect(call.locator(".zoom")).to_contain_text("2 ×")
    assert width_of(call) == twice
    call.keyboard.press("0")
    expect(call.locator(".zoom")).not_to_contain_text("×")
    assert "zoom" not in call.url and width_of(call) == before
    # The ruler stays at the top of a drawing that is higher than the window.
    call.set_viewport_size({"width": 1280, "height": 240})
    view = call.locator(".drawing .scroll")
    view.evaluate("view => { view.scrollTop = 60; }")
    assert call.locator("svg.ruler").bounding_box()["y"] - view.bounding_box()["y"] < 4


def test_drag_chooses_a_range(call: Page):
    view = call.locator(".drawing .scroll").bounding_box()
    y = call.locator("svg.ruler").bounding_box()["y"] + 10
    call.mouse.move(view["x"] + 600, y)
    call.mouse.down()
    call.mouse.move(view["x"] + 800, y, steps=4)
    expect(call.locator(".range")).to_be_visible()
    call.mouse.up()
    expect(call.locator(".range")).to_have_count(0)
    call.wait_for_url("**zoom=4*")
    expect(call.locator(".zoom")).to_contain_text("4 ×")
    scrolled = call.locator(".drawing .scroll").evaluate("view => view.scrollLeft")
    assert scrolled > 1000, "the chosen range is in sight"


def test_mark_and_row_are_chosen_together(call: Page):
    call.keyboard.press("]")
    row = call.locator("#events tr.selected")
    expect(row).to_have_count(1)
    number = row.get_attribute("id")[1:]
    assert call.locator(f"svg [data-rows~='{number}'].selected").count() >= 1
    call.keyboard.press("]")
    expect(row).to_have_count(1)
    assert row.get_attribute("id")[1:] != number
    call.keyboard.press("t")
    expect(call.locator(".drawing .scroll")).to_be_hidden()
