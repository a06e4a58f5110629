"""A subscriber of domain events that does its work once for each id: a Lambda function to copy, in Python.

Domain events are published at least once, so a table of yours remembers the ids. Its key is `id`, a string, and its time to live
`expires_at`; the function's role may dynamodb:PutItem and dynamodb:UpdateItem, and SEEN_TABLE names it.

A conditional put takes an id before the work, and an update records it as done after. Work that fails, or dies, leaves the id taken
and not done: it is free again when the time of that invocation is over. Whoever comes before that ends with an error, so that
Lambda tries again. What died between the work and the update is done twice: hand the id on where the other side takes a key
against repetition.

Give the function a timeout of less than a minute, which is how long Lambda waits before it tries again, and an on-failure
destination for what fails three times.
"""

import os
import time

import boto3

# As long as calls are kept: `switchhook republish` publishes their events again.
KEPT_SECONDS = 400 * 24 * 3600

table = boto3.resource("dynamodb").Table(os.environ["SEEN_TABLE"])


def handler(event, context):
    detail = event["detail"]
    if take(detail["id"], context.get_remaining_time_in_millis() // 1000 + 1):
        work(detail)
        table.update_item(Key={"id": detail["id"]}, UpdateExpression="SET is_done = :yes", ExpressionAttributeValues={":yes": True})


def take(event_id: str, seconds: int) -> bool:
    """True if the work on it is ours, for so many seconds; false if it is done. Raises while it is another's."""
    now = int(time.time())
    try:
        table.put_item(
            Item={"id": event_id, "is_done": False, "taken_until": now + seconds, "expires_at": now + KEPT_SECONDS},
            ConditionExpression="attribute_not_exists(id) OR (is_done = :no AND taken_until < :now)",
            ExpressionAttributeValues={":no": False, ":now": now},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    except table.meta.client.exceptions.ConditionalCheckFailedException as refusal:
        if refusal.response["Item"]["is_done"]["BOOL"]:
            return False
        raise
    return True


def work(detail: dict):
    """What you want to happen: a mail, an entry in another system."""
    print(detail["type"], detail["appointment_id"])
