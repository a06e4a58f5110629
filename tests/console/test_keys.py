"""Keys and settings of the browser."""

import re

from harness import Dev
from playwright.sync_api import Page, expect
from views import LISTS

# A row may have other classes too.
SELECTED = re.compile(r"\bselected\b")

FOCUSED = "document.activeElement.id"


def test_slash_goes_to_the_search_and_escape_leaves_it(page: Page):
    page.keyboard.press("/")
    assert page.evaluate(FOCUSED) == "search"
    page.keyboard.type("g c / ?")
    assert page.locator("#search").input_value() == "g c / ?", "keys are off in fields"
    assert page.locator("dialog[open]").count() == 0
    page.keyboard.press("Escape")
    assert page.evaluate(FOCUSED) != "search"


def test_g_and_a_letter_open_each_page(page: Page, dev: Dev):
    links = set(page.locator("nav a").evaluate_all("links => links.map(link => link.getAttribute('href'))"))
    for name, path in LISTS.items():
        if path in links:
            page.keyboard.press("g")
            with page.expect_navigation(url=dev.pages + path):
                page.keyboard.press(name[0])


def test_question_mark_opens_the_help_and_keys_can_be_switched_off(page: Page):
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Switch keys off").click()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("/")
    assert page.evaluate(FOCUSED) != "search"
    page.reload()
    page.keyboard.press("/")
    assert page.evaluate(FOCUSED) != "search", "the browser remembers it"
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("button", name="Switch keys on").click()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("/")
    assert page.evaluate(FOCUSED) == "search"


def test_theme_overrides_the_system_and_is_remembered(page: Page):
    colour = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(colour)
    button = page.get_by_role("button", name="Theme")
    button.click()
    button.click()
    expect(button).to_have_text("Theme: dark")
    dark = page.evaluate(colour)
    assert light != dark
    page.reload()
    assert page.evaluate(colour) == dark
    button.click()
    assert page.evaluate(colour) == light


def test_times_are_shown_in_local_time(browser, session: dict, dev: Dev):
    context = browser.new_context(storage_state=session, timezone_id="Asia/Kolkata")
    page = context.new_page()
    page.goto(f"{dev.pages}/call?id={dev.calls[0]}")
    time = page.locator("main time").first
    utc, at = time.inner_text(), time.get_attribute("datetime")
    page.keyboard.press("u")
    local = time.inner_text()
    assert local != utc and time.get_attribute("datetime") == at
    minutes = lambda text: int(text.split()[-1].split(":")[0]) * 60 + int(text.split()[-1].split(":")[1])
    assert (minutes(local) - minutes(utc)) % (24 * 60) == 5 * 60 + 30
    # The captions name the zone, and the date stands at the first time of each local day.
    expect(page.locator("table.events caption")).to_contain_text("Times are local time.")
    lists = page.evaluate(
        """() => {
            const lists = {};
            for (const time of document.querySelectorAll("time[data-days]")) (lists[time.dataset.days] ??= []).push(time.textContent);
            return Object.values(lists);
        }"""
    )
    assert lists and all(len(texts[0].split()) == 2 for texts in lists), lists
    page.keyboard.press("u")
    assert time.inner_text() == utc
    expect(page.locator("table.events caption")).to_contain_text("Times are UTC.")
    context.close()


def test_date_stands_where_the_local_day_begins(browser, session: dict, dev: Dev):
    context = browser.new_context(storage_state=session, timezone_id="Asia/Kolkata")
    page = context.new_page()
    page.goto(f"{dev.pages}/call?id={dev.calls[0]}")
    page.evaluate(
        """() => {
            const times = ["2026-11-22T18:29:59.000Z", "2026-11-22T18:30:00.000Z", "2026-11-22T23:59:59.000Z", "2026-11-23T00:00:00.000Z"];
            const shown = ["2026-11-22 18:29:59.000", "18:30:00.000", "23:59:59.000", "2026-11-23 00:00:00.000"];
            const list = document.createElement("p");
            list.id = "days";
            list.dataset.keep = "";
            for (const [index, at] of times.entries()) {
                const time = document.createElement("time");
                time.dateTime = at;
                time.dataset.days = "test";
                time.textContent = shown[index];
                list.append(time);
            }
            document.body.append(list);
        }"""
    )
    page.keyboard.press("u")
    expect(page.locator("#days time")).to_have_text(
        ["2026-11-22 23:59:59.000", "2026-11-23 00:00:00.000", "05:29:59.000", "05:30:00.000"]
    )
    context.close()


def test_rows_are_chosen_by_keys_and_ids_are_copied(page: Page, dev: Dev):
    page.goto(f"{dev.pages}/call?id={dev.calls[0]}")
    page.keyboard.press("j")
    page.keyboard.press("j")
    rows = page.locator("main tbody tr")
    expect(rows.nth(1)).to_have_class(SELECTED)
    page.keyboard.press("k")
    expect(rows.nth(0)).to_have_class(SELECTED)
    page.keyboard.press("c")
    expect(page.get_by_role("status")).to_have_text("Copied the command.")
    assert page.evaluate("navigator.clipboard.readText()").startswith(f"switchhook timeline {dev.calls[0]}")


def test_range_of_known_at_keeps_the_focus(page: Page, dev: Dev):
    page.goto(f"{dev.pages}/call?id={dev.calls[0]}")
    page.locator("#step").focus()
    times = []
    for key in ("ArrowLeft", "ArrowLeft", "ArrowRight"):
        page.keyboard.press(key)
        page.wait_for_url(lambda url: "as_of=" in url and "step=" not in url and url not in times[-1:])
        times.append(page.url)
        expect(page.locator("#step")).to_be_focused()
        assert page.locator("#step").get_attribute("aria-valuetext") in page.locator(".believed").inner_text()
    assert len(set(times)) == 2 and times[0] == times[2], times
    # The other keys work meanwhile.
    page.keyboard.press("t")
    expect(page.locator(".drawing .scroll")).to_be_hidden()


def test_search_leads_from_an_appointment_to_its_call_by_keys_alone(page: Page, dev: Dev):
    page.keyboard.press("/")
    page.keyboard.type("appt_203")
    page.keyboard.press("Enter")
    page.wait_for_url("**/call?id=*")
    assert dev.calls[2] in page.url
