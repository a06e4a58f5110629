"""Prints the environment variables of a deployed stack's functions, in the format of `sam local --env-vars`.

`sam local` gives a function the names that resources have in the template. The functions of the stack have their real names:

    .venv/bin/python tools/sam_local_env.py switchhook-local > .aws-sam/env.json

Region, credentials and AWS_ENDPOINT_URL are those of the AWS CLI.
"""

import argparse
import json

import boto3


def environments(stack: str) -> dict[str, dict[str, str]]:
    """Returns the variables of each function, by its name in the template."""
    pages = boto3.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack)
    resources = [resource for page in pages for resource in page["StackResourceSummaries"]]
    functions = {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in resources if each["ResourceType"] == "AWS::Lambda::Function"}
    client = boto3.client("lambda")
    return {
        name: client.get_function_configuration(FunctionName=physical).get("Environment", {}).get("Variables", {})
        for name, physical in sorted(functions.items())
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("stack", help="name of the stack")
    parser.add_argument("--endpoint", metavar="URL", help="URL of the local AWS endpoint, if containers need another one than the stack's functions")
    arguments = parser.parse_args()
    found = environments(arguments.stack)
    if arguments.endpoint:
        found = {name: variables | {"AWS_ENDPOINT_URL": arguments.endpoint} for name, variables in found.items()}
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
