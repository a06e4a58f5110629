"""Fixtures: one stack and one browser for all tests, and a fresh browser profile for each test."""

import os
from pathlib import Path

import pytest
from harness import DEMO_CALLS, WAIT_MAX, Dev, chromium
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from views import LOOKS, views

# Names that the browser resolves to this machine, for pages of other origins and for a rebound name.
NAMES = ("hostile.example", "rebound.example")

expect.set_options(timeout=WAIT_MAX * 1000)


def pytest_addoption(parser):
    parser.addoption("--pictures", type=Path, help="folder into which the pictures of README.md and docs/ are written")


@pytest.fixture(scope="session")
def dev():
    stack = Dev.start()
    try:
        stack.fill()
        yield stack
    finally:
        stack.stop()


@pytest.fixture(scope="session")
def demo(request):
    """The calls of the demo, as the last line of `make demo` opens them. Only the pictures need all of them."""
    stack = Dev.of_demo() if request.config.getoption("--pictures") else Dev.of_demo("--calls", str(DEMO_CALLS))
    yield stack
    stack.stop()


@pytest.fixture
def own():
    """A stack of this test alone, which may be changed and whose time may be skipped."""
    stack = Dev.start()
    yield stack
    stack.stop()


@pytest.fixture(scope="session")
def browser():
    rules = ", ".join(f"MAP {name} 127.0.0.1" for name in NAMES)
    arguments = [f"--host-resolver-rules={rules}", "--force-color-profile=srgb"]
    if os.getuid() == 0:
        arguments.append("--no-sandbox")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        yield browser
        browser.close()


def cookies_of(browser: Browser, stack: Dev) -> dict:
    """Cookies of a browser that has opened the link."""
    context = browser.new_context()
    response = context.new_page().goto(stack.link)
    assert response.status == 200, response.status
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture(scope="session")
def session(dev: Dev, browser: Browser) -> dict:
    return cookies_of(browser, dev)


@pytest.fixture(scope="session")
def demo_session(demo: Dev, browser: Browser) -> dict:
    return cookies_of(browser, demo)


@pytest.fixture(scope="session")
def paths(browser: Browser, dev: Dev, session: dict) -> dict[str, str]:
    """The path of each page, in each of its states."""
    context = browser.new_context(storage_state=session, **LOOKS["light"])
    found = views(dev, context.new_page())
    context.close()
    return found


@pytest.fixture
def context(browser: Browser, session: dict):
    context = browser.new_context(storage_state=session, **LOOKS["light"])
    context.set_default_timeout(WAIT_MAX * 1000)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext, dev: Dev) -> Page:
    """A page that may open everything by its path. It fails the test if a script fails or something is not found."""
    page = context.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(f"script: {error}"))
    page.on("console", lambda message: message.type == "error" and problems.append(f"console: {message.text} {message.location}"))
    page.goto(dev.pages)
    yield page
    assert problems == []
