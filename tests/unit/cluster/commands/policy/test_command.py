# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import io
import socket
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from cluster.cli import main as manta
from cluster.commands.policy.routes import asked_by
from deployments.access.contracts import Role
from tests.support.access import certificate, key_entry, made_key, write_policy

POLICY: dict[str, Any] = {
    "authentication": {
        "api_keys": {"keys": [key_entry("alice", groups=["ops"])]},
        "unix_peers": [{"uid": 5, "subject": "alice"}],
        "certificates": [{"san": "dns:alice.example", "subject": "alice"}],
    },
    "roles": {"user": ["infer", "metadata"]},
    "grants": [
        {"to": {"subjects": ["alice"]}, "roles": ["user"], "models": ["simple*"]},
        {"to": {"groups": ["ops"]}, "roles": ["control"], "protocols": ["grpc"]},
    ],
}
GOOD: list[dict[str, Any]] = [
    {"caller": {"subject": "alice"}, "role": "infer", "model": "simple", "expect": "allowed"},
    {"caller": {"subject": "bob"}, "role": "infer", "model": "simple", "expect": "denied"},
    {"role": "infer", "model": "simple", "expect": "unauthenticated"},
    {"route": "GET /v2/health/live", "expect": "allowed"},
    {
        "headers": {"X-API-Key": made_key("alice")},
        "route": "POST /v2/models/simple_string/versions/1/infer",
        "expect": "allowed",
    },
    {
        "headers": {"authorization": f"Bearer {made_key('alice')}"},
        "route": "RepositoryModelLoad",
        "model": "simple",
        "protocol": "grpc",
        "expect": "allowed",
    },
    {"headers": {"X-API-Key": "x"}, "route": "/v2", "expect": "unauthenticated"},
    {"unix": {"uid": 5, "gid": 5}, "route": "/v2/repository/index", "expect": "allowed"},
    {
        "certificate": "alice.pem",
        "role": "infer",
        "at": "2027-01-15T08:00:00Z",
        "expect": "allowed",
    },
    {
        "certificate": "alice.pem",
        "role": "infer",
        "at": "2027-01-16T08:00:00Z",
        "expect": "unauthenticated",
    },
]


def _files(folder: Path, cases: list[dict[str, Any]]) -> list[str]:
    der = certificate(x509.DNSName("alice.example"))
    pem = x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM)
    (folder / "alice.pem").write_bytes(pem)
    (folder / "cases.yaml").write_text(yaml.safe_dump(cases))
    return [str(write_policy(folder, POLICY)), str(folder / "cases.yaml")]


def test_cases_that_are_as_expected_exit_with_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert manta(["policy", "test", *_files(tmp_path, GOOD)]) == 0
    assert capsys.readouterr().out == f"{len(GOOD)} of {len(GOOD)} cases are as expected\n"


def test_cases_that_are_not_are_a_table_and_exit_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {**GOOD[0], "name": "alice everywhere", "model": "other"}
    assert manta(["policy", "test", *_files(tmp_path, [*GOOD, bad])]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["CASE", "EXPECTED", "GOT", "WHY"]
    assert lines[1].startswith("alice everywhere  allowed   denied")
    assert "the role 'infer' is needed" in lines[1]
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("case", "part"),
    [
        ({"role": "infer"}, "[0]: 'expect' is missing"),
        ({"role": "infer", "expect": "maybe"}, "unknown outcome 'maybe'"),
        ({"expect": "denied"}, "give 'role' or 'route'"),
        ({"route": "/v3", "expect": "denied"}, "[0].route: got '/v3'"),
        ({**GOOD[0], "unix": {"uid": 1}}, "a caller and credentials"),
    ],
)
def test_a_case_that_is_wrong_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: dict[str, Any], part: str
) -> None:
    assert manta(["policy", "test", *_files(tmp_path, [case])]) == 2
    assert part in capsys.readouterr().err


def test_check_says_what_a_policy_has_and_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(write_policy(tmp_path, POLICY))
    assert manta(["policy", "check", file]) == 0
    assert "ok, 1 API keys, 0 issuers" in capsys.readouterr().out
    expired = key_entry("old", expires="2020-01-01")
    write_policy(tmp_path, {"authentication": {"api_keys": {"keys": [expired]}}})
    assert manta(["policy", "check", file]) == 0
    assert "a key of 'old' has expired" in capsys.readouterr().err
    Path(file).write_text("grant: []")
    assert manta(["policy", "check", file]) == 2
    assert "did you mean 'grants'?" in capsys.readouterr().err
    assert manta(["policy", "check", str(tmp_path / "none.yaml")]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err


def test_check_fetches_the_keys_of_issuers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Nobody listens on the port that a socket has bound only.
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/keys"
        issuer = {"issuer": "https://i", "audience": "m", "jwks_url": url}
        file = str(write_policy(tmp_path, {"authentication": {"jwt": [issuer]}}))
        assert manta(["policy", "check", file]) == 0
        assert "come over http" in capsys.readouterr().err
        assert manta(["policy", "check", file, "--fetch"]) == 2
    assert "cannot be had" in capsys.readouterr().err


def test_a_new_key_opens_what_its_entry_is_granted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--tenant", "vision", "--group", "ops", "--days", "30"]
    assert manta(["policy", "new-key", "alice", *options]) == 0
    key, _, entries = capsys.readouterr().out.partition("\n")
    (tmp_path / "keys.yaml").write_text(entries)
    assert key not in entries
    policy = {**POLICY, "authentication": {"api_keys": {"file": "keys.yaml"}}}
    case = {"headers": {"x-api-key": key}, "role": "infer", "model": "simple", "expect": "allowed"}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump([case]))
    file = str(write_policy(tmp_path, policy))
    assert manta(["policy", "test", file, str(tmp_path / "cases.yaml")]) == 0
    entry = yaml.safe_load(entries)[0]
    assert (entry["tenant"], entry["groups"]) == ("vision", ["ops"])


@pytest.mark.parametrize(
    ("key", "kind"), [(made_key("a"), "sha256:"), ("correct horse", "scrypt:16384:8:1:")]
)
def test_hash_reads_a_key_from_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], key: str, kind: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(key + "\n"))
    assert manta(["policy", "hash"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(kind)
    assert key not in printed


def test_a_short_key_is_not_hashed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("short\n"))
    assert manta(["policy", "hash"]) == 2
    assert "short" not in capsys.readouterr().err


def test_the_example_is_a_policy_and_its_cases_are_as_expected() -> None:
    configs = Path(__file__).parents[5] / "configs"
    files = [str(configs / "access-policy.yaml"), str(configs / "access-cases.yaml")]
    assert manta(["policy", "test", *files]) == 0


@pytest.mark.parametrize(
    ("route", "role"),
    [
        ("inference", Role.INFER),
        ("GET /v2/models/m/ready", Role.HEALTH),
        ("/v2/models/m/config", Role.METADATA),
        ("/v2/models/stats", Role.STATISTICS),
        ("/v2/manta/instances", Role.METADATA),
        ("/v2/manta/events", Role.METADATA),
        ("POST /v2/repository/models/m/load", Role.CONTROL),
        ("POST /v2/logging", Role.SETTINGS),
        ("/v2/systemsharedmemory/region/r/register", Role.SHARED_MEMORY),
        ("GET /metrics", Role.METRICS),
        ("ModelStreamInfer", Role.INFER),
        ("RepositoryIndex", Role.METADATA),
        ("RepositoryModelLoad", Role.CONTROL),
        ("SetRollout", Role.CONTROL),
        ("CudaSharedMemoryStatus", Role.SHARED_MEMORY),
    ],
)
def test_a_route_needs_a_role(route: str, role: Role) -> None:
    asked = asked_by(route)
    assert asked is not None
    assert role in asked.roles
