"""The pages of the console, by the names of their pictures."""

from urllib.parse import urlencode

from harness import Dev

# Entries of the navigation, with the key that follows `g`.
LISTS = {"health": "/", "calls": "/calls", "events": "/events", "repair": "/repair", "dials": "/dials", "try": "/try"}


def views(dev: Dev, paths: set[str]) -> dict[str, str]:
    """Returns the path of each page that this console has: `paths` are those that its navigation names."""
    found = {name: path for name, path in LISTS.items() if path in paths}
    if "/calls" in paths:
        found["call"] = "/call?" + urlencode({"id": dev.calls[0]})
    if "/events" in paths:
        found["event"] = "/event?" + urlencode({"id": "generic:evt_8f1a2c"})
    found["nothing"] = "/no-such-page"
    return found
