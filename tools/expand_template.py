"""Prints template.yaml after the SAM transform, as CloudFormation sees it, for cfn-lint.

cfn-lint misses mistakes in raw SAM. For example, it accepts an unknown runtime of a serverless function there, and reports it here.
"""

import json
import logging
import os
import sys
from pathlib import Path

os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")  # required by the translator; the template does not depend on it

from samcli.yamlhelper import yaml_parse
from samtranslator.translator.transform import transform

logging.getLogger("samtranslator").setLevel(logging.ERROR)  # it warns of features that only AWS itself can turn on


class NoManagedPolicies:
    """Empty set of managed policies: if the template names one, the translator fails instead of asking AWS."""

    def load(self):
        return {}


def expand(path: Path, parameters: dict[str, str] | None = None) -> dict:
    """Returns the template after the transform, which has these values of parameters, or else their defaults."""
    template = yaml_parse(path.read_text())
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            # The translator refuses a local folder. `sam package` replaces it with a bucket as well.
            resource["Properties"]["CodeUri"] = {"Bucket": "code", "Key": "code.zip"}
        if resource["Type"] == "AWS::CloudFormation::Stack":
            resource["Properties"]["TemplateURL"] = "https://code.s3.amazonaws.com/nested.yaml"
    template.get("Globals", {}).get("Function", {}).pop("CodeUri", None)
    return transform(template, dict(parameters or {}), NoManagedPolicies())


if __name__ == "__main__":
    given = dict(argument.split("=", 1) for argument in sys.argv[2:])
    json.dump(expand(Path(sys.argv[1]), given), sys.stdout, indent=1)
