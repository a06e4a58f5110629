"""Prints the parameters of an environment of samconfig.toml for --parameter-overrides, with others over them.

    python tools/parameters.py prod Architecture=x86_64 ConsumerMaxConcurrency=100

An option on the command line replaces the list in samconfig.toml. So `make deploy` gives `sam build` and `sam deploy` the whole list.
"""

import re
import sys
import tomllib
from pathlib import Path

CONFIG = Path(__file__).resolve().parents[1] / "samconfig.toml"
# NAME=VALUE, or NAME="VALUE WITH SPACES".
PAIR = re.compile(r'(\w+)=("[^"]*"|\S*)')


def parameters(environment: str, others: list[str]) -> dict[str, str]:
    """Returns the value of each parameter. Raises SystemExit if the environment is unknown."""
    config = tomllib.loads(CONFIG.read_text())
    environments = [name for name, of in config.items() if isinstance(of, dict)]
    if environment not in environments:
        raise SystemExit(f"samconfig.toml has no environment {environment}, only {', '.join(environments)}.")
    given = [*config[environment]["global"]["parameters"]["parameter_overrides"], *others]
    for text in given:
        if PAIR.sub("", text).strip():
            raise SystemExit(f'{text} is not NAME=VALUE. A value with spaces needs double quotes: NAME="VALUE".')
    return {name: value for text in given for name, value in PAIR.findall(text)}


if __name__ == "__main__":
    print(" ".join(f"{name}={value}" for name, value in parameters(sys.argv[1], sys.argv[2:]).items()))
