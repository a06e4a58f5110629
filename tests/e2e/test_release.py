"""Tests of the program that fills dist/ (tools/release.py), with stand-ins for the compiled binaries."""

import hashlib
import re
import tomllib
import zipfile

import pytest
from samcli.yamlhelper import yaml_parse

import release
import sbom
from harness import FUNCTIONS, ROOT, VERSION

NESTING = """
Parameters: {Architecture: {Type: String, Default: arm64}}
Resources:
  Nested: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: parts/nested.yaml}}
"""
NESTED = """
Resources:
  ApiFunction:
    Type: AWS::Serverless::Function
    Metadata: {BuildMethod: rust-cargolambda, BuildProperties: {Binary: api}, Note: stays}
    Properties: {CodeUri: .., Handler: bootstrap}
"""
BESIDE = """
# A stack of its own.
Resources: {Bus: {Type: AWS::Events::EventBus, Properties: {Name: bus}}}
"""


def binary(name: str, machine: int) -> bytes:
    """Returns the header of an ELF file for a machine, and enough text to be worth a compression."""
    return b"\x7fELF\x02" + bytes(13) + machine.to_bytes(2, "little") + name.encode() * 1000


@pytest.fixture
def compiled(tmp_path):
    """The folder of the compiled binaries."""
    folder = tmp_path / "compiled"
    for architecture in release.ARCHITECTURES:
        for name in [*FUNCTIONS, release.TOOL]:
            path = folder / architecture.name / name / "bootstrap"
            path.parent.mkdir(parents=True)
            path.write_bytes(binary(name, architecture.elf_machine))
    return folder


def contents(folder) -> dict:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_two_runs_write_the_same_bytes(compiled, tmp_path):
    written = []
    for name in ("first", "second"):
        release.package(tmp_path / name, compiled)
        release.write_checksums(tmp_path / name)
        written.append(contents(tmp_path / name))
        for path in compiled.rglob("*"):
            path.touch()  # the next run sees other times
    assert written[0] == written[1]
    sums = dict(reversed(line.split("  ", 1)) for line in written[0].pop("SHA256SUMS").decode().splitlines())
    assert sums == {name: hashlib.sha256(content).hexdigest() for name, content in written[0].items()}


def test_each_architecture_has_a_folder_that_needs_nothing_else(compiled, tmp_path):
    dist = tmp_path / "dist"
    release.package(dist, compiled)
    for architecture in release.ARCHITECTURES:
        folder = dist / f"switchhook-{VERSION}-{architecture.name}"
        template = yaml_parse((folder / "template.yaml").read_text())
        parameter = template["Parameters"]["Architecture"]
        assert (parameter["Default"], parameter["AllowedValues"]) == (architecture.name, [architecture.name])
        functions = {name: each for name, each in template["Resources"].items() if each["Type"] == "AWS::Serverless::Function"}
        assert {f"{function.capitalize()}Function" for function in FUNCTIONS} <= functions.keys()
        for name, function in functions.items():
            assert "Metadata" not in function, f"{name}: sam build would compile it again"
            with zipfile.ZipFile(folder / function["Properties"]["CodeUri"]) as archive:
                (entry,) = archive.infolist()
                assert (entry.filename, entry.external_attr >> 16) == ("bootstrap", 0o100755)
                assert archive.read(entry) == binary(name.removesuffix("Function").lower(), architecture.elf_machine)
        # Everything else is as it was.
        source = yaml_parse((ROOT / "template.yaml").read_text())
        for each in (source, template):
            del each["Parameters"]["Architecture"]
            each["Globals"]["Function"].pop("CodeUri", None)
            for name in functions:
                each["Resources"][name].pop("Metadata", None)
                each["Resources"][name]["Properties"].pop("CodeUri", None)
        assert template == source
        for name in ("edge.yaml", "forward.yaml"):
            assert (folder / "infra" / name).read_bytes() == (ROOT / "infra" / name).read_bytes()
        configuration = tomllib.loads((folder / "samconfig.toml").read_text())
        assert configuration.keys() == tomllib.loads((ROOT / "samconfig.toml").read_text()).keys()
        environments = [each for each in configuration.values() if isinstance(each, dict)]
        assert environments
        for environment in environments:
            assert environment["deploy"]["parameters"]["template_file"] == "template.yaml"
            overrides = environment["global"]["parameters"]["parameter_overrides"]
            assert [each for each in overrides if each.startswith("Architecture=")] == [f"Architecture={architecture.name}"]
        tool = dist / f"switchhook-{VERSION}-linux-{architecture.name}"
        assert tool.stat().st_mode & 0o777 == 0o755


def test_nested_templates_are_packaged_with_their_functions_and_others_are_copied(compiled, tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "template.yaml").write_text(NESTING)
    (tmp_path / "parts" / "nested.yaml").write_text(NESTED)
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra" / "beside.yaml").write_text(BESIDE)
    (tmp_path / "infra" / "other.yaml").write_text("openapi: 3.1.0\n")
    (tmp_path / "samconfig.toml").write_text("version = 0.1\n")
    release.package(tmp_path / "dist", compiled, tmp_path / "template.yaml")
    folder = tmp_path / "dist" / f"switchhook-{VERSION}-x86_64"
    assert (folder / "infra" / "beside.yaml").read_text() == BESIDE
    assert not (folder / "infra" / "other.yaml").exists()
    assert yaml_parse((folder / "template.yaml").read_text())["Resources"]["Nested"]["Properties"]["TemplateURL"] == "parts/nested.yaml"
    function = yaml_parse((folder / "parts" / "nested.yaml").read_text())["Resources"]["ApiFunction"]
    assert function["Metadata"] == {"Note": "stays"}
    assert (folder / "parts" / function["Properties"]["CodeUri"]).resolve() == folder / "functions" / f"api-{VERSION}-x86_64.zip"


def test_a_binary_of_the_wrong_architecture_is_refused(compiled, tmp_path):
    (compiled / "arm64" / "relay" / "bootstrap").write_bytes(binary("relay", 0x3E))
    with pytest.raises(SystemExit, match="relay/bootstrap is not a binary for arm64"):
        release.package(tmp_path / "dist", compiled)


def test_a_template_that_refers_to_another_file_is_refused(compiled, tmp_path):
    resources = "Resources: {Layer: {Type: AWS::Serverless::LayerVersion, Properties: {ContentUri: layer/}}}"
    (tmp_path / "template.yaml").write_text(f"Parameters: {{Architecture: {{Type: String}}}}\n{resources}\n")
    with pytest.raises(SystemExit, match="Layer in template.yaml refers to a file"):
        release.package(tmp_path / "dist", compiled, tmp_path / "template.yaml")


def test_the_union_of_bills_has_every_component_once():
    def single(name: str, library: str, dependency: str) -> dict:
        component = {"bom-ref": name, "name": name, "components": [{"bom-ref": f"{name} bin-target-0"}]}
        return {
            "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"timestamp": "2026-01-01T00:00:00Z", "component": component},
            "components": [{"bom-ref": library, "name": library}],
            "dependencies": [{"ref": name, "dependsOn": [library]}, {"ref": library, "dependsOn": [dependency] if dependency else []}],
        }  # fmt: skip

    bill = sbom.union("1.2.3", [single("b", "lib", "x"), single("a", "lib", ""), single("a", "lib", "y")])
    assert bill["metadata"]["component"] == {"type": "application", "bom-ref": "switchhook", "name": "switchhook", "version": "1.2.3"}
    assert bill["components"] == [{"bom-ref": "a", "name": "a"}, {"bom-ref": "b", "name": "b"}, {"bom-ref": "lib", "name": "lib"}]
    depends_on = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    assert depends_on == {"switchhook": ["a", "b"], "a": ["lib"], "b": ["lib"], "lib": ["x", "y"]}


def test_there_is_one_version():
    assert re.search(r"^  version: (.*)$", (ROOT / "infra" / "openapi.yaml").read_text(), re.MULTILINE).group(1) == VERSION
    assert release.workspace_version() == VERSION
    for member in tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]:
        package = tomllib.loads((ROOT / member / "Cargo.toml").read_text())["package"]
        assert package["version"] == {"workspace": True}, member
