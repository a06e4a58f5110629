"""Sample subscriber of domain events: a Lambda function in Python that processes each event once. Copy it.

Domain events are published at least once, so a table records the ids that were processed. Its partition key is `id`, a string, and its
TTL attribute is `expires_at`. The function's role needs dynamodb:PutItem and dynamodb:UpdateItem.

Environment variables:
    SEEN_TABLE          Name of the table.
    RETENTION_DAYS      Value of the stack's parameter CallRetentionDays (400 by default). `switchhook republish` can publish the events of a
                        call for as long, so a shorter time would do work twice. After that time, a call of the same appointment or key has the
                        same ids, so a longer time would leave work undone.

A conditional put claims an id before the work, and an update marks it as done after the work. If the work fails, the id stays claimed
and is not done. The claim expires when the time of that invocation is over. A delivery that finds an unexpired claim raises an error,
so that Lambda retries it later. If the function dies between the work and the update, the work is done twice. If the other
system accepts idempotency keys, pass it the id.

Set the function's timeout to less than a minute, because Lambda waits a minute before its first retry. Configure an on-failure
destination for events that fail three times.
"""

import os
import time

import boto3

RETENTION_SECONDS = int(os.environ.get("RETENTION_DAYS", "400")) * 24 * 3600
SCHEMA_VERSION = 1

table = boto3.resource("dynamodb").Table(os.environ["SEEN_TABLE"])


def handler(event, context):
    detail = event["detail"]
    # The id stays free, so `switchhook republish` can repeat the event once this function knows the version.
    if detail["schema_version"] != SCHEMA_VERSION:
        raise ValueError(f"unknown schema version: {detail['schema_version']}")
    if claim(detail["id"], context.get_remaining_time_in_millis() // 1000 + 1):
        work(detail)
        table.update_item(Key={"id": detail["id"]}, UpdateExpression="SET is_done = :yes", ExpressionAttributeValues={":yes": True})


def claim(event_id: str, seconds: int) -> bool:
    """Claims an event for some seconds. Returns False if it is done already, and raises if another invocation has claimed it."""
    now = int(time.time())
    try:
        table.put_item(
            Item={"id": event_id, "is_done": False, "claimed_until": now + seconds, "expires_at": now + RETENTION_SECONDS},
            ConditionExpression="attribute_not_exists(id) OR (is_done = :no AND claimed_until < :now)",
            ExpressionAttributeValues={":no": False, ":now": now},
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
        )
    except table.meta.client.exceptions.ConditionalCheckFailedException as failure:
        if failure.response["Item"]["is_done"]["BOOL"]:
            return False
        raise
    return True


def work(detail: dict):
    """Replace this with your own work, for example to send a mail or to update another system."""
    print(detail["type"], detail["id"])
