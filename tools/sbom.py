"""The software bill of materials of a release in the format CycloneDX, and the licences of everything in it.

cargo-cyclonedx writes one bill per package and platform. A release has one, which is their union.
"""

import json
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Name that cargo-cyclonedx gives to the bill in each package's folder.
FILE_NAME = "release-bill"
LICENCE_FILE = re.compile(r"(licen[cs]e|unlicense|copying|copyright|notice)", re.IGNORECASE)


def cargo(*arguments: str) -> str:
    return subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def packages(*options: str) -> list[dict]:
    return json.loads(cargo("metadata", "--locked", "--format-version", "1", *options))["packages"]


def commit_time() -> str:
    """Returns the time of the commit in seconds, so that a bill of the same sources has the same time."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return given
    found = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "0"


def single_bills(triple: str) -> list[dict]:
    """Returns the bills of all packages that have a binary, for one platform."""
    # The program itself, because `cargo` finds it only on the search path.
    command = [os.environ.get("CARGO_CYCLONEDX", "cargo-cyclonedx"), "cyclonedx", "-qq", "--format", "json", "--spec-version", "1.5"]
    command += ["--no-build-deps", "--target", triple, "--override-filename", FILE_NAME]
    members = packages("--no-deps")
    files = {member["id"]: Path(member["manifest_path"]).parent / f"{FILE_NAME}.json" for member in members}
    try:
        subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"SOURCE_DATE_EPOCH": commit_time()})
        released = [member["id"] for member in members if any("bin" in target["kind"] for target in member["targets"])]
        # The bill would tell in which folder it was made.
        return [json.loads(files[each].read_text().replace(f"file://{ROOT}", "file:///switchhook")) for each in released]
    finally:
        for file in files.values():
            file.unlink(missing_ok=True)


def union(version: str, bills: list[dict]) -> dict:
    """Returns one bill with the components and the dependencies of all."""
    components, depends_on = {}, {"switchhook": set()}
    for bill in bills:
        released = bill["metadata"]["component"]
        # Its libraries and binaries, which the bill describes besides the package.
        released.pop("components", None)
        depends_on["switchhook"].add(released["bom-ref"])
        for component in [released, *bill.get("components", [])]:
            components.setdefault(component["bom-ref"], component)
        for dependency in bill.get("dependencies", []):
            depends_on.setdefault(dependency["ref"], set()).update(dependency.get("dependsOn", []))
    metadata = {key: value for key, value in bills[0]["metadata"].items() if key in ("timestamp", "tools")}
    metadata["component"] = {"type": "application", "bom-ref": "switchhook", "name": "switchhook", "version": version}
    return {key: bills[0][key] for key in ("bomFormat", "specVersion", "version")} | {
        "metadata": metadata,
        "components": [components[each] for each in sorted(components)],
        "dependencies": [{"ref": each, "dependsOn": sorted(depends_on[each])} for each in sorted(depends_on)],
    }


def bill_of_materials(version: str, triples: list[str]) -> dict:
    return union(version, [bill for triple in triples for bill in single_bills(triple)])


def write_bill(bill: dict, path: Path):
    path.write_text(json.dumps(bill, indent=1) + "\n")


def write_licences(bill: dict, path: Path):
    """Writes the text of every licence once, below the names of the packages that have it."""
    found = {package["id"]: package for package in packages()}
    names_of_text = {}
    for component in bill["components"]:
        package = found.get(component["bom-ref"])
        if package is None or package["source"] is None:
            continue  # a package of this workspace
        name = f"{package['name']} {package['version']} ({package['license'] or 'see the text'})"
        files = [each for each in Path(package["manifest_path"]).parent.iterdir() if each.is_file() and LICENCE_FILE.match(each.name)]
        texts = [file.read_text(errors="replace").strip() for file in sorted(files)] or ["The package contains no text of its licence."]
        for text in texts:
            names_of_text.setdefault(text, []).append(name)
    sections = ["\n".join([*sorted(set(names)), "", text]) for text, names in sorted(names_of_text.items(), key=lambda each: min(each[1]))]
    rule = "\n\n" + "-" * 100 + "\n\n"
    introduction = "The released binaries contain the packages below. Each has the licence that follows its name."
    path.write_text(rule.join([introduction, *sections]) + "\n")
