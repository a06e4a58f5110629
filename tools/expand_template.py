"""Prints template.yaml as CloudFormation will see it, so that cfn-lint sees what the SAM transform makes of it.

Raw SAM hides mistakes from the linter: an unknown runtime inside a serverless function passes there and fails here.
"""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")  # the translator asks for one; the template does not depend on it

from samcli.yamlhelper import yaml_parse
from samtranslator.translator.transform import transform


class NoManagedPolicies:
    """The template names no managed policy; if it ever does, the translator fails here instead of asking AWS."""

    def load(self):
        return {}


def expand(path: Path) -> dict:
    template = yaml_parse(path.read_text())
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            # `sam package` puts a bucket here; the translator refuses a local folder.
            resource["Properties"]["CodeUri"] = {"Bucket": "code", "Key": "code.zip"}
    template.get("Globals", {}).get("Function", {}).pop("CodeUri", None)
    return transform(template, {}, NoManagedPolicies())


if __name__ == "__main__":
    json.dump(expand(Path(sys.argv[1])), sys.stdout, indent=1)
