"""The first minute: a newcomer opens the link, and an operator is woken by an alarm."""

import re

import pytest
from harness import Dev
from playwright.sync_api import Browser, Page, expect
from views import LOOKS


@pytest.fixture
def first_page(browser: Browser, own: Dev) -> Page:
    """The page that the link of the terminal opens."""
    context = browser.new_context(**LOOKS["light"])
    page = context.new_page()
    page.goto(own.link)
    page.wait_for_url(f"{own.pages}/")
    yield page
    context.close()


def minutes(text: str) -> float:
    """Time of the day in a cell, in minutes."""
    hours, minutes, seconds = re.search(r"(\d\d):(\d\d):(\d\d(?:\.\d+)?)", text).groups()
    return int(hours) * 60 + int(minutes) + float(seconds) / 60


def assert_confirmed_against_all_odds(page: Page) -> None:
    """The page of a call says that it was confirmed, what came late, and that events arrived out of order."""
    main = page.locator("main")
    expect(main).to_contain_text("Confirmed")
    expect(page.locator("figcaption")).to_contain_text("confirmed")
    expect(main).to_contain_text(re.compile(r"\d+ (min|s|h)[\d a-z.]* late"))
    rows = page.locator("#events tbody tr:not(.write, .move)")
    occurred = [text for text in rows.locator("td:first-child").all_inner_texts() if re.search(r"\d\d:\d\d", text)]
    assert [minutes(text) for text in occurred] != sorted(minutes(text) for text in occurred), "events arrived in another order"


def test_three_clicks_lead_to_a_call_that_was_confirmed_against_all_odds(first_page: Page):
    """From `switchhook dev`: Try, a story, its call."""
    expect(first_page.locator("main")).to_contain_text("Start here.")
    clicks = [
        lambda: first_page.get_by_role("link", name="Try", exact=True).last.click(),
        lambda: first_page.get_by_role("button", name="Late ending").click(),
        lambda: first_page.locator(".try-log [role=status] a").click(),
    ]
    clicks[0]()
    story = first_page.locator("li", has=first_page.get_by_role("button", name="Late ending"))
    for word in ("twice", "late", "first"):
        expect(story).to_contain_text(word)
    clicks[1]()
    expect(first_page.locator(".try-log [role=status]")).to_contain_text("completed, Confirmed")
    clicks[2]()
    first_page.wait_for_url("**/call?id=*")
    assert_confirmed_against_all_odds(first_page)


def test_last_line_of_the_demo_leads_to_such_a_call(browser: Browser, demo: Dev, demo_session: dict):
    """The commands of the line were run as they stand. Then one click is enough."""
    context = browser.new_context(storage_state=demo_session, **LOOKS["light"])
    page = context.new_page()
    page.goto(demo.pages)
    expect(page.locator("main")).to_contain_text("The clock stands still")
    assert "Unknown" not in page.locator(".questions").inner_text(), "the data tells how healthy the stack was"
    start = page.locator("main p", has_text="Start here.")
    expect(start).to_contain_text("late, twice and in the wrong order")
    start.get_by_role("link").click()
    page.wait_for_url("**/call?id=*")
    assert_confirmed_against_all_odds(page)
    context.close()


def test_verdicts_and_first_troubled_ids_are_seen_without_a_click(first_page: Page, own: Dev):
    own.quarantine(2)
    first_page.reload()
    height = first_page.viewport_size["height"]
    verdicts = first_page.locator(".questions h2 .badge")
    expect(verdicts).to_have_count(3)
    troubled = first_page.locator(".questions section", has_text="Poison?").locator("a[href^='/event?id=']")
    expect(troubled).to_have_count(2)
    for seen in [*verdicts.all(), *troubled.all()]:
        box = seen.bounding_box()
        assert 0 <= box["y"] and box["y"] + box["height"] <= height, "nobody has to scroll"
    assert {"OK", "Watch", "Act", "Unknown"} >= set(verdicts.all_inner_texts())
    assert "Act" in first_page.locator(".questions section", has_text="Poison?").locator("h2").inner_text()
    assert first_page.evaluate("scrollY") == 0
