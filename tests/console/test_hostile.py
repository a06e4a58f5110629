"""Pages of others in the same browser. None of them reaches the console, and none learns anything."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from harness import Dev
from playwright.sync_api import Browser, BrowserContext

# Ways to reach a URL from a page. Each returns what the page could learn.
ATTACKS = {
    "fetch": """url => fetch(url, { credentials: "include" }).then((r) => r.text(), () => "nothing")""",
    "fetch without CORS": """url => fetch(url, { mode: "no-cors", credentials: "include" }).then((r) => r.text(), () => "nothing")""",
    "post": """url => fetch(url, { method: "POST", mode: "no-cors", credentials: "include",
        headers: { "content-type": "text/plain" }, body: "text=appt_201" }).then((r) => r.text(), () => "nothing")""",
    "image": """url => new Promise((done) => {
        const image = new Image();
        image.onload = () => done("loaded");
        image.onerror = () => done("nothing");
        image.src = url;
    })""",
    "script": """url => new Promise((done) => {
        const script = document.createElement("script");
        script.onload = () => done("loaded");
        script.onerror = () => done("nothing");
        script.src = url;
        document.head.append(script);
    })""",
    "event stream": """url => new Promise((done) => {
        const source = new EventSource(url, { withCredentials: true });
        source.onopen = () => { source.close(); done("opened"); };
        source.onerror = () => { source.close(); done("nothing"); };
    })""",
    "frame": """url => new Promise((done) => {
        const frame = document.createElement("iframe");
        frame.onload = () => { try { done(frame.contentDocument.body.textContent || "nothing"); } catch { done("nothing"); } };
        frame.src = url;
        document.body.append(frame);
    })""",
    "prefetch": """url => new Promise((done) => {
        const link = document.createElement("link");
        link.rel = "prefetch";
        link.href = url;
        document.head.append(link);
        setTimeout(() => done("nothing"), 300);
    })""",
}


class EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"<!doctype html><html lang=en><title>hostile</title><body></body></html>"
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def hostile_port():
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmptyPage)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()


# The name of the console on another port is the same site: the browser sends the cookie along, so the guard alone refuses.
@pytest.mark.parametrize("host", ["hostile.example", "127.0.0.1", "switchhook.localhost"])
def test_page_of_another_origin_learns_nothing(context: BrowserContext, dev: Dev, hostile_port: int, host: str):
    page = context.new_page()
    page.goto(f"http://{host}:{hostile_port}/")
    answers = {}
    page.on("response", lambda response: response.url.startswith(dev.pages) and answers.setdefault(response.url, set()).add(response.status))
    for path in ("/", "/calls", f"/call?id={dev.calls[0]}", "/live?page=/", "/search", "/assets/0/console.css"):
        for name, attack in ATTACKS.items():
            learned = page.evaluate(attack, dev.pages + path)
            assert learned in ("", "nothing") or "opens only with the link" in learned, f"{name} {path}: {learned[:200]}"
    assert all(statuses <= {403} for statuses in answers.values()), answers


@pytest.mark.parametrize("host", ["hostile.example", "switchhook.localhost"])
def test_form_of_another_origin_is_refused(context: BrowserContext, dev: Dev, hostile_port: int, host: str):
    page = context.new_page()
    page.goto(f"http://{host}:{hostile_port}/")
    with page.expect_navigation() as navigation:
        page.evaluate(
            """url => {
                const form = Object.assign(document.createElement("form"), { method: "post", action: url });
                form.append(Object.assign(document.createElement("input"), { name: "text", value: "appt_201" }));
                document.body.append(form);
                form.submit();
            }""",
            f"{dev.pages}/search",
        )
    assert navigation.value.status == 403


@pytest.mark.parametrize("host", ["hostile.example", "switchhook.localhost"])
def test_link_of_another_origin_opens_no_page(context: BrowserContext, dev: Dev, hostile_port: int, host: str):
    page = context.new_page()
    page.goto(f"http://{host}:{hostile_port}/")
    with page.expect_navigation() as navigation:
        page.evaluate("url => { location.href = url; }", f"{dev.pages}/calls")
    assert navigation.value.status == 403


def test_rebound_name_reaches_no_page_and_no_table(context: BrowserContext, dev: Dev):
    """A name of the attacker that suddenly resolves to this machine: the request is of its own origin, only the host is wrong."""
    page = context.new_page()
    for path in ("/", "/live?page=/", "/stack", "/metrics-data"):
        response = page.goto(f"http://rebound.example:{dev.port}{path}")
        assert response.status in (403, 404), f"{path}: {response.status}"
        assert "<main" not in response.text()


def test_used_link_opens_nothing(browser: Browser, dev: Dev, session: dict):
    context = browser.new_context()
    response = context.new_page().goto(dev.link)
    assert response.status == 403
    assert "used already" in response.text()
    assert context.cookies() == []
    context.close()


def test_browser_without_the_cookie_sees_nothing(browser: Browser, dev: Dev):
    context = browser.new_context()
    page = context.new_page()
    for path in ("/", "/calls", "/call?id=x", "/live?page=/"):
        response = page.goto(dev.pages + path)
        assert response.status == 403 and "<main" not in response.text(), path
    context.close()


def test_cookie_is_out_of_reach_of_scripts_and_of_other_sites(context: BrowserContext, dev: Dev):
    page = context.new_page()
    page.goto(dev.pages)
    assert page.evaluate("document.cookie") == ""
    (cookie,) = context.cookies(dev.pages)
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and str(dev.port) in cookie["name"]


def test_headers_forbid_what_pages_do_not_need(page, dev: Dev):
    response = page.goto(f"{dev.pages}/calls")
    headers = response.headers
    for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"):
        assert part in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"


HOSTILE = ["<img src=x onerror=alert(1)>", "javascript:alert(1)", "a/b?c#d%e&f", "\u202egnp.exe", "😀 \u200b é", "'\"><script>alert(1)</script>"]


def test_hostile_texts_stay_texts(context: BrowserContext, dev: Dev):
    """Texts of others, as ids: nothing runs, nothing becomes markup, and what cannot be seen is named."""
    page = context.new_page()
    page.goto(dev.pages)
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    for text in HOSTILE:
        page.locator("#search").fill(text)
        with page.expect_navigation() as navigation:
            page.keyboard.press("Enter")
        assert navigation.value.status in (200, 404)
        assert page.locator("main img, main script, main a[href^='javascript:']").count() == 0
        page.goto(dev.pages)
