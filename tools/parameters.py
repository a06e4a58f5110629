"""Prints the parameters of an environment of samconfig.toml for --parameter-overrides, with others over them.

    python tools/parameters.py prod Architecture=x86_64 ConsumerMaxConcurrency=100

An option on the command line replaces the list in samconfig.toml. So `make deploy` gives `sam build` and `sam deploy` the whole list.
"""

import re
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import available_timezones

CONFIG = Path(__file__).resolve().parents[1] / "samconfig.toml"
# NAME=VALUE, or NAME="VALUE WITH SPACES".
PAIR = re.compile(r'(\w+)=("[^"]*"|\S*)')
# The slowest `Deployment` shifts the functions for 100 minutes.
SHARDS_AHEAD_MIN = timedelta(hours=2)


def parameters(environment: str, others: list[str]) -> dict[str, str]:
    """Returns the value of each parameter, as SAM reads it: an empty one is `""`. Raises SystemExit if the environment or a time zone is unknown."""
    config = tomllib.loads(CONFIG.read_text())
    environments = [name for name, of in config.items() if isinstance(of, dict)]
    if environment not in environments:
        raise SystemExit(f"samconfig.toml has no environment {environment}, only {', '.join(environments)}.")
    given = [*config[environment]["global"]["parameters"]["parameter_overrides"], *others]
    for text in given:
        if PAIR.sub("", text).strip():
            raise SystemExit(f'{text} is not NAME=VALUE. A value with spaces needs double quotes: NAME="VALUE".')
    # SAM leaves out a name with nothing behind the `=`, and CloudFormation then keeps the value of the deployment before.
    values = {name: value or '""' for text in given for name, value in PAIR.findall(text)}
    # No pattern of the template knows the time zones. This machine may know none either, and the functions read any case.
    zone, known = values.get("CallingWindow", "").strip('"').partition(" ")[0], {name.lower() for name in available_timezones()}
    if zone and known and zone.lower() not in known:
        raise SystemExit(
            f"CallingWindow: this machine knows no time zone {zone}. Name one of the IANA database, such as Europe/London. "
            "For an old name such as US/Eastern it may need the package tzdata-legacy."
        )
    return values


def refuse_early_shards(others: list[str], now: datetime) -> None:
    """Raises SystemExit if the deployment may not have ended at the time in `IndexShards`: old functions would not see what new ones file.

    A value in samconfig.toml may be an old one, whose time has passed.
    """
    earliest = f"{now + SHARDS_AHEAD_MIN:%Y-%m-%dT%H:%M:%SZ}"
    for shards in (value for text in others for name, value in PAIR.findall(text) if name == "IndexShards"):
        time = shards.strip('"').partition(",")[2].partition("=")[0]
        if time and time < earliest:
            raise SystemExit(
                f"IndexShards: {time} is not two hours ahead, so the deployment may not have ended by then. Choose {earliest} or later. "
                "If the stack is new or has this value already, write it into parameter_overrides of samconfig.toml instead."
            )


def overrides(environment: str, others: list[str]) -> str:
    """Returns the text for --parameter-overrides."""
    return " ".join(f"{name}={value}" for name, value in parameters(environment, others).items())


if __name__ == "__main__":
    refuse_early_shards(sys.argv[2:], datetime.now(UTC))
    print(overrides(sys.argv[1], sys.argv[2:]))
