"""A page whose reads fail says so, and how old it is: AWS throttles them, or the session is over."""

import re

from harness import Dev, wait_for
from playwright.sync_api import Page, expect

# Counts what the stream says and what the page reads, and answers each read as if AWS had throttled it. `later` moves the clock on.
THROTTLE = """
    globalThis.versions = 0;
    globalThis.reads = 0;
    globalThis.readVersion = 0;
    globalThis.later = 0;
    const now = Date.now;
    Date.now = () => now() + later;
    const Stream = EventSource;
    globalThis.EventSource = class extends Stream {
        constructor(url) { super(url); this.addEventListener("version", () => versions++); }
    };
    const read = fetch;
    globalThis.fetch = async (...asked) => {
        reads++;
        readVersion = versions;
        const page = await (await read(...asked)).text();
        const problem = '<div class="problem" data-kind="throttled">throttled</div></main>';
        return new Response(page.replace("</main>", problem), { headers: { "content-type": "text/html" } });
    };
"""

# Answers the reads of the page as the console does after the end of the session, until `again` is true.
END = """
    globalThis.again = false;
    const read = fetch;
    globalThis.fetch = async (...asked) => (again ? await read(...asked) : new Response("", { status: 403 }));
"""


def test_throttled_page_is_read_less_often(page: Page, dev: Dev):
    page.add_init_script(THROTTLE)
    page.goto(f"{dev.pages}/try")
    wait_for("the eighth version", lambda: page.evaluate("versions") >= 8)
    reads = page.evaluate("reads")
    # The first version is read, the third and the seventh.
    assert 1 <= reads <= 4, f"8 versions, {reads} reads"
    live = page.locator("#live")
    expect(live).to_have_text(re.compile(r"^throttled, as of \d\d:\d\d:\d\d$"))
    assert "on" not in live.get_attribute("class").split()
    # Further versions would be skipped. After five minutes, the next one is read.
    reads, versions = page.evaluate("later = 300000; [reads, versions]")
    wait_for("another read", lambda: page.evaluate("reads") > reads)
    # A read that was under way may have skipped one.
    assert page.evaluate("readVersion") <= versions + 2


def test_page_says_that_its_session_is_over(page: Page, dev: Dev):
    page.add_init_script(END)
    page.goto(f"{dev.pages}/try")
    live = page.locator("#live")
    expect(live).to_have_text(re.compile(r"^session over, as of \d\d:\d\d:\d\d$"))
    over = page.get_by_role("alert").filter(has_text="This session is over. Press Enter in the terminal")
    expect(over).to_have_count(1)
    # A new link in the same browser opens a session for this page, too.
    page.evaluate("again = true; document.dispatchEvent(new Event('visibilitychange'))")
    expect(live).to_have_text("live")
    expect(over).to_have_count(0)
