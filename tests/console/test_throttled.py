"""A page that AWS throttles is read half as often each time."""

from harness import Dev, wait_for
from playwright.sync_api import Page

# Counts what the stream says and what the page reads, and answers each read as if AWS had throttled it.
THROTTLE = """
    globalThis.versions = 0;
    globalThis.reads = 0;
    const Stream = EventSource;
    globalThis.EventSource = class extends Stream {
        constructor(url) { super(url); this.addEventListener("version", () => versions++); }
    };
    const read = fetch;
    globalThis.fetch = async (...asked) => {
        reads++;
        const page = await (await read(...asked)).text();
        const problem = '<div class="problem" data-kind="throttled">throttled</div></main>';
        return new Response(page.replace("</main>", problem), { headers: { "content-type": "text/html" } });
    };
"""


def test_throttled_page_is_read_less_often(page: Page, dev: Dev):
    page.add_init_script(THROTTLE)
    page.goto(f"{dev.pages}/try")
    wait_for("the eighth version", lambda: page.evaluate("versions") >= 8)
    reads = page.evaluate("reads")
    # The first version is read, the third and the seventh.
    assert 1 <= reads <= 4, f"8 versions, {reads} reads"
