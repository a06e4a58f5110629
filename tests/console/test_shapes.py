"""Dispositions differ by shape: without colours, and as people with colour blindness see them."""

import base64
import re
from itertools import combinations

import pytest
from harness import ROOT, Dev
from playwright.sync_api import Browser, Page
from views import LOOKS

# Looks of words, as `parts.rs` gives them: `"applied" => ("disc", "applied")`.
LOOK = re.compile(r'((?:"\w+"(?: \| )?)+) => \("(\w+)", "(\w+)"\)')
VISIONS = ["none", "achromatopsia", "protanopia", "deuteranopia", "tritanopia"]
# Smallest share of the pixels of a shape by which two shapes differ. A badge is 12 px wide, and drawn at four times that.
SHARE_MIN = 0.08
# Enlargement of the badges.
SCALE = 4
# Smallest difference of the luminance of two pixels, in 255 parts.
DIFFERENT = 64


def looks() -> dict[str, tuple[str, str]]:
    found = {}
    for words, shape, tone in LOOK.findall((ROOT / "console" / "src" / "parts.rs").read_text()):
        found |= {word: (shape, tone) for word in re.findall(r'"(\w+)"', words)}
    return found


@pytest.fixture(scope="module", params=["light", "dark"])
def drawn(browser: Browser, session: dict, dev: Dev, request) -> Page:
    """A page with a badge of each disposition, four times as large as usual. Tests only look at it."""
    context = browser.new_context(storage_state=session, device_scale_factor=SCALE, **LOOKS[request.param])
    page = context.new_page()
    page.goto(f"{dev.pages}/events")
    words = page.locator("select[name=status] option").evaluate_all("options => options.map(option => option.value).filter(value => value)")
    known = looks()
    page.evaluate(
        """badges => {
            const list = document.createElement("p");
            list.style.cssText = "position: fixed; inset: 0 0 auto; z-index: 9; height: 40px; margin: 0; background: var(--canvas)";
            for (const [index, [word, shape, tone]] of badges.entries()) {
                const badge = document.createElement("span");
                badge.className = `badge ${shape} ${tone}`;
                badge.dataset.word = word;
                // On whole pixels, so that equal shapes are equal pictures.
                badge.style.cssText = `position: absolute; top: 8px; left: ${8 + 24 * index}px`;
                badge.append(document.createElement("i"));
                list.append(badge, " ");
            }
            // Not in the part that is read again.
            document.querySelector("footer").after(list);
        }""",
        [[word, *known[word]] for word in words],
    )
    yield page
    context.close()


@pytest.fixture(scope="module")
def reader(drawn: Page) -> Page:
    """An empty page, which may read pictures."""
    return drawn.context.new_page()


def luminances(page: Page, reader: Page) -> dict[str, list[int]]:
    """Returns the luminance of each pixel of each shape, as it is drawn."""
    boxes = page.locator("[data-word] i").evaluate_all(
        "shapes => shapes.map((shape) => ({ word: shape.parentElement.dataset.word, left: shape.getBoundingClientRect().x, top: shape.getBoundingClientRect().y }))"
    )
    url = "data:image/png;base64," + base64.b64encode(page.screenshot()).decode()
    return reader.evaluate(
        """async ([url, boxes, scale]) => {
            const image = await createImageBitmap(await (await fetch(url)).blob());
            const side = 12 * scale;
            const canvas = new OffscreenCanvas(side, side).getContext("2d", { willReadFrequently: true });
            return Object.fromEntries(boxes.map(({ word, left, top }) => {
                canvas.drawImage(image, -Math.round(left * scale), -Math.round(top * scale));
                const { data } = canvas.getImageData(0, 0, side, side);
                return [word, Array.from({ length: side * side }, (_, at) => Math.round(0.2126 * data[4 * at] + 0.7152 * data[4 * at + 1] + 0.0722 * data[4 * at + 2]))];
            }));
        }""",
        [url, boxes, SCALE],
    )


@pytest.mark.parametrize("vision", VISIONS)
def test_dispositions_differ_by_shape(drawn: Page, reader: Page, vision: str):
    drawn.context.new_cdp_session(drawn).send("Emulation.setEmulatedVisionDeficiency", {"type": vision})
    shapes = luminances(drawn, reader)
    assert {"applied", "parked", "refused", "stale", "duplicate", "recorded", "quarantined", "dead_lettered"} <= shapes.keys()
    alike = []
    for (one, first), (other, second) in combinations(shapes.items(), 2):
        share = sum(abs(a - b) >= DIFFERENT for a, b in zip(first, second)) / len(first)
        if share < SHARE_MIN:
            alike.append(f"{one} and {other}: {share:.3f}")
    assert alike == []


def test_two_equal_shapes_would_be_found(drawn: Page, reader: Page):
    """The comparison itself: a shape in another colour of the same luminance is the same shape."""
    drawn.context.new_cdp_session(drawn).send("Emulation.setEmulatedVisionDeficiency", {"type": "none"})
    was = drawn.evaluate(
        """() => {
            const [one, other] = ["duplicate", "stale"].map((word) => document.querySelector(`[data-word=${word}]`));
            const was = one.className;
            one.className = other.className;
            return was;
        }"""
    )
    shapes = luminances(drawn, reader)
    drawn.evaluate("was => { document.querySelector('[data-word=duplicate]').className = was; }", was)
    assert sum(abs(a - b) >= DIFFERENT for a, b in zip(shapes["stale"], shapes["duplicate"])) == 0
