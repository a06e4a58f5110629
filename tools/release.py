"""Fills dist/ with a release that `sam deploy` can deploy without Rust. `make release` compiles the binaries and then runs this program.

    python tools/release.py [--compiled COMPILED] [--dist DIST]

COMPILED has a folder per architecture, as cargo-lambda fills it: NAME/bootstrap for each binary. Two runs over the same binaries and
sources write the same bytes: the archives have fixed times and modes.
"""

import argparse
import copy
import hashlib
import os
import shutil
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import tomlkit
from samcli.lib.utils.resources import NESTED_STACKS_RESOURCES, RESOURCES_WITH_LOCAL_PATHS
from samcli.yamlhelper import yaml_dump, yaml_parse

import sbom

ROOT = Path(__file__).resolve().parents[1]
TOOL = "switchhook"
README = """# Switchhook {version}

    sha256sum --check --quiet SHA256SUMS
    cd switchhook-{version}-arm64             # or switchhook-{version}-x86_64
    sam deploy

`docs/deploy.md` in the sources of this version explains every step and every file. You need the SAM CLI, credentials and a region.
"""


@dataclass(frozen=True)
class Architecture:
    """An instruction set: its name for Lambda, its target for Cargo, and its number in the header of an ELF file."""

    name: str
    triple: str
    elf_machine: int


ARCHITECTURES = [Architecture("arm64", "aarch64-unknown-linux-gnu", 0xB7), Architecture("x86_64", "x86_64-unknown-linux-gnu", 0x3E)]


def workspace_version() -> str:
    """Returns the one version of the functions, the tool and the release."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def binary_of(compiled: Path, name: str, architecture: Architecture) -> Path:
    """Returns the path of a compiled binary. Fails unless it is a 64-bit ELF file for the architecture."""
    binary = compiled / architecture.name / name / "bootstrap"
    if not binary.is_file():
        raise SystemExit(f"{binary} is missing: make release compiles it.")
    header = binary.open("rb").read(20)
    if header[:5] != b"\x7fELF\x02" or int.from_bytes(header[18:20], "little") != architecture.elf_machine:
        raise SystemExit(f"{binary} is not a binary for {architecture.name}.")
    return binary


def write_archive(path: Path, binary: Path):
    """Writes the code archive of a function. Its bytes depend on the binary alone."""
    entry = zipfile.ZipInfo("bootstrap", date_time=(1980, 1, 1, 0, 0, 0))
    entry.create_system = 3  # Unix, so that the mode counts
    entry.external_attr = 0o100755 << 16
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(entry, binary.read_bytes(), compress_type=zipfile.ZIP_DEFLATED, compresslevel=9)


class Stack:
    """The folder of one architecture in dist/, which holds everything that its stack needs."""

    def __init__(self, folder: Path, version: str, architecture: Architecture, compiled: Path):
        self.folder = folder
        self.version = version
        self.architecture = architecture
        self.compiled = compiled

    def package(self, template: Path):
        """Packages the template of the stack, every template that it nests or that stands in infra/, and the configuration of SAM."""
        self.package_template(template, Path("template.yaml"), is_root=True)
        for path in sorted((template.parent / "infra").glob("*.yaml")):
            target = path.relative_to(template.parent)
            if "Resources" in yaml_parse(path.read_text()) and not (self.folder / target).exists():
                self.package_template(path, target)
        self.package_configuration(template.parent / "samconfig.toml")

    def package_configuration(self, source: Path):
        """Writes the configuration of SAM: the environments of the sources, for templates that are built already."""
        configuration = tomllib.loads(source.read_text())
        for environment in configuration.values():
            if not isinstance(environment, dict):
                continue  # the version of the format
            for command in ("build", "validate"):
                environment.pop(command, None)
            environment.setdefault("deploy", {}).setdefault("parameters", {})["template_file"] = "template.yaml"
            settings = environment.setdefault("global", {}).setdefault("parameters", {})
            others = [each for each in settings.get("parameter_overrides", []) if not each.startswith("Architecture=")]
            settings["parameter_overrides"] = [f"Architecture={self.architecture.name}", *others]
        (self.folder / "samconfig.toml").write_text(f"# {self.origin(source)}\n{tomlkit.dumps(configuration)}")

    def origin(self, source: Path) -> str:
        return f"Switchhook {self.version} for {self.architecture.name}. The comments are in {source.name} of its sources."

    def package_template(self, source: Path, target: Path, is_root: bool = False):
        """Writes a template that refers to nothing outside the folder. `target` is its path in the folder."""
        text = source.read_text()
        original = yaml_parse(text)
        template = copy.deepcopy(original)
        template.get("Globals", {}).get("Function", {}).pop("CodeUri", None)
        if is_root:
            # A stack keeps its parameters. If nobody sets this one anew, a stack of the other architecture is refused, and not broken.
            template["Parameters"]["Architecture"].update(Default=self.architecture.name, AllowedValues=[self.architecture.name])
        for name, resource in template["Resources"].items():
            self.package_resource(f"{name} in {source.name}", resource, source.parent, target.parent)
        path = self.folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        if template != original:
            text = f"# {self.origin(source)}\n{yaml_dump(template)}"
        path.write_text(text)

    def package_resource(self, name: str, resource: dict, source_folder: Path, target_folder: Path):
        kind, properties = resource["Type"], resource.get("Properties", {})
        if kind == "AWS::Serverless::Function" and "InlineCode" not in properties:
            metadata = resource.get("Metadata", {})
            metadata.pop("BuildMethod", None)
            binary = metadata.pop("BuildProperties", {}).get("Binary")
            if binary is None:
                raise SystemExit(f"{name} names no binary in BuildProperties.")
            if not metadata:
                resource.pop("Metadata", None)
            properties["CodeUri"] = os.path.relpath(self.package_function(binary), target_folder)
        elif kind in NESTED_STACKS_RESOURCES:
            location = properties[NESTED_STACKS_RESOURCES[kind]]
            self.package_template(source_folder / location, Path(os.path.normpath(target_folder / location)))
        elif any(isinstance(properties.get(each), str) for each in RESOURCES_WITH_LOCAL_PATHS.get(kind, [])):
            raise SystemExit(f"{name} refers to a file, and a release contains only functions and templates.")

    def package_function(self, name: str) -> Path:
        """Writes the archive of a function. Returns its path in the folder."""
        archive = Path("functions") / f"{name}-{self.version}-{self.architecture.name}.zip"
        write_archive(self.folder / archive, binary_of(self.compiled, name, self.architecture))
        return archive


def package(dist: Path, compiled: Path, template: Path = ROOT / "template.yaml"):
    """Writes the folders of all architectures, and the tool."""
    version = workspace_version()
    shutil.rmtree(dist, ignore_errors=True)
    for architecture in ARCHITECTURES:
        Stack(dist / f"switchhook-{version}-{architecture.name}", version, architecture, compiled).package(template)
        tool = dist / f"switchhook-{version}-linux-{architecture.name}"
        shutil.copyfile(binary_of(compiled, TOOL, architecture), tool)
        tool.chmod(0o755)
    (dist / "README.md").write_text(README.format(version=version))
    for licence in sorted(ROOT.glob("LICENSE-*")):
        shutil.copyfile(licence, dist / licence.name)


def write_checksums(dist: Path):
    """Writes SHA256SUMS, which `sha256sum --check` reads."""
    files = sorted(path.relative_to(dist).as_posix() for path in dist.rglob("*") if path.is_file())
    lines = [f"{hashlib.sha256((dist / file).read_bytes()).hexdigest()}  {file}\n" for file in files]
    (dist / "SHA256SUMS").write_text("".join(lines))


def main():
    parser = argparse.ArgumentParser(description="Fills dist/ with a release.")
    parser.add_argument("--compiled", type=Path, default=ROOT / ".make" / "release", help="the folder of the compiled binaries")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the folder to fill; it is emptied first")
    options = parser.parse_args()
    package(options.dist, options.compiled)
    version = workspace_version()
    bill = sbom.bill_of_materials(version, [each.triple for each in ARCHITECTURES])
    sbom.write_bill(bill, options.dist / f"switchhook-{version}.cdx.json")
    sbom.write_licences(bill, options.dist / "THIRD-PARTY-LICENSES.txt")
    write_checksums(options.dist)
    for path in sorted(options.dist.rglob("*")):
        if path.is_file():
            print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.relative_to(options.dist)}")


if __name__ == "__main__":
    main()
