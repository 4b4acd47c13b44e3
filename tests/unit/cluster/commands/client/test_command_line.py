# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Command lines, errors and exit codes that all commands share."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError, UnavailableError
from cluster.commands.client.command_line import (
    UsageError,
    add_json,
    add_server,
    connect,
    make_parser,
    print_table,
    run,
)
from cluster.commands.client.connection import model_path
from tests.support.certificates import Certificates, make_certificates


def run_with(command: Callable[[argparse.Namespace], int | None], *arguments: str) -> int:
    parser = make_parser("thing", "Do it.")
    add_json(parser)
    add_server(parser)
    return run(parser, arguments, command)


def given_of(*arguments: str) -> argparse.Namespace:
    found: list[argparse.Namespace] = []
    assert run_with(found.append, *arguments) == 0
    return found[0]


def fail_with(error: Exception) -> Callable[[argparse.Namespace], None]:
    def fail(given: argparse.Namespace) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UnavailableError("no server,\n  none"), 1, "error: no server, none\n"),
        (UsageError("give one."), 2, "error: give one. See 'manta thing --help'.\n"),
        (FileNotFoundError(2, "No such file", "x.npy"), 1, "error: x.npy: No such file\n"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    error: Exception, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(fail_with(error)) == code
    assert capsys.readouterr().err == said


def test_what_a_command_returns_is_the_exit_code() -> None:
    assert run_with(lambda _: 1) == 1
    assert run_with(lambda _: None) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--jsn"], "unrecognized arguments: --jsn. Did you mean '--json'?"),
        (["--timeout=0"], "argument --timeout"),
        (["--url=a", "--context=b"], "not allowed with"),
        (["--js"], "unrecognized"),
    ],
)
def test_a_wrong_command_line_is_said_in_one_line_and_ends_with_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run_with(lambda _: None, *arguments)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert error.endswith("See 'manta thing --help'.\n")
    assert error.count("\n") == 1


def test_a_name_that_is_not_utf_8_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_with(lambda _: bool(model_path("m\udcff"))) == 1
    assert capsys.readouterr().err == "error: 'm\\udcff' is not UTF-8\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_ends_with_0(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run_with(lambda _: None, flag)
    assert caught.value.code == 0
    assert "--ca-cert" in capsys.readouterr().out


def test_a_header_that_is_given_goes_before_credentials_of_the_environment() -> None:
    environ = {"MANTA_API_KEY": "k", "MANTA_TOKEN": "t", "HOME": "/none"}
    given = given_of("-H", "x-api-key: own", "-H", "A:b:c")
    assert connect(given, environ).headers == {
        "Authorization": "Bearer t",
        "x-api-key": "own",
        "A": "b:c",
    }


@pytest.mark.parametrize("text", ["nonsense", ": value"])
def test_a_header_needs_a_name_and_a_colon(text: str) -> None:
    assert run_with(lambda given: bool(connect(given, {})), "-H", text) == 2


@pytest.mark.parametrize(
    "text", ["A b: s3cret", "A: s3cret\u0142", "A: s3cret\nB: c", "\u00fc: s3cret"]
)
def test_a_header_that_cannot_be_sent_is_refused_and_not_repeated(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_with(lambda given: bool(connect(given, {"HOME": "/none"})), "-H", text) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: --header: ")
    assert "s3cret" not in error


def test_a_header_of_a_context_that_cannot_be_sent_is_said_with_the_context(tmp_path: Path) -> None:
    file = tmp_path / "contexts.toml"
    file.write_text('current = "a"\n[contexts.a]\nurl = "x:1"\nheaders = { A = "s3cret\\n" }\n')
    with pytest.raises(InvalidArgumentError, match=r"^context 'a': header 'A': ") as caught:
        connect(given_of(), {"MANTA_CONTEXT_FILE": str(file)})
    assert "s3cret" not in caught.value.message


def test_an_option_goes_before_the_contexts_own(tmp_path: Path) -> None:
    key, file = tmp_path / "key", tmp_path / "contexts.toml"
    key.write_text("from-option\n")
    file.write_text('current = "a"\n[contexts.a]\nurl = "x:1"\ntoken_file = "/none"\n')
    given = given_of("--api-key-file", str(key))
    server = connect(given, {"MANTA_CONTEXT_FILE": str(file)})
    assert (server.address.shown, server.headers) == ("x:1", {"X-API-Key": "from-option"})


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("pems"))


def test_certificates_that_cannot_be_used_are_named(
    pems: Certificates, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate, key = map(str, pems.client)
    files = ("--ca-cert", str(pems.root), "--client-cert", certificate)
    assert run_with(lambda given: bool(connect(given, {})), "--url=https://x", *files) == 1
    said = capsys.readouterr().err
    assert certificate in said
    assert "Give --ca-cert, --client-cert and --client-key" in said
    assert connect(given_of("--url=https://x", *files, "--client-key", key), {})


def test_a_table_is_plain_and_whole_where_nobody_looks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(("A", "B"), [("x", "y" * 500)])
    assert capsys.readouterr().out == f"A  B\nx  {'y' * 500}\n"
