"""Checks requests against the models of the AWS services in botocore, and against documented limits that the models leave out.

The validator of botocore itself checks no maximum, no pattern and no enumeration, and AWS refuses requests for all of these.
"""

import base64
import binascii
import json
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import parse_qsl, unquote, urlsplit

import botocore.session
from expand_template import expand

from harness import ROOT

TEMPLATE = expand(ROOT / "template.yaml")
# Services whose name in a signature is not the name of their model.
SIGNING_NAMES = {"monitoring": "cloudwatch"}


@dataclass
class Request:
    """Request to an operation, with its parameters by the names of the model."""

    service: str
    operation: str
    parameters: dict
    # Function that sent it, or `operator`. None if a test did.
    sender: str | None = None
    # Problems of its URL, headers and encoding.
    problems: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.service}:{self.operation}"

    def check(self) -> list[str]:
        """Returns what the service would refuse."""
        if self.problems:
            return self.problems
        model = model_of(self.service)
        if self.operation not in model.operation_names:
            return [f"{self.name} does not exist"]
        shape = model.operation_model(self.operation).input_shape
        found = list(check_shape(shape, self.parameters, self.operation)) if shape else [f"{name}: unknown" for name in self.parameters]
        # The limits are read from a request that has the right shape.
        limits = LIMITS.get(self.service)
        return found or (list(limits(self.operation, self.parameters)) if limits else [])


@cache
def model_of(service: str):
    return botocore.session.get_session().get_service_model(service)


# --- types, enumerations, lengths, ranges and patterns -----------------------------------------------------------------


def check_shape(shape, value, path: str) -> Iterator[str]:
    """Yields what differs from the shape, for a value in the JSON of the AWS protocols."""
    kind = shape.type_name
    if kind == "structure":
        if not isinstance(value, dict):
            yield f"{path}: not a structure"
            return
        yield from (f"{path}.{name}: missing" for name in shape.required_members if name not in value)
        yield from (f"{path}.{name}: unknown" for name in value if name not in shape.members)
        if shape.name == "AttributeValue" and len(value) != 1:
            yield f"{path}: {len(value)} types, and not one"
        for name, member in shape.members.items():
            if name in value:
                yield from check_shape(member, value[name], f"{path}.{name}")
    elif kind == "list":
        if not isinstance(value, list):
            yield f"{path}: not a list"
            return
        yield from check_range(shape, len(value), f"{path}: length")
        for index, each in enumerate(value):
            yield from check_shape(shape.member, each, f"{path}[{index}]")
    elif kind == "map":
        if not isinstance(value, dict):
            yield f"{path}: not a map"
            return
        yield from check_range(shape, len(value), f"{path}: length")
        for name, each in value.items():
            yield from check_shape(shape.key, name, f"{path} key")
            yield from check_shape(shape.value, each, f"{path}.{name}")
    elif kind == "blob":
        try:
            yield from check_range(shape, len(base64.b64decode(value, validate=True)), f"{path}: length")
        except (binascii.Error, TypeError, ValueError):
            yield f"{path}: not Base64"
    elif kind == "string":
        yield from check_text(shape, value, path)
    elif kind == "boolean":
        if not isinstance(value, bool):
            yield f"{path}: not a boolean"
    elif kind in ("integer", "long"):
        if isinstance(value, bool) or not isinstance(value, int):
            yield f"{path}: not an integer"
            return
        yield from check_range(shape, value, path)
    elif kind in ("float", "double", "timestamp"):
        # The JSON protocols write a timestamp in seconds of the Unix time.
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            yield f"{path}: not a number"
            return
        yield from check_range(shape, value, path)
    else:
        yield f"{path}: the check does not know the type {kind}"


def check_text(shape, value, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{path}: not a text"
        return
    yield from check_range(shape, len(value), f"{path}: length")
    allowed = shape.metadata.get("enum")
    if allowed and value not in allowed:
        yield f"{path}: {value} is not one of {allowed}"
    pattern = shape.metadata.get("pattern")
    if pattern and not re.fullmatch(pattern, value):
        yield f"{path}: does not match {pattern}"


def check_range(shape, value: float, path: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and value < least:
        yield f"{path}: {value} is less than {least}"
    if most is not None and value > most:
        yield f"{path}: {value} is more than {most}"


# --- requests as they are sent -----------------------------------------------------------------------------------------


def from_http(method: str, url: str, headers: dict, body: bytes, sender: str | None = None) -> Request:
    """Reads a signed HTTP request to an AWS service."""
    headers = {name.lower(): value for name, value in headers.items()}
    scope = re.search(r"Credential=[^/]+/\d{8}/[^/]+/([\w-]+)/aws4_request", headers.get("authorization", ""))
    if not scope:
        return Request("?", "?", {}, sender, [f"{method} {url} has no signature of version 4"])
    service = SIGNING_NAMES.get(scope[1], scope[1])
    metadata = model_of(service).metadata
    # Older models name one protocol.
    protocols = metadata.get("protocols", [metadata["protocol"]])
    if "rest-json" in protocols:
        return from_rest(service, method, url, headers, body, sender)
    content_type = headers.get("content-type", "")
    if content_type.startswith("application/x-amz-json"):
        return from_json(service, url, headers, body, sender)
    return from_query(service, url, content_type, body, sender)


def from_json(service: str, url: str, headers: dict, body: bytes, sender: str | None) -> Request:
    """Reads a request of the protocol `json`: the operation is a header, the parameters are the body."""
    metadata = model_of(service).metadata
    prefix, _, operation = headers.get("x-amz-target", "").rpartition(".")
    problems = [] if urlsplit(url).path == "/" else [f"path: {url}"]
    expected = {"x-amz-target": metadata["targetPrefix"], "content-type": f"application/x-amz-json-{metadata['jsonVersion']}"}
    found = {"x-amz-target": prefix, "content-type": headers["content-type"]}
    problems += [f"{name}: {found[name]}, and not {expected[name]}" for name in expected if found[name] != expected[name]]
    if "json" not in metadata["protocols"]:
        problems.append(f"{service} has no protocol json")
    return Request(service, operation, json.loads(body), sender, problems)


def from_query(service: str, url: str, content_type: str, body: bytes, sender: str | None) -> Request:
    """Reads a request of the protocol `query`: the body is a form. No request here has a list."""
    model = model_of(service)
    form = dict(parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True))
    problems = [] if urlsplit(url).path == "/" else [f"path: {url}"]
    if not content_type.startswith("application/x-www-form-urlencoded"):
        problems.append(f"content-type: {content_type}")
    if "query" not in model.metadata["protocols"]:
        problems.append(f"{service} has no protocol query")
    operation, version = form.pop("Action", ""), form.pop("Version", "")
    if version != model.api_version:
        problems.append(f"Version: {version}, and not {model.api_version}")
    return Request(service, operation, form, sender, problems)


def from_rest(service: str, method: str, url: str, headers: dict, body: bytes, sender: str | None) -> Request:
    """Reads a request of the protocol `rest-json`: the path selects the operation and holds parameters."""
    model, parts = model_of(service), urlsplit(url)
    for name in model.operation_names:
        operation = model.operation_model(name)
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", re.escape(operation.http["requestUri"].split("?")[0]))
        matched = re.fullmatch(pattern, parts.path)
        if not matched or operation.http["method"] != method:
            continue
        shape = operation.input_shape
        parameters = {label: unquote(value) for label, value in matched.groupdict().items()}
        query = dict(parse_qsl(parts.query))
        for member, each in shape.members.items():
            location, wire_name = each.serialization.get("location"), each.serialization.get("name", member)
            if location == "header" and wire_name.lower() in headers:
                parameters[member] = headers[wire_name.lower()]
            if location == "querystring" and wire_name in query:
                parameters[member] = query.pop(wire_name)
        problems = [f"{key}: unknown" for key in query]
        payload = shape.serialization.get("payload")
        if payload and shape.members[payload].type_name == "blob":
            parameters[payload] = base64.b64encode(body).decode()
        elif body:
            parameters |= json.loads(body)
        return Request(service, name, parameters, sender, problems)
    return Request(service, "?", {}, sender, [f"{method} {parts.path} is no operation of {service}"])


# --- limits that the models leave out ----------------------------------------------------------------------------------

# Source: Amazon SQS Developer Guide, "message quotas", and the reference of each operation.
FIFO_ID = re.compile(f"[{re.escape(string.ascii_letters + string.digits + string.punctuation)}]{{1,128}}")
BATCH_ID = re.compile(r"[\w-]{1,80}", re.ASCII)
MESSAGE_TEXT = re.compile("[\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")
MESSAGE_BYTES_MAX = 1_048_576
SQS_RANGES = {"DelaySeconds": (0, 900), "VisibilityTimeout": (0, 43_200), "MaxNumberOfMessages": (1, 10), "WaitTimeSeconds": (0, 20)}


def sqs_limits(operation: str, parameters: dict) -> Iterator[str]:
    entries = parameters.get("Entries")
    is_fifo = parameters.get("QueueUrl", "").endswith(".fifo")
    if entries is not None:
        if not 1 <= len(entries) <= 10:
            yield f"{operation}.Entries: {len(entries)} entries"
        ids = [entry.get("Id", "") for entry in entries]
        if len(set(ids)) < len(ids) or not all(BATCH_ID.fullmatch(each) for each in ids):
            yield f"{operation}.Entries: the ids {ids}"
    messages = [parameters] if entries is None else entries
    for message in messages:
        for name, (least, most) in SQS_RANGES.items():
            if not least <= message.get(name, least) <= most:
                yield f"{operation}.{name}: {message[name]}"
        for name in ("MessageGroupId", "MessageDeduplicationId"):
            if name in message and not FIFO_ID.fullmatch(message[name]):
                yield f"{operation}.{name}: {message[name]!r}"
        if "MessageBody" in message:
            if not MESSAGE_TEXT.fullmatch(message["MessageBody"]):
                yield f"{operation}.MessageBody: empty, or with a character that SQS refuses"
            if is_fifo and ("MessageGroupId" not in message or "MessageDeduplicationId" not in message):
                yield f"{operation}: a message of a FIFO queue without its group or its deduplication id"
            if is_fifo and "DelaySeconds" in message:
                yield f"{operation}.DelaySeconds: not for one message of a FIFO queue"
    if sum(len(message.get("MessageBody", "").encode()) for message in messages) > MESSAGE_BYTES_MAX:
        yield f"{operation}: more than {MESSAGE_BYTES_MAX} bytes"


# Source: Amazon DynamoDB Developer Guide, "Quotas in Amazon DynamoDB", and "Supported data types and naming rules".
ITEM_BYTES_MAX = 400 * 1024
EXPRESSION_BYTES_MAX = 4 * 1024
PARTITION_KEY_BYTES_MAX, SORT_KEY_BYTES_MAX = 2048, 1024
NESTING_MAX = 32
NUMBER = re.compile(r"-?(\d+)(?:\.(\d+))?(?:[eE][+-]?\d+)?")
DIGITS_MAX = 38
PLACEHOLDER = re.compile(r"[#:][A-Za-z0-9_]+")
EXPRESSIONS = ("ConditionExpression", "UpdateExpression", "KeyConditionExpression", "FilterExpression", "ProjectionExpression")


@cache
def keys() -> dict[str, tuple[str, int]]:
    """Returns type and greatest length of each attribute that is a key of a table or of an index."""
    found = {}
    for table in [each["Properties"] for each in TEMPLATE["Resources"].values() if each["Type"] == "AWS::DynamoDB::Table"]:
        types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
        for schema in [table["KeySchema"], *(index["KeySchema"] for index in table["GlobalSecondaryIndexes"])]:
            for key in schema:
                most = PARTITION_KEY_BYTES_MAX if key["KeyType"] == "HASH" else SORT_KEY_BYTES_MAX
                found[key["AttributeName"]] = (types[key["AttributeName"]], most)
    return found


def dynamodb_limits(operation: str, parameters: dict) -> Iterator[str]:
    if operation.startswith("Transact"):
        items = parameters["TransactItems"]
        if not 1 <= len(items) <= 100:
            yield f"{operation}: {len(items)} items"
        for item in items:
            for action, part in item.items():
                yield from dynamodb_limits(f"{operation}.{action}", part)
        return
    yield from check_expressions(operation, parameters)
    for name in ("Item", "Key", "ExclusiveStartKey"):
        for attribute, value in parameters.get(name, {}).items():
            yield from check_attribute(value, f"{operation}.{name}.{attribute}", 1)
            if attribute in keys():
                kind, most = keys()[attribute]
                if kind not in value or not 1 <= len(value[kind].encode()) <= most:
                    yield f"{operation}.{name}.{attribute}: a key must be of type {kind} and have 1 to {most} bytes"
    for name, value in parameters.get("ExpressionAttributeValues", {}).items():
        yield from check_attribute(value, f"{operation}.ExpressionAttributeValues.{name}", 1)
    size = sum(len(name.encode()) + size_of(value) for name, value in parameters.get("Item", {}).items())
    if size > ITEM_BYTES_MAX:
        yield f"{operation}.Item: {size} bytes"
    if parameters.get("ConsistentRead") and "IndexName" in parameters:
        yield f"{operation}.ConsistentRead: not for a global secondary index"


def check_expressions(operation: str, parameters: dict) -> Iterator[str]:
    """Each placeholder must be defined and used, and an expression has a maximum length and none of zero."""
    expressions = {name: parameters[name] for name in EXPRESSIONS if name in parameters}
    for name, expression in expressions.items():
        if not 1 <= len(expression.encode()) <= EXPRESSION_BYTES_MAX:
            yield f"{operation}.{name}: {len(expression.encode())} bytes"
    used = {placeholder for expression in expressions.values() for placeholder in PLACEHOLDER.findall(expression)}
    defined = {*parameters.get("ExpressionAttributeNames", {}), *parameters.get("ExpressionAttributeValues", {})}
    yield from (f"{operation}: {name} is not defined" for name in sorted(used - defined))
    yield from (f"{operation}: {name} is not used" for name in sorted(defined - used))
    for name in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        if name in parameters and not parameters[name]:
            yield f"{operation}.{name}: empty"


def check_attribute(value: dict, path: str, depth: int) -> Iterator[str]:
    if depth > NESTING_MAX:
        yield f"{path}: nested more than {NESTING_MAX} times"
        return
    ((kind, content),) = value.items()
    if kind == "N":
        yield from check_number(content, path)
    elif kind in ("SS", "NS", "BS"):
        if not content or len(set(content)) < len(content):
            yield f"{path}: a set that is empty or names a value twice"
        if kind == "NS":
            for number in content:
                yield from check_number(number, path)
    elif kind == "NULL" and content is not True:
        yield f"{path}: NULL must be true"
    elif kind == "L":
        for index, each in enumerate(content):
            yield from check_attribute(each, f"{path}[{index}]", depth + 1)
    elif kind == "M":
        for name, each in content.items():
            yield from check_attribute(each, f"{path}.{name}", depth + 1)


def check_number(text: str, path: str) -> Iterator[str]:
    number = NUMBER.fullmatch(text)
    if not number:
        yield f"{path}: {text!r} is no number"
    elif len("".join(filter(None, number.groups())).strip("0")) > DIGITS_MAX:
        yield f"{path}: more than {DIGITS_MAX} digits"


def size_of(value: dict) -> int:
    """Returns the size of an attribute's value, about as DynamoDB counts it, and never less."""
    ((kind, content),) = value.items()
    if kind == "B":
        return len(base64.b64decode(content))
    if kind == "L":
        return 3 + sum(1 + size_of(each) for each in content)
    if kind == "M":
        return 3 + sum(1 + len(name.encode()) + size_of(each) for name, each in content.items())
    if kind in ("SS", "NS", "BS"):
        return sum(len(each.encode()) for each in content)
    return len(str(content).encode()) + 1


# Source: Amazon EventBridge API Reference, PutEvents and PutEventsRequestEntry; User Guide, "PutEvents entry size".
ENTRIES_BYTES_MAX = 1_000_000
DETAIL_TYPE_MAX = 128


def events_limits(operation: str, parameters: dict) -> Iterator[str]:
    if operation != "PutEvents":
        return
    size = 0
    for entry in parameters["Entries"]:
        for name in ("Source", "DetailType", "Detail"):
            if not entry.get(name):
                yield f"PutEvents.{name}: missing"
            size += len(entry.get(name, "").encode())
        size += 14 if "Time" in entry else 0
        if len(entry.get("DetailType", "")) > DETAIL_TYPE_MAX or entry.get("Source", "").startswith("aws."):
            yield f"PutEvents: {entry['Source']}, {entry['DetailType']}"
        if not isinstance(json.loads(entry.get("Detail", "null")), dict):
            yield "PutEvents.Detail: not a JSON object"
    if size >= ENTRIES_BYTES_MAX:
        yield f"PutEvents: {size} bytes"


# Source: Amazon CloudWatch API Reference, GetMetricData, MetricDataQuery, MetricStat and Dimension.
QUERIES_MAX = 500
DIMENSIONS_MAX = 30
QUERY_ID = re.compile(r"[a-z]\w*", re.ASCII)
STATISTIC = re.compile(r"SampleCount|Average|Sum|Minimum|Maximum|IQM|(p|tm|wm|tc|ts)\d{1,2}(\.\d+)?")


def cloudwatch_limits(operation: str, parameters: dict) -> Iterator[str]:
    if operation != "GetMetricData":
        return
    queries = parameters["MetricDataQueries"]
    if len(queries) > QUERIES_MAX:
        yield f"GetMetricData: {len(queries)} queries"
    if parameters["StartTime"] >= parameters["EndTime"]:
        yield "GetMetricData: StartTime is not before EndTime"
    ids = [query["Id"] for query in queries]
    if len(set(ids)) < len(ids) or not all(QUERY_ID.fullmatch(each) for each in ids):
        yield f"GetMetricData: the ids {ids}"
    for query in queries:
        if ("MetricStat" in query) == ("Expression" in query):
            yield f"GetMetricData.{query['Id']}: needs either a metric or an expression"
        stat = query.get("MetricStat")
        if stat:
            if stat["Period"] % 60:
                yield f"GetMetricData.{query['Id']}: a period of {stat['Period']} s"
            if not STATISTIC.fullmatch(stat["Stat"]):
                yield f"GetMetricData.{query['Id']}: the statistic {stat['Stat']}"
            if len(stat["Metric"].get("Dimensions", [])) > DIMENSIONS_MAX:
                yield f"GetMetricData.{query['Id']}: too many dimensions"


LIMITS = {"sqs": sqs_limits, "dynamodb": dynamodb_limits, "events": events_limits, "cloudwatch": cloudwatch_limits}
