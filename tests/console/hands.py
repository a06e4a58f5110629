"""What users do: without a mouse, and to prepare a test."""

from harness import WAIT_MAX, Dev
from playwright.sync_api import Locator, Page

# Most presses of Tab on the way to an element.
TABS_MAX = 250
# Tries after which an event is given up, with some to spare. Between two of them is at most a quarter of an hour.
SKIPS_MAX = 120


def skip_time(page: Page, minutes: int) -> None:
    """Skips time on the page Try."""
    page.get_by_role("button", name="Skip 15 minutes" if minutes == 15 else "Skip 1 minute").click()
    page.wait_for_load_state()


def make_dead_letters(own: Dev, page: Page, events: list[dict]) -> None:
    """The rows of these calls cannot be read until their events are dead letters. Then the rows are mended: they are gone."""
    table = own.get("/stack")["calls_table"]
    keys = [{"call_id": {"S": event["call_id"]}} for event in events]
    for key in keys:
        own.aws("dynamodb", "DynamoDB_20120810.PutItem", {"TableName": table, "Item": {**key, "schema_version": {"N": "1"}}})
    for event in events:
        own.post_event(event)
    def waiting(queue: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = own.aws("sqs", "AmazonSQS.GetQueueAttributes", {"QueueUrl": own.get("/stack")[queue], "AttributeNames": names})
        return sum(int(found["Attributes"][name]) for name in names)

    page.goto(f"{own.pages}/try")
    # Each event may have two messages: ingress sent one, and the sweep another.
    for _ in range(SKIPS_MAX):
        skip_time(page, 15)
        if waiting("events_dlq_url") >= len(events) and waiting("events_queue_url") == 0:
            break
    assert waiting("events_queue_url") == 0
    for key in keys:
        own.aws("dynamodb", "DynamoDB_20120810.DeleteItem", {"TableName": table, "Key": key})


# Number of elements that Tab reaches between the one with the focus and another. Some of them have several stops.
BETWEEN = """target => {
    const reached = (element) => element.tabIndex >= 0 && !element.disabled && element.type !== "radio" && element.checkVisibility();
    const all = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]")].filter(reached);
    return all.indexOf(target) - all.indexOf(document.activeElement) - 1;
}"""


class Hands:
    """Hands on the keyboard of a page."""

    def __init__(self, page: Page):
        self.page = page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)

    def go(self, page: str, path: str) -> None:
        """Opens a page of the navigation by its two keys."""
        self.press("g")
        with self.page.expect_navigation(url=f"**{path}"):
            self.press(page)

    def find(self, text: str) -> None:
        """Searches a text."""
        self.press("/")
        self.type(text)
        with self.page.expect_navigation():
            self.press("Enter")

    def reach(self, target: Locator) -> None:
        """Presses Tab until the element has the focus."""
        target.wait_for()
        for _ in range(target.evaluate(BETWEEN)):
            self.press("Tab")
        for _ in range(TABS_MAX):
            self.press("Tab")
            if target.evaluate("element => element === document.activeElement"):
                return
        raise AssertionError(f"Tab does not reach {target}")

    def fill(self, field: Locator, text: str) -> None:
        self.reach(field)
        self.press("ControlOrMeta+a")
        self.type(text)

    def follow(self, target: Locator) -> None:
        """Presses Enter on a link or a button that leads to a page."""
        self.reach(target)
        with self.page.expect_navigation(timeout=WAIT_MAX * 1000):
            self.press("Enter")
        self.page.locator("footer").wait_for()

    def choose_row(self, text: str) -> Locator:
        """Steps through the rows of the page until the chosen one has the text."""
        chosen = self.page.locator("main tr.selected")
        for _ in range(self.page.locator("main tbody tr").count()):
            self.press("j")
            if text in chosen.inner_text():
                return chosen
        raise AssertionError(f"no row has {text!r}")
