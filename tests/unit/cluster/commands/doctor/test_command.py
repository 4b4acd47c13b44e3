# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command, and what it collects; Ray is not asked."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.commands.doctor.collecting import collect
from cluster.commands.doctor.command import main
from cluster.commands.doctor.facts import Facts, FileKind, PortFact
from cluster.options.parsing import parse_options

SECRET = "zq-secret-of-the-test"


def facts_of(*flags: str, **environment: str) -> Facts:
    options = parse_options(list(flags), environment, lambda path: Path(path).read_text())
    return collect(options, environment)


def test_facts_are_those_of_the_options_and_variables(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("x")
    key.chmod(0o640)
    facts = facts_of(
        f"--model-repository={tmp_path}", "--model-repository=s3://http://host:9000/bucket/x",
        "--http-use-ssl=true", f"--http-server-key={key}", f"--http-server-cert={key}",
        "--grpc-address=127.0.0.1", f"--http-restricted-api=health:k={SECRET}",
        RAY_AUTH_MODE="token", RAY_USE_TLS="1",
    )  # fmt: skip
    assert facts.ports == (
        PortFact("HTTP", "--http-address", "0.0.0.0", is_encrypted=True),
        PortFact("gRPC", "--grpc-address", "127.0.0.1"),
        PortFact("metrics", "--metrics-address", "0.0.0.0"),
    )
    assert (facts.ray.auth_mode, facts.ray.has_tls, facts.ray.is_own) == ("token", True, True)
    assert facts.shown_secrets == ("--http-restricted-api",)
    assert facts.plain_repositories == ("s3://http://host:9000/bucket/x",)
    assert facts.has_remote_repositories
    modes = {file.kind: file.mode for file in facts.files}
    assert modes[FileKind.KEY] == 0o640
    assert FileKind.REPOSITORY in modes
    assert SECRET not in repr(facts)


def test_findings_are_printed_and_decide_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([f"--http-restricted-api=health:k={SECRET}"], collect=lambda *_: Facts(uid=0))
    shown = capsys.readouterr().out
    assert code == 1
    assert "warning: the server runs as root [root]" in shown
    assert "    mend: run it as a user of its own" in shown
    assert SECRET not in shown


def test_nothing_found_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json"], collect=lambda *_: Facts()) == 0
    assert json.loads(capsys.readouterr().out) == {"findings": []}


def test_notes_count_only_if_that_is_asked_for() -> None:
    facts = Facts(has_remote_repositories=True)
    assert main([], collect=lambda *_: facts) == 0
    assert main(["--strict"], collect=lambda *_: facts) == 1


@pytest.mark.parametrize(
    ("is_of_server", "said"), [(True, "the server that runs"), (False, "those given here")]
)
def test_a_running_cluster_is_looked_at_where_it_is_named(
    is_of_server: bool, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def look(facts: Facts, address: str) -> Facts:
        asked.append(address)
        return replace(facts, is_of_server=is_of_server)

    arguments = ["--running", "--ray-address=10.0.0.1:6379"]
    assert main(arguments, collect=lambda *_: Facts(), look=look) == 0
    assert asked == ["10.0.0.1:6379"]
    assert said in capsys.readouterr().err


def test_a_flag_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--no-such-flag=1"]) == 2
    assert "no-such-flag" in capsys.readouterr().err
