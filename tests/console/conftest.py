"""Fixtures: one stack and one browser for all tests, and a fresh browser profile for each test."""

import os
from pathlib import Path

import pytest
from harness import Dev, chromium
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

# Names that the browser resolves to this machine, for pages of other origins and for a rebound name.
NAMES = ("hostile.example", "rebound.example")


def pytest_addoption(parser):
    parser.addoption("--pictures", type=Path, help="folder into which the pictures of the pages are written")


@pytest.fixture(scope="session")
def dev():
    stack = Dev.start()
    try:
        stack.fill()
        yield stack
    finally:
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


@pytest.fixture(scope="session")
def session(dev: Dev, browser: Browser) -> dict:
    """Cookies of a browser that has opened the link."""
    context = browser.new_context()
    response = context.new_page().goto(dev.link)
    assert response.status == 200, response.status
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def context(browser: Browser, session: dict):
    context = browser.new_context(storage_state=session, viewport={"width": 1280, "height": 800})
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
