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
    # All at once: some of them wait for an answer that never comes.
    attack_all = f"url => Promise.all([{', '.join(f'({attack})(url)' for attack in ATTACKS.values())}])"
    for path in ("/", "/calls", f"/call?id={dev.calls[0]}", "/live?page=/", "/search", "/assets/0/console.css"):
        for name, learned in zip(ATTACKS, page.evaluate(attack_all, dev.pages + path)):
            assert learned in ("", "nothing") or "opens only with the link" in learned, f"{name} {path}: {learned[:200]}"
    assert answers, "the attacks reach the console"
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


def test_console_opens_from_a_link_on_another_site(browser: Browser, own: Dev, hostile_port: int):
    """A terminal in a browser is another site, and the link is good only once."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://hostile.example:{hostile_port}/")
    page.evaluate(
        """url => {
            const link = Object.assign(document.createElement("a"), { href: url, textContent: "open" });
            document.body.append(link);
        }""",
        own.link,
    )
    page.get_by_role("link", name="open").click()
    page.wait_for_url(f"{own.pages}/")
    page.locator("main h1").first.wait_for(state="attached")
    context.close()


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


# Requests that a page can send without the browser's asking first, and those that it must ask for.
API_ATTACKS = {
    "plain text": """url => fetch(url + "/calls", { method: "POST", mode: "no-cors", headers: { "content-type": "text/plain" }, body: CALL })""",
    "no content type": """url => fetch(url + "/calls", { method: "POST", mode: "no-cors", body: new Blob([CALL]) })""",
    "JSON": """url => fetch(url + "/calls", { method: "POST", headers: { "content-type": "application/json" }, body: CALL })""",
    "beacon": """url => navigator.sendBeacon(url + "/calls", new Blob([CALL], { type: "text/plain" }))""",
    "form": """url => new Promise((done) => {
        const form = Object.assign(document.createElement("form"), { method: "post", action: url + "/calls", enctype: "text/plain", target: "frame" });
        const [name, value] = CALL.split(/(?<=^[^:]*:)/);
        form.append(Object.assign(document.createElement("input"), { name, value }));
        const frame = Object.assign(document.createElement("iframe"), { name: "frame", onload: done });
        document.body.append(frame, form);
        form.submit();
    })""",
    "a schedule": """url => fetch(url + "/run/scheduler", { method: "POST", mode: "no-cors" })""",
    "AWS": """url => fetch(url + "/aws", { method: "POST", mode: "no-cors", body: "{}" })""",
    "do-not-call": """url => fetch(url + "/do-not-call?number=%2B447700900199", { method: "PUT" })""",
    "read": """url => fetch(url + "/calls").then((answer) => answer.text()).then((text) => { throw new Error("read: " + text); })""",
    "read without CORS": """url => fetch(url + "/stack", { mode: "no-cors" })""",
}
CALL = '{"provider":"retell","from":"+442079460018","to":"+447700900198","appointment_id":"hostile"}'


@pytest.mark.parametrize("host", ["hostile.example", "127.0.0.1", "switchhook.localhost"])
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_page_of_another_origin_changes_nothing_by_the_api(context: BrowserContext, dev: Dev, hostile_port: int, host: str, name: str):
    """The API of `dev` asks for no credentials, so its guard alone keeps other pages out."""
    page = context.new_page()
    page.goto(f"http://{host}:{hostile_port}/")
    answers = {}
    page.on("response", lambda response: answers.setdefault(response.url, set()).add(response.status))
    url = f"http://{name}:{dev.port}"
    for attack, script in API_ATTACKS.items():
        try:
            page.evaluate(script.replace("CALL", repr(CALL)), url)
        except Exception as error:
            # The browser withholds the answer from the page.
            assert "Failed to fetch" in str(error), f"{attack}: {error}"
    refused = {url: statuses for url, statuses in answers.items() if str(dev.port) in url}
    assert refused, "the attacks reach the API"
    assert all(statuses <= {403, 415} for statuses in refused.values()), refused
    assert dev.request("/appointment?id=hostile", {}) == 404, "no call was created"


def test_rebound_name_reaches_no_api(context: BrowserContext, dev: Dev):
    """The page and the API have the same origin for the browser, and only the name is wrong."""
    page = context.new_page()
    for path in ("/calls", "/stack", "/domain-events", "/appointment?id=appt_201", "/event/status?id=x"):
        response = page.goto(f"http://rebound.example:{dev.port}{path}")
        assert response.status == 403, f"{path}: {response.status}"
    created = page.evaluate(
        """call => fetch("/calls", { method: "POST", headers: { "content-type": "application/json" }, body: call }).then((answer) => answer.status)""", CALL
    )
    assert created == 403
    assert dev.request("/appointment?id=hostile", {}) == 404, "no call was created"


def test_page_of_another_origin_changes_nothing_by_the_forms(context: BrowserContext, dev: Dev, hostile_port: int):
    """The forms that change something, even from the same site on another port."""
    page = context.new_page()
    for path in ("/plan", "/run", "/run/stop", "/run/resume", "/unmask", "/try", "/dials/do-not-call", "/search"):
        page.goto(f"http://switchhook.localhost:{hostile_port}/")
        with page.expect_navigation() as navigation:
            page.evaluate(
                """url => {
                    const form = Object.assign(document.createElement("form"), { method: "post", action: url });
                    for (const [name, value] of [["form_token", ""], ["token", ""], ["do", "hold"], ["kind", "discard_quarantined"], ["all", "yes"]])
                        form.append(Object.assign(document.createElement("input"), { name, value }));
                    document.body.append(form);
                    form.submit();
                }""",
                dev.pages + path,
            )
        assert navigation.value.status == 403, path
