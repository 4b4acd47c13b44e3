# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What ``manta doctor`` says of which facts."""

from dataclasses import replace

import pytest

from cluster.commands.doctor.facts import Facts, FileFact, FileKind, PortFact, RayFact
from cluster.commands.doctor.rules import Severity, examine, is_loopback

CLOSED = Facts(
    ports=(
        PortFact("HTTP", "--http-address", "127.0.0.1"),
        PortFact("gRPC", "--grpc-address", "::1"),
        PortFact("metrics", "--metrics-address", "localhost"),
    )
)
ANYWHERE = "0.0.0.0"
OPEN_PORTS = tuple(replace(port, address=ANYWHERE) for port in CLOSED.ports)
SAFE_PORTS = tuple(
    replace(port, is_encrypted=True, knows_clients=port.name != "metrics") for port in OPEN_PORTS
)
CLUSTER = RayFact(
    is_own=False, is_running=True, node_count=3, node_address="10.0.0.1", auth_mode="token",
    has_tls=True,
)  # fmt: skip


def rules(facts: Facts) -> dict[str, Severity]:
    return {each.rule: each.severity for each in examine(facts)}


def test_a_server_on_loopback_has_nothing_to_mend() -> None:
    assert examine(CLOSED) == []


def test_a_cluster_with_token_tls_and_policy_has_nothing_to_mend() -> None:
    assert examine(Facts(ports=SAFE_PORTS, ray=CLUSTER, has_policy=True)) == []


@pytest.mark.parametrize(
    ("ray", "found"),
    [
        (RayFact(), {}),
        (RayFact(auth_mode="disabled"), {"ray-token": Severity.WARNING}),
        (replace(CLUSTER, auth_mode=""), {"ray-token": Severity.ERROR}),
        (replace(CLUSTER, auth_mode="Token"), {}),
        (replace(CLUSTER, dashboard="127.0.0.1:8265"), {}),
        (replace(CLUSTER, dashboard="10.0.0.1:8265"), {"ray-dashboard": Severity.WARNING}),
        (
            replace(CLUSTER, dashboard="0.0.0.0:8265", auth_mode="disabled"),
            {"ray-token": Severity.ERROR, "ray-dashboard": Severity.ERROR},
        ),
        (
            replace(CLUSTER, has_tls=False),
            {"ray-tls": Severity.WARNING, "lane-tls": Severity.WARNING},
        ),
    ],
)
def test_ray_has_to_ask_who_calls_and_to_encrypt(ray: RayFact, found: dict[str, Severity]) -> None:
    assert rules(replace(CLOSED, ray=ray)) == found


@pytest.mark.parametrize(
    ("mode", "has_tls", "found"),
    [("off", True, True), ("ray", True, False), ("ray", False, True), ("derived", False, False)],
)
def test_lanes_between_nodes_have_to_be_encrypted(mode: str, has_tls: bool, found: bool) -> None:
    facts = replace(CLOSED, ray=replace(CLUSTER, has_tls=has_tls), lane_tls=mode)
    assert ("lane-tls" in rules(facts)) is found


def test_open_ports_without_tls_and_policy_are_told_one_by_one() -> None:
    assert rules(Facts(ports=OPEN_PORTS)) == {
        "http-clear-text": Severity.WARNING,
        "grpc-clear-text": Severity.WARNING,
        "no-access-policy": Severity.WARNING,
        "metrics-open": Severity.NOTE,
    }


@pytest.mark.parametrize(
    ("changes", "severity"),
    [
        ({"control_mode": "explicit"}, Severity.ERROR),
        ({"control_mode": "explicit", "has_restrictions": True}, Severity.WARNING),
        ({"control_mode": "poll"}, Severity.WARNING),
        ({"control_mode": "explicit", "has_policy": True}, None),
    ],
)
def test_who_may_load_models_matters_most(
    changes: dict[str, object], severity: Severity | None
) -> None:
    facts = replace(Facts(ports=OPEN_PORTS), **changes)  # type: ignore[arg-type]
    assert rules(facts).get("no-access-policy") is severity


def test_client_memory_is_for_clients_that_are_known() -> None:
    facts = Facts(ports=SAFE_PORTS, allows_client_memory=True)
    assert "client-memory" in rules(facts)
    assert "client-memory" not in rules(replace(facts, has_policy=True))


@pytest.mark.parametrize(
    ("file", "rule"),
    [
        (FileFact(FileKind.KEY, "/k", 0o600, 1000), ""),
        (FileFact(FileKind.KEY, "/k", 0o640, 1000), "file-readable"),
        (FileFact(FileKind.KEY, "/k", 0o622, 1000), "file-writable"),
        (FileFact(FileKind.KEY, "/k", 0o600, 1001), "file-owner"),
        (FileFact(FileKind.KEY, "/k"), "file-missing"),
        (FileFact(FileKind.CACHE, "/c"), ""),
        (FileFact(FileKind.CACHE, "/c", 0o755, 1000), "file-readable"),
        (FileFact(FileKind.POLICY, "/p", 0o644, 0), "file-readable"),
        (FileFact(FileKind.REPOSITORY, "/r", 0o755, 0), ""),
        (FileFact(FileKind.REPOSITORY, "/r", 0o777, 0), "file-writable"),
        (FileFact(FileKind.CERTIFICATE, "/x", 0o644, 0, 1e9), ""),
        (FileFact(FileKind.CERTIFICATE, "/x", 0o644, 0, 1e3), "certificate-expires"),
    ],
)
def test_files_are_for_their_owner(file: FileFact, rule: str) -> None:
    assert list(rules(replace(CLOSED, files=(file,)))) == ([rule] if rule else [])


def test_a_certificate_that_has_expired_is_an_error() -> None:
    file = FileFact(FileKind.CERTIFICATE, "/x", 0o644, 0, -1.0)
    assert rules(replace(CLOSED, files=(file,))) == {"certificate-expires": Severity.ERROR}


def test_other_findings_have_a_rule_each() -> None:
    facts = replace(
        CLOSED,
        uid=0,
        shown_secrets=("--http-restricted-api",),
        plain_repositories=("s3://http://store/models",),
        has_remote_repositories=True,
        conflicts=("ray 1.0 is installed, and ray>=2 is required",),
    )
    assert rules(facts).keys() == {
        "root", "secret-on-command-line", "repository-clear-text", "unsigned-models", "versions",
    }  # fmt: skip
    assert "unsigned-models" not in rules(replace(facts, requires_signatures=True))


def test_the_worst_comes_first_and_each_says_how_to_mend_it() -> None:
    facts = Facts(ports=OPEN_PORTS, ray=replace(CLUSTER, auth_mode=""), control_mode="explicit")
    found = examine(facts)
    assert [each.severity for each in found] == sorted(
        (each.severity for each in found), key=list(Severity).index
    )
    assert all(each.what and each.why and each.mend for each in found)


@pytest.mark.parametrize(
    ("address", "loops"),
    [
        ("127.0.0.1", True), ("127.9.9.9:80", True), ("::1", True), ("[::1]", True),
        ("localhost", True), ("0.0.0.0", False), ("::", False), ("10.0.0.1:8265", False),
        ("", False), ("example.org", False),
    ],
)  # fmt: skip
def test_loopback_is_what_only_this_machine_reaches(address: str, loops: bool) -> None:
    assert is_loopback(address) is loops
