"""The pages of the console, by the names of their pictures."""

from urllib.parse import urlencode

from harness import Dev
from playwright.sync_api import Page

# A width of 1,280 px at 400 % zoom is 320 px.
LOOKS = {
    "light": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 360, "height": 740}, "color_scheme": "light", "reduced_motion": "reduce"},
    "zoomed": {"viewport": {"width": 320, "height": 640}, "color_scheme": "dark", "reduced_motion": "reduce"},
}

# Entries of the navigation, with the key that follows `g`.
LISTS = {"health": "/", "calls": "/calls", "events": "/events", "repair": "/repair", "dials": "/dials", "try": "/try"}
# Pages of things that do not exist. Their status is 404, which the browser logs as an error.
ABSENT = {
    "no-page": "/no-such-page",
    "no-call": "/call?id=no-such-call",
    "no-event": "/event?id=generic:no-such-event",
    "no-plan": "/plan?id=p-0",
    "no-run": "/run?id=r-0",
    "no-search": "/search?found=0",
}


def views(dev: Dev, page: Page) -> dict[str, str]:
    """Returns the path of each page, in each of its states."""
    found = dict(LISTS)
    found |= {f"calls-{tab}": f"/calls?tab={tab}" for tab in ("in_flight", "waiting", "stuck", "in_doubt", "settled")}
    found |= {f"repair-{tab}": f"/repair?tab={tab}" for tab in ("dead-letters", "quarantined", "retrying", "conflicts", "relay", "audit")}
    found["call"] = "/call?" + urlencode({"id": dev.calls[0]})
    found["event"] = "/event?" + urlencode({"id": "generic:evt_8f1a2c"})
    # Filters that nothing passes.
    found["calls-none"] = "/calls?provider=telnyx&state=busy"
    found["events-none"] = "/events?type=no-such-type"
    page.goto(f"{dev.pages}/repair?tab=quarantined")
    found["event-quarantined"] = page.locator("main a[href^='/event?']").first.get_attribute("href")
    found["unmask"] = "/unmask?" + found["event-quarantined"].split("?")[1].replace("id=", "event=")
    page.get_by_role("button", name="Plan: discard").first.click()
    page.wait_for_url("**/plan?id=*")
    found["plan"] = page.url.removeprefix(dev.pages)
    page.locator("#search").fill("appt_201")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?found=*")
    found["search"] = page.url.removeprefix(dev.pages)
    return found
