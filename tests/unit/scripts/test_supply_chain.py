# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The audit of pins and the bill of materials."""

import importlib.util
import json
from types import ModuleType

import pytest

from tests.support.server import ROOT


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"scripts/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


audit = load("audit_pins")
sbom = load("make_sbom")


def test_every_pin_is_exact() -> None:
    pins, wrong = audit.read_pins((ROOT / "constraints.txt").read_text())
    assert wrong == []
    assert len(pins) > 50


def test_no_pin_and_nothing_installed_is_known_to_be_vulnerable() -> None:
    _, advisories = audit.read_advisories(audit.ADVISORIES.read_text())
    pins, _ = audit.read_pins((ROOT / "constraints.txt").read_text())
    for versions in (pins, audit.installed()):
        found = [each.id for each, _ in audit.affected(versions, advisories) if not each.accepted]
        assert found == []


@pytest.mark.parametrize(
    "line", ["ray>=2", "ray", "ray==2.*,<3", "ray===x y", "git+https://x/y", "-r other.txt"]
)
def test_what_pins_no_one_version_is_told(line: str) -> None:
    assert audit.read_pins(f"a==1\n{line}\n") == ({"a": "1"}, [line])


def test_a_package_is_pinned_once_whatever_it_is_spelled_like() -> None:
    assert audit.read_pins("ml_dtypes==1 # why\nml-dtypes==2\n") == (
        {"ml-dtypes": "1"}, ["ml-dtypes==2"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("version", "is_affected"),
    [("1.9", True), ("2.0", False), ("2.1rc1", True), ("2.1", False), ("no version", True)],
)
def test_a_version_in_any_of_the_ranges_is_affected(version: str, is_affected: bool) -> None:
    advisory = audit.Advisory("x", "CVE-1", ("<2.0", "==2.1rc1"), "it breaks", "https://x")
    found = list(audit.affected({"x": version}, [advisory]))
    assert bool(found) is is_affected


def test_every_advisory_has_ranges_and_a_source() -> None:
    _, advisories = audit.read_advisories(audit.ADVISORIES.read_text())
    for each in advisories:
        assert each.affected
        assert each.summary
        assert each.source.startswith("https://")


def test_the_bill_names_all_that_is_needed_and_nothing_twice() -> None:
    document = sbom.make_sbom(["cpu"])
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    names = [each["name"].lower() for each in document["components"]]
    assert {"ray", "numpy", "msgspec", "uvloop", "httptools"} <= set(names)
    references = {each["bom-ref"] for each in document["components"]}
    assert len(references) == len(names)
    own = document["metadata"]["component"]
    assert own["name"] == "manta-serve"
    for row in document["dependencies"]:
        assert row["ref"] in references | {own["bom-ref"]}
        assert references >= set(row["dependsOn"])


def test_the_bill_is_the_same_every_time() -> None:
    assert json.dumps(sbom.make_sbom(["cpu"])) == json.dumps(sbom.make_sbom(["cpu"]))
