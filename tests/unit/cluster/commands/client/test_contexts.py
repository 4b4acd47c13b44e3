# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which server is meant, and as whom it is asked."""

from pathlib import Path

import pytest

from backends.api.errors import InvalidArgumentError
from cluster.commands.client.contexts import (
    Target,
    choose_target,
    context_file,
    credentials,
)

FILE = """
current = "lab"
[contexts.lab]
url = "https://lab:1"
api_key_file = "lab.key"
headers = { X-Team = "a" }
timeout_s = 3
[contexts.home]
url = "home:2"
"""
AT = {"MANTA_CONTEXT_FILE": "/c/contexts.toml"}


def read(path: Path) -> str:
    assert path == Path("/c/contexts.toml")
    return FILE


def absent(path: Path) -> str:
    raise FileNotFoundError(path)


@pytest.mark.parametrize(
    ("url", "context", "environ", "found"),
    [
        ("given:9", "", {"MANTA_URL": "env:8"}, "given:9"),
        ("", "home", {"MANTA_URL": "env:8"}, "home:2"),
        ("", "", {"MANTA_URL": "env:8", "MANTA_CONTEXT": "home"}, "env:8"),
        ("", "", {"MANTA_CONTEXT": "home"}, "home:2"),
        ("", "", {}, "https://lab:1"),
    ],
)
def test_the_strongest_source_says_which_server(
    url: str, context: str, environ: dict[str, str], found: str
) -> None:
    assert choose_target(url, context, {**AT, **environ}, read).url == found


def test_without_any_source_it_is_this_machine() -> None:
    assert choose_target("", "", AT, absent) == Target()


def test_a_context_has_credentials_headers_and_a_timeout() -> None:
    target = choose_target("", "", AT, read)
    assert target.api_key_file == "/c/lab.key"
    assert (target.headers, target.timeout_s) == ({"X-Team": "a"}, 3)
    assert target.source == "context 'lab'"


def test_a_url_that_is_given_gets_no_credentials_of_the_context() -> None:
    target = choose_target("other:1", "", AT, read)
    assert credentials(target, {}, absent) == {}


@pytest.mark.parametrize(
    ("text", "context", "match"),
    [
        (FILE, "lap", "context 'lap' is not in .* which has lab, home"),
        ("[", "", "is no TOML"),
        ('current = ["a"]', "", "current: expected"),
        ('current = "a"\n[contexts.a]\nurl = 1', "", "expected url"),
        ('current = "a"\n[contexts.a]\nurl = "x"\nkey = "k"', "", "unknown key 'key'"),
        ('current = "a"\n[contexts.a]\nurl = "x"\nheaders = {a = 1}', "", "headers"),
        ('current = "a"\n[contexts.a]\nurl = "x"\ntimeout_s = "1"', "", "timeout_s"),
    ],
)
def test_a_file_that_is_wrong_is_said_with_its_place(text: str, context: str, match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match) as caught:
        choose_target("", context, AT, lambda _: text)
    assert "/c/contexts.toml" in caught.value.message


def test_a_file_that_may_not_be_read_is_said() -> None:
    def refuse(path: Path) -> str:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(InvalidArgumentError, match="Permission denied"):
        choose_target("", "", AT, refuse)


def test_a_file_that_is_not_utf_8_is_said(tmp_path: Path) -> None:
    (tmp_path / "c").write_bytes(b"\xff")
    environ = {"MANTA_CONTEXT_FILE": str(tmp_path / "c")}
    with pytest.raises(InvalidArgumentError, match="is not UTF-8"):
        choose_target("", "", environ, Path.read_text)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_CONFIG_HOME": "/x"}, "/x/manta/contexts.toml"),
        ({"HOME": "/h"}, "/h/.config/manta/contexts.toml"),
        (AT, "/c/contexts.toml"),
    ],
)
def test_contexts_lie_where_configuration_does(environ: dict[str, str], expected: str) -> None:
    assert context_file(environ) == Path(expected)


def test_keys_and_tokens_of_the_environment_are_shown() -> None:
    environ = {"MANTA_API_KEY": "k", "MANTA_TOKEN": "t"}
    assert credentials(Target(), environ, absent) == {
        "X-API-Key": "k",
        "Authorization": "Bearer t",
    }


def test_a_line_end_around_a_credential_of_the_environment_is_none_of_it() -> None:
    environ = {"MANTA_API_KEY": "k\n", "MANTA_TOKEN": " t\r\n"}
    assert credentials(Target(), environ, absent) == {
        "X-API-Key": "k",
        "Authorization": "Bearer t",
    }


@pytest.mark.parametrize("name", ["MANTA_API_KEY", "MANTA_TOKEN"])
@pytest.mark.parametrize("value", ["s3cret\nX: y", "s3cret\u0142", "s3cret\udcff", "s3cret\0"])
def test_a_credential_that_fits_no_header_is_refused_and_not_repeated(
    name: str, value: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=name) as caught:
        credentials(Target(), {name: value}, absent)
    assert "s3cret" not in caught.value.message


def test_a_file_whose_credential_fits_no_header_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match="'/t': only characters of Latin-1") as caught:
        credentials(Target(token_file="/t"), {}, lambda _: "s3cret\u0142")
    assert "s3cret" not in caught.value.message


def test_files_of_credentials_go_before_the_environment() -> None:
    target = Target(token_file="/t")
    shown = credentials(target, {"MANTA_API_KEY": "k"}, lambda _: " token\n")
    assert shown == {"Authorization": "Bearer token"}


@pytest.mark.parametrize("text", ["", "two words"])
def test_a_file_without_one_word_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="expected one word") as caught:
        credentials(Target(api_key_file="/k"), {}, lambda _: text)
    assert "words" not in caught.value.message


def test_headers_do_not_show_when_a_target_is_printed() -> None:
    assert "s3cret" not in repr(Target(headers={"X-API-Key": "s3cret"}))
