"""Whole tasks by the keyboard alone, on a wide page, at 360 px, and at 400 % zoom with reduced motion."""

import re

import pytest
from hands import Hands, make_dead_letters, skip_time
from harness import Dev, ago, wait_for
from playwright.sync_api import Browser, BrowserContext, Page, expect
from views import LOOKS


@pytest.fixture(params=["light", "narrow", "zoomed"])
def tab(browser: Browser, own: Dev, request) -> Page:
    """The first tab of a browser, which has opened the link."""
    context: BrowserContext = browser.new_context(**LOOKS[request.param])
    page = context.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(own.link)
    page.wait_for_url(f"{own.pages}/")
    yield page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the last page scrolls sideways"
    context.close()
    assert problems == []


def run_plan(hands: Hands, items: int, reason: str, rate: int | None = None) -> None:
    """Fills in the form of a plan."""
    page = hands.page
    hands.fill(page.locator("input[name=reason]"), reason)
    hands.fill(page.locator("input[name=count]"), str(items))
    if rate is not None:
        hands.fill(page.locator("input[name=rate]"), str(rate))
    hands.follow(page.get_by_role("button", name="Run", exact=True))


def see_in_audit(hands: Hands, reason: str) -> None:
    """Follows the link of a finished run, and finds its records."""
    page = hands.page
    expect(page.locator("h1")).to_contain_text(", finished")
    hands.follow(page.get_by_role("link", name="See it in the audit"))
    records = page.get_by_role("table", name="Latest audit records").locator("tbody tr", has_text=reason)
    expect(records.filter(has_text="started")).not_to_have_count(0)
    expect(records.filter(has_text="finished")).to_have_count(1)


def test_number_appointment_and_provider_id_lead_to_the_call(tab: Page, own: Dev):
    number, appointment = "+447700900151", "appt/251 é"
    call = own.create_call(number, appointment)
    own.create_call("+447700900152", "appt_252")
    attempt = wait_for("the call is dialled", lambda: next(iter(own.call(call)["attempts"]), None))
    wait_for("the provider has named its call", lambda: own.call(call)["attempts"][0].get("provider_call_id"))
    attempt = own.call(call)["attempts"][0]
    hands = Hands(tab)
    for text in (number, appointment, attempt["provider_call_id"], call):
        hands.go("h", "/")
        hands.find(text)
        assert tab.url.endswith(f"/call?id={call}"), f"{text}: {tab.url}"
        assert call in tab.locator("h1").inner_text()


def test_late_event_says_why(tab: Page, own: Dev):
    events = [("confirmed", "user.confirmed", 5), ("ended", "call.completed", 4), ("rang", "call.ringing", 6)]
    for name, kind, minutes in events:
        own.post_event({"event_id": f"late_{name}", "event_type": kind, "appointment_id": "late", "occurred_at": ago(hours=1, minutes=minutes)})
    wait_for("all events are folded", lambda: len(own.events("appointment:late")) >= 3)
    hands = Hands(tab)
    hands.find("late")
    row = hands.choose_row("1 h ")
    assert "late" in row.inner_text()
    why = row.locator("td").last.inner_text()
    assert len(why.split()) >= 4 and why.rstrip().endswith("."), why
    # The row opens its event in place, and Escape leads back.
    with tab.expect_navigation(url="**&event=*"):
        hands.press("Enter")
    expect(tab.locator("#opened")).to_contain_text("Payload, masked")
    with tab.expect_navigation(url="**/call?id=*"):
        hands.press("Escape")


def test_quarantined_webhooks_are_planned_discarded_and_audited(tab: Page, own: Dev):
    own.quarantine(3)
    hands = Hands(tab)
    hands.go("r", "/repair")
    expect(tab.locator(".tabs [aria-current]")).to_contain_text("Quarantined 3")
    hands.follow(tab.get_by_role("button", name="Plan: discard"))
    expect(tab.locator("h1")).to_have_text("Plan: discard 3 quarantined events")
    run_plan(hands, 3, "ticket 812: a test sent them")
    see_in_audit(hands, "ticket 812")
    hands.go("r", "/repair")
    expect(tab.locator("main")).to_contain_text("Nothing waits. The last repair was")


# It takes long to make a dead letter, so only the narrowest page has one.
@pytest.mark.parametrize("tab", ["zoomed"], indirect=True)
def test_dead_letter_is_redriven(tab: Page, own: Dev):
    helper = tab.context.new_page()
    make_dead_letters(own, helper, [{"event_id": "evt_dead", "event_type": "call.ringing", "call_id": "dead"}])
    helper.close()
    hands = Hands(tab)
    hands.go("r", "/repair")
    expect(tab.locator(".tabs [aria-current]")).to_contain_text("Dead letters 1")
    expect(tab.locator("main")).to_contain_text("could not read an attribute of the call's row")
    hands.follow(tab.get_by_role("button", name="Plan: redrive", exact=True))
    expect(tab.get_by_role("table", name="Calls before and after the run")).to_contain_text("ringing")
    letters = int(re.search(r"redrive (\d+) dead letter", tab.locator("h1").inner_text()).group(1))
    run_plan(hands, letters, "ticket 813: the row is mended")
    expect(tab.locator("main")).to_contain_text("0 skipped")
    see_in_audit(hands, "ticket 813")
    assert [call["call_id"] for call in own.get("/calls")["calls"]] == ["dead"], "the event is in its call"
    hands.go("r", "/repair")
    expect(tab.locator("main")).to_contain_text("Nothing waits.")


# The form is the same at every width, so only the narrowest page has it.
@pytest.mark.parametrize("tab", ["zoomed"], indirect=True)
def test_number_is_unmasked_with_a_reason(tab: Page, own: Dev):
    number, reason = "+447700900166", "ticket 815: which line was called"
    own.post_event({"event_id": "evt_number", "event_type": "call.ringing", "call_id": "unmasked", "call": {"to": number}})
    hands = Hands(tab)
    hands.go("e", "/events")
    hands.follow(tab.locator("main a[href^='/event?'][href*='evt_number']"))

    def is_hidden() -> bool:
        return not any(part in tab.content() for part in (number, number[1:], number[3:]))

    expect(tab.locator("pre.payload")).to_contain_text("…166")
    assert is_hidden()
    details = tab.locator("details", has_text="Payload, unmasked")
    hands.reach(details.locator("summary"))
    hands.press("Enter")
    # Without a reason, the browser sends nothing.
    show = details.get_by_role("button", name="Show the body unmasked")
    hands.reach(show)
    hands.press("Enter")
    assert "/event?" in tab.url and is_hidden()
    hands.fill(details.locator("input[name=reason]"), reason)
    hands.follow(show)
    expect(tab.locator("pre.payload")).to_contain_text(number)
    assert number[3:] not in tab.url + tab.title()
    # Nothing remembers it: the page of the event, and the way back to the body, need a reason again.
    hands.follow(tab.get_by_role("link", name="Back to the event"))
    expect(tab.locator("pre.payload")).to_contain_text("…166")
    assert is_hidden()
    hands.go("r", "/repair")
    hands.follow(tab.get_by_role("link", name="Audit", exact=True))
    record = tab.get_by_role("table", name="Latest audit records").locator("tbody tr", has_text=reason)
    expect(record).to_have_count(1)
    expect(record.locator("a[href*='evt_number']")).to_have_count(1)


def test_story_ends_in_a_settled_call(tab: Page, own: Dev):
    hands = Hands(tab)
    hands.go("t", "/try")
    hands.follow(tab.get_by_role("button", name="Busy, then confirms"))
    expect(tab.locator(".try-log [role=status]")).to_contain_text("the call ended as completed, Confirmed")
    hands.follow(tab.locator(".try-log [role=status] a"))
    expect(tab.locator("main")).to_contain_text("Confirmed")
    call = own.call(re.search(r"call-[0-9a-f]+", tab.url).group())
    assert (call["settled"], [attempt["lifecycle"] for attempt in call["attempts"]]) == (True, ["busy", "completed"])


def test_webhooks_are_held_shuffled_and_released(tab: Page, own: Dev):
    hands = Hands(tab)
    hands.go("t", "/try")
    hands.follow(tab.get_by_role("button", name="Hold webhooks"))
    hands.reach(tab.locator("select[name=attempt_1]"))
    hands.type("confirms")
    assert tab.locator("select[name=attempt_1]").input_value() == "confirms"
    hands.follow(tab.get_by_role("button", name="Place", exact=True))
    expect(tab.locator("table.try-held tbody tr")).to_have_count(3)
    expect(tab.locator(".try-orders")).to_contain_text("all 6 orders of these 3 events give: completed, Confirmed")
    # The first arrives twice, and the others in random order.
    hands.follow(tab.locator("table.try-held tbody tr").first.get_by_role("button", name="twice"))
    expect(tab.locator("table.try-held tbody tr")).to_have_count(2)
    hands.follow(tab.get_by_role("button", name="All, in random order"))
    expect(tab.locator("table.try-held")).to_have_count(0)
    hands.follow(tab.locator(".try-log [role=status] a").first)
    call = re.search(r"call-[0-9a-f]+", tab.url).group()
    wait_for("the call is settled", lambda: own.call(call)["settled"])
    assert (own.call(call)["lifecycle"], own.call(call)["appointment_status"]) == ("completed", "Confirmed")


def test_expired_plan_is_refused(tab: Page, own: Dev):
    own.quarantine(1)
    hands = Hands(tab)
    hands.go("r", "/repair")
    hands.follow(tab.get_by_role("button", name="Plan: discard"))
    helper = tab.context.new_page()
    helper.goto(f"{own.pages}/try")
    skip_time(helper, 15)
    skip_time(helper, 1)
    helper.close()
    run_plan(hands, 1, "too late")
    expect(tab.locator(".refused").first).to_be_visible()
    expect(tab.locator("main")).to_contain_text("make a new one")
    assert tab.get_by_role("button", name="Run", exact=True).count() == 0
    hands.go("r", "/repair")
    expect(tab.locator(".tabs [aria-current]")).to_contain_text("Quarantined 1")


# It takes as many seconds as the run has items, so only the narrowest page has one.
@pytest.mark.parametrize("tab", ["zoomed"], indirect=True)
def test_run_is_stopped_and_goes_on(tab: Page, own: Dev):
    items = 20
    own.quarantine(items)
    hands = Hands(tab)
    hands.go("r", "/repair")
    hands.follow(tab.get_by_role("button", name="Plan: discard"))
    # One item a second, so that there is time to stop it.
    run_plan(hands, items, "ticket 814", rate=1)
    hands.follow(tab.get_by_role("button", name="Stop"))
    expect(tab.locator("h1")).to_contain_text("not finished")
    done = int(re.match(r"(\d+) of", tab.locator("p.progress strong").inner_text()).group(1))
    assert done < items
    hands.follow(tab.get_by_role("button", name="Go on"))
    expect(tab.locator("p.progress strong")).to_contain_text(f"{items} of {items}")
    expect(tab.locator("main")).to_contain_text(f"{items} done, 0 unchanged, 0 skipped")
    see_in_audit(hands, "ticket 814")
