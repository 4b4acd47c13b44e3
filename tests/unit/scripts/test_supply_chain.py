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


ANSWER = json.dumps(
    {
        "info": {},
        "vulnerabilities": [
            {
                "id": "PYSEC-2021-108",
                "aliases": ["CVE-2021-33503"],
                "summary": None,
                "details": "a URL\n with many @",
                "fixed_in": ["1.26.5"],
                "link": "https://osv.dev/vulnerability/PYSEC-2021-108",
                "withdrawn": None,
            },
            {"id": "PYSEC-2020-1", "withdrawn": "2021-01-01T00:00:00Z"},
        ],
    }
)


def test_what_pypi_tells_of_a_version_affects_that_version() -> None:
    (advisory,) = audit.read_answer(ANSWER, "urllib3", "1.26.4")
    assert (advisory.id, advisory.aliases) == ("PYSEC-2021-108", ("CVE-2021-33503",))
    assert advisory.summary == "a URL with many @; fixed in 1.26.5"
    assert advisory.affects("1.26.4")
    assert not advisory.affects("1.26.5")


@pytest.mark.parametrize("text", ["", "[]", "{}", "<html>", '{"vulnerabilities": [7]}', "null"])
def test_an_answer_of_something_else_than_pypi_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        audit.read_answer(text, "x", "1")


def test_what_is_accepted_here_is_so_under_its_other_names() -> None:
    kept = audit.Advisory("URLlib3", "CVE-2021-33503", ("<2",), "s", "https://x", "why")
    told = audit.read_answer(ANSWER, "urllib3", "1.26.4")
    assert audit.merged([kept], told) == [kept]
    assert audit.merged([], [*told, *told]) == told
    other = audit.Advisory("other", "CVE-2021-33503", ("<2",), "s", "https://x", "why")
    assert audit.merged([other], told) == [other, *told]


def test_pins_that_pypi_does_not_know_are_named_and_the_others_count() -> None:
    def ask(package: str, version: str) -> bytes:
        if package == "gone":
            raise OSError("404")
        return ANSWER.encode() if package == "urllib3" else b'{"vulnerabilities": []}'

    pins = {"ray": "2", "urllib3": "1.26.4", "gone": "1"}
    told, untold = audit.told_by_pypi(pins, ask, lambda: 0.0)
    assert [each.package for each in told] == ["urllib3"]
    assert untold == ["gone 1: 404"]


def test_a_network_without_pypi_is_asked_once() -> None:
    asked = []

    def ask(package: str, version: str) -> bytes:
        asked.append(package)
        return b"<html>sign in</html>"

    with pytest.raises(OSError, match=r"."):
        audit.told_by_pypi({"ray": "2", "urllib3": "1"}, ask, lambda: 0.0)
    assert asked == ["ray"]


def test_questions_end_with_their_time() -> None:
    times = iter([0.0, 1.0, 1000.0])
    answer = b'{"vulnerabilities": []}'
    _, untold = audit.told_by_pypi(
        {"ray": "2", "urllib3": "1"}, lambda *_: answer, lambda: next(times)
    )
    assert len(untold) == 1
    assert "not asked" in untold[0]


@pytest.mark.parametrize(
    ("distribution", "needed"),
    [
        ("manta-serve", {"ray", "numpy", "msgspec", "uvloop", "httptools"}),
        ("manta-tools", {"manta-serve", "ray", "numpy"}),
    ],
)
def test_a_bill_names_all_that_is_needed_and_nothing_twice(
    distribution: str, needed: set[str]
) -> None:
    document = sbom.make_sbom(distribution, ["cpu"])
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    names = [each["name"].lower() for each in document["components"]]
    assert needed <= set(names)
    references = {each["bom-ref"] for each in document["components"]}
    assert len(references) == len(names)
    own = document["metadata"]["component"]
    assert own["name"] == distribution
    for row in document["dependencies"]:
        assert row["ref"] in references | {own["bom-ref"]}
        assert references >= set(row["dependsOn"])


def test_the_bill_is_the_same_every_time() -> None:
    assert json.dumps(sbom.make_sbom("manta-serve", ["cpu"])) == json.dumps(
        sbom.make_sbom("manta-serve", ["cpu"])
    )
