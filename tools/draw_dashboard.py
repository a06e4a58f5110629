"""Draws the dashboard of template.yaml as it looks for a local stack, as an SVG picture.

    .venv/bin/python tools/draw_dashboard.py docs/pictures/dashboard.svg

A test (`tests/it/alarms/picture.rs`) runs the stack for an hour of virtual time, with traffic of three providers, repetitions, a wrong key,
and an outage. It answers the queries of the template with its metrics, one value per minute.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# --- the template, with the names of a local stack --------------------------------------------------------------------

LOCAL = {
    "AWS::StackName": "local",
    "AWS::Region": "us-east-1",
    "AWS::Partition": "aws",
    "AWS::AccountId": "000000000000",
    "HttpApi": "local",
    "InboxTable": "switchhook-inbox",
    "CallsTable": "switchhook-calls",
    "EventsQueue.QueueName": "switchhook-events.fifo",
    "EventsDlq.QueueName": "switchhook-events-dlq.fifo",
    "DialQueue.QueueName": "switchhook-dial.fifo",
    "DueQueue.QueueName": "switchhook-due",
    "RepairQueue.QueueName": "switchhook-repair.fifo",
    "RelayFailuresQueue.QueueName": "switchhook-relay-failures",
    "IngressLogGroup": "/aws/lambda/local-ingress",
    **{
        f"{function.capitalize()}Function": f"switchhook-{function}"
        for function in ("ingress", "consumer", "relay", "scheduler", "dialer", "reconciler", "api")
    },
}


def resolve(value):
    """Replaces references by the names of a local stack."""
    match value:
        case {"Ref": name}:
            return LOCAL.get(name, name)
        case {"Fn::GetAtt": [resource, attribute]}:
            return LOCAL.get(f"{resource}.{attribute}", resource)
        case {"Fn::Sub": [text, values]}:
            # The dashboard of a stack that has all alarms.
            values = {name: resolve(each["Fn::If"][1]) for name, each in values.items()}
            text = re.sub(r"\$\{(\w+)\}", lambda found: values.get(found[1], found[0]), text)
            return resolve({"Fn::Sub": text})
        case {"Fn::Sub": text}:
            return re.sub(r"\$\{([\w:.]+)\}", lambda found: LOCAL[found[1]], text)
        case {"Fn::If": [_, _, _]}:
            return []
        case dict():
            return {key: resolve(each) for key, each in value.items()}
        case list():
            return [resolve(each) for each in value]
    return value


def widgets(template: dict) -> list[dict]:
    """Returns the widgets of the dashboard."""
    return json.loads(resolve(template["Resources"]["StackDashboard"]["Properties"]["DashboardBody"]))["widgets"]


def queries(widget: dict) -> list[dict]:
    """Returns what a widget shows as queries of GetMetricData, with the label of each."""
    found = []
    for number, row in enumerate(widget["properties"]["metrics"]):
        *names, last = row
        options = last if isinstance(last, dict) else {}
        names = names if isinstance(last, dict) else row
        query = {"Id": options.get("id", f"m{number}"), "ReturnData": options.get("visible", True), "Label": options.get("label", "")}
        if "expression" in options:
            query["Expression"] = options["expression"]
        else:
            namespace, metric, *dimensions = names
            pairs = zip(dimensions[::2], dimensions[1::2])
            query["MetricStat"] = {
                "Metric": {"Namespace": namespace, "MetricName": metric, "Dimensions": [{"Name": name, "Value": value} for name, value in pairs]},
                "Stat": options.get("stat", widget["properties"]["stat"]),
            }
            query["Label"] = query["Label"] or metric
        found.append(query)
    return found


def metrics_shown(widget: dict) -> list[tuple]:
    """Returns namespace, name and dimensions of each metric that a widget names, also in searches."""
    found = []
    for query in queries(widget) if "metrics" in widget["properties"] else []:
        if "MetricStat" in query:
            metric = query["MetricStat"]["Metric"]
            found.append((metric["Namespace"], metric["MetricName"], {each["Name"]: each["Value"] for each in metric["Dimensions"]}))
            continue
        for schema, terms in re.findall(r"SEARCH\('\{([^}]+)\} ([^']+)'", query["Expression"]):
            namespace, *names = schema.split(",")
            values = {name: re.findall(r'"([^"]+)"', text) for name, text in re.findall(r'(\w+)=(\([^)]*\)|"[^"]*")', terms)}
            for metric in values.pop("MetricName"):
                found.append((namespace, metric, {name: values[name][0] if name in values else "" for name in names}))
    return found


# --- the data ---------------------------------------------------------------------------------------------------------


def request_of(widget: dict) -> dict:
    """Returns the request for what a widget shows."""
    asked = queries(widget) if "metrics" in widget["properties"] else []
    return {"queries": [{key: value for key, value in query.items() if key != "Label"} for query in asked]}


def ask_test(requests: list[dict]) -> dict:
    """Lets the test answer, after an hour of virtual time."""
    with tempfile.TemporaryDirectory() as folder:
        sent, answered = Path(folder) / "requests.json", Path(folder) / "answers.json"
        sent.write_text(json.dumps([{"from_ms": 0, "to_ms": 0, **each} for each in requests]))
        environment = {"SWITCHHOOK_DASHBOARD_REQUESTS": str(sent), "SWITCHHOOK_DASHBOARD_ANSWERS": str(answered)}
        command = ["cargo", "test", "--quiet", "--locked", "-p", "switchhook-tests", "--test", "it", "--", "--ignored", "data_of_the_dashboard"]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True, stdout=subprocess.DEVNULL)
        return json.loads(answered.read_text())


def series_of(widget: dict, answer: dict) -> list[dict]:
    """Returns the lines of a widget: label and points."""
    return [
        {"label": label_of(query, one), "points": [tuple(point) for point in one["points"]]}
        for query in queries(widget)
        if query["ReturnData"]
        for one in answer["results"][query["Id"]]
    ]


def label_of(query: dict, one: dict) -> str:
    """Returns the label of a line. The label of a search stands before that of each line that it finds."""
    if query["Label"] and query.get("Expression", "").startswith("SEARCH"):
        return f"{query['Label']} {one['label']}"
    return query["Label"] or one["label"]


# --- the picture ------------------------------------------------------------------------------------------------------

WIDTH, MARGIN, GAP, UNIT = 1000, 12, 10, 36
INK, MUTED, LINE, PAPER, PANEL = "#16191a", "#53595a", "#d9dcda", "#fbfbfa", "#ffffff"
OK, ALARM = "#0b6b4f", "#9b1c14"
COLOURS = ["#0a58b5", "#c2571a", "#0b6b4f", "#7a4fa3", "#946200", "#9b1c14", "#2a8ca6", "#5a6163"]
FONT = "font-family='system-ui, sans-serif'"


def text(x, y, content, size=11, fill=INK, anchor="start", weight="normal", width=None) -> str:
    if width and len(content) * size * 0.56 > width:
        content = content[: max(1, int(width / (size * 0.56)) - 1)].rstrip(" ,:(") + "…"
    return f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' fill='{fill}' text-anchor='{anchor}' font-weight='{weight}'>{escape(content)}</text>"


def number(value: float) -> str:
    """Writes a number with about three digits."""
    if value == 0:
        return "0"
    for limit, suffix in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (1e6 if suffix == 'M' else 1e3):.3g}{suffix}"
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2g}" if abs(value) < 1 else f"{value:.3g}"


def nice_top(value: float) -> float:
    """Returns the end of an axis: the next of 1, 2, 4, 5, 10, …"""
    if value <= 0:
        return 1
    power = 10 ** (len(str(int(value))) - 1) if value >= 1 else 10 ** -len(re.match(r"0\.(0*)", f"{value:.12f}")[1]) / 10
    return next(step * power for step in (1, 2, 4, 5, 8, 10) if step * power >= value * 0.999)


def line(points: list, at, colour: str, width=1.6) -> str:
    """Draws a line. Points that are more than a minute apart are not joined. A point alone becomes a dot."""
    parts, dots = [], []
    times = {time_ms for time_ms, _ in points}
    for time_ms, value in points:
        x, y = at(time_ms, value)
        if time_ms - 60_000 in times:
            parts.append(f"L{x:.1f} {y:.1f}")
        elif time_ms + 60_000 in times:
            parts.append(f"M{x:.1f} {y:.1f}")
        else:
            dots.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='2.2' fill='{colour}'/>")
    path = "".join(parts)
    drawn = f"<path d='{path}' fill='none' stroke='{colour}' stroke-width='{width}' stroke-linecap='round' stroke-linejoin='round'/>"
    return "".join([drawn if path else "", *dots])


def draw_numbers(box, series, span) -> list[str]:
    """Draws the last value of each line, with a small graph."""
    x, y, width, height = box
    step = (height - 34) / max(1, len(series))
    out = []
    for index, one in enumerate(series):
        base = y + 34 + step * (index + 0.62)
        points = one["points"]
        value = points[-1][1] if points else 0
        out.append(text(x + 12, base, one["label"], 12, MUTED, width=width * 0.5))
        out.append(text(x + width * 0.68, base, number(value), 16, INK, "end", "600"))
        if points:
            left, right, top = x + width * 0.72, x + width - 12, max(value for _, value in points) or 1
            at = lambda time_ms, value: (left + (time_ms - span[0]) / (span[1] - span[0]) * (right - left), base - value / top * min(step - 10, 16))
            out.append(line(points, at, COLOURS[0], 1.4))
    return out


def draw_graph(box, series, span, stacked) -> list[str]:
    """Draws lines, or bars that stand on each other."""
    x, y, width, height = box
    shown = [one for one in series if any(value for _, value in one["points"])]
    if not shown:
        note = "nothing happened" if series else "no data"
        return [text(x + width / 2, y + height / 2 + 8, note, 12, MUTED, "middle")]
    if stacked or len(shown) > len(COLOURS):
        shown.sort(key=lambda one: -sum(value for _, value in one["points"]))
    if len(shown) > len(COLOURS):
        rest: dict = {}
        for one in shown[len(COLOURS) - 1 :]:
            for time_ms, value in one["points"]:
                rest[time_ms] = rest.get(time_ms, 0) + value
        shown = [*shown[: len(COLOURS) - 1], {"label": f"{len(shown) - len(COLOURS) + 1} more", "points": sorted(rest.items())}]
    rows, used = [[]], 0.0
    for index, one in enumerate(shown):
        needs = len(one["label"]) * 5.6 + 22
        if used + needs > width - 20 and rows[-1]:
            rows, used = [*rows, []], 0.0
        rows[-1].append((used, COLOURS[index], one["label"]))
        used += needs
    left, right, top, bottom = x + 42, x + width - 12, y + 36, y + height - 22 - 14 * len(rows)
    if stacked:
        totals: dict = {}
        for one in shown:
            for time_ms, value in one["points"]:
                totals[time_ms] = totals.get(time_ms, 0) + value
        end = nice_top(max(totals.values()))
    else:
        end = nice_top(max(value for one in shown for _, value in one["points"]))
    place = lambda time_ms: left + (time_ms - span[0]) / (span[1] - span[0]) * (right - left)
    height_of = lambda value: value / end * (bottom - top)
    out = []
    for part in (0, 0.5, 1):
        level = bottom - part * (bottom - top)
        out.append(f"<line x1='{left}' x2='{right}' y1='{level:.1f}' y2='{level:.1f}' stroke='{LINE}'/>")
        out.append(text(left - 6, level + 4, number(end * part), 10, MUTED, "end"))
    minutes = round((span[1] - span[0]) / 60_000)
    for part, anchor in ((0, "start"), (0.5, "middle"), (1, "end")):
        label = "now" if part == 1 else f"-{round(minutes * (1 - part))} min"
        out.append(text(left + part * (right - left), bottom + 13, label, 10, MUTED, anchor))
    if stacked:
        bar = max(1.0, (right - left) / minutes - 1)
        floors: dict = {}
        for index, one in enumerate(shown):
            for time_ms, value in one["points"]:
                floor = floors.get(time_ms, 0)
                floors[time_ms] = floor + value
                out.append(
                    f"<rect x='{place(time_ms):.1f}' y='{bottom - height_of(floor + value):.1f}' width='{bar:.1f}' "
                    f"height='{height_of(value):.1f}' fill='{COLOURS[index]}'/>"
                )
    else:
        for index, one in enumerate(shown):
            out.append(line(one["points"], lambda time_ms, value: (place(time_ms), bottom - height_of(value)), COLOURS[index]))
    for number_of_row, row in enumerate(rows):
        base = bottom + 28 + 14 * number_of_row
        for offset, colour, label in row:
            out.append(f"<rect x='{x + 12 + offset:.1f}' y='{base - 8:.1f}' width='9' height='9' rx='2' fill='{colour}'/>")
            out.append(text(x + 25 + offset, base, label, 10.5, INK, width=width - 40))
    return out


def draw_alarms(box, states: dict) -> list[str]:
    """Draws each alarm with its state."""
    x, y, width, height = box
    columns = 5
    rows = -(-len(states) // columns)
    step = (height - 38) / max(1, rows)
    out = []
    for index, (name, is_alarm) in enumerate(states.items()):
        column, row = divmod(index, rows)
        left, base = x + 12 + column * (width - 24) / columns, y + 36 + (row + 0.6) * step
        colour = ALARM if is_alarm else OK
        mark = f"<path d='M{left} {base}l5 -9l5 9z' fill='{colour}'/>" if is_alarm else f"<circle cx='{left + 5:.1f}' cy='{base - 4:.1f}' r='4' fill='{colour}'/>"
        out += [mark, text(left + 15, base, name, 11.5, INK if not is_alarm else ALARM, width=(width - 24) / columns - 22, weight="600" if is_alarm else "normal")]
    return out


def picture(found: list[dict], answers: list[dict], span: tuple[int, int]) -> str:
    column = (WIDTH - 2 * MARGIN + GAP) / 24
    bottom = max(each["y"] + each["height"] for each in found)
    height = 40 + bottom * UNIT + MARGIN
    times = answers[-1]["alarms"]
    # The state at the end of the picture.
    states = {name.partition("-")[2]: bool(at and at[-1] >= span[1] - 120_000) for name, at in times.items()}
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' width='{WIDTH}' height='{height}' {FONT}>",
        "<title>The dashboard of a stack</title>",
        f"<rect width='{WIDTH}' height='{height}' fill='{PAPER}'/>",
        text(MARGIN, 27, "Switchhook", 17, INK, weight="600"),
        text(WIDTH - MARGIN, 27, f"a local stack, the last {round((span[1] - span[0]) / 60_000)} minutes, one value per minute", 12, MUTED, "end"),
    ]
    for widget, answer in zip(found, answers):
        properties = widget["properties"]
        box = (MARGIN + widget["x"] * column, 40 + widget["y"] * UNIT, widget["width"] * column - GAP, widget["height"] * UNIT - GAP)
        x, y, width, tall = box
        out.append(f"<rect x='{x:.1f}' y='{y}' width='{width:.1f}' height='{tall}' rx='4' fill='{PANEL}' stroke='{LINE}'/>")
        out.append(text(x + 12, y + 22, properties["title"], 13.5, INK, weight="600", width=width - 24))
        if widget["type"] == "alarm":
            out += draw_alarms(box, states)
        elif widget["type"] == "log":
            out.append(text(x + width / 2, y + tall / 2 + 8, "a query of the log", 12, MUTED, "middle"))
        elif properties["view"] == "singleValue":
            out += draw_numbers(box, series_of(widget, answer), span)
        else:
            out += draw_graph(box, series_of(widget, answer), span, properties.get("stacked", False))
    return "\n".join([*out, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path, help="file for the picture")
    arguments = parser.parse_args()
    from expand_template import expand

    template = expand(ROOT / "template.yaml")
    found = widgets(template)
    alarms = [resolve(each["Properties"]) for each in template["Resources"].values() if each["Type"] == "AWS::CloudWatch::Alarm"]
    requests = [*(request_of(each) for each in found), {"alarms": alarms}]
    data = ask_test(requests)
    arguments.picture.parent.mkdir(parents=True, exist_ok=True)
    arguments.picture.write_text(picture(found, data["answers"], data["span"]))


if __name__ == "__main__":
    main()
