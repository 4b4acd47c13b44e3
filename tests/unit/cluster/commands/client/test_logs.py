# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta logs``, of a server on this machine."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.commands.client import logs
from cluster.commands.client.logs import main, show, tail
from deployments.settings.server_settings import LogSettings
from tests.support.asked_server import asked

Output = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where workers write, of which those with the numbers 7 and 8 are there."""
    for pid, number, file in ((7, 1, "a-7.out"), (7, 2, "a-7.err"), (8, 1, "b-8.out")):
        link = tmp_path / f"proc/{pid}/fd/{number}"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(tmp_path / f"worker-{file}")
    monkeypatch.setattr(logs, "_PROCESSES", tmp_path / "proc")
    (tmp_path / "worker-a-7.out").write_text("")
    (tmp_path / "worker-a-7.err").write_text(":job_id:01\n:actor_name:x\none\ntwo\n")
    (tmp_path / "worker-b-8.out").write_text("three\n")
    (tmp_path / "worker-c-9.err").write_text("of the controller\n")
    (tmp_path / "raylet.out").write_text("of Ray\n")
    return tmp_path


async def test_the_logs_of_a_model_are_those_of_its_processes(folder: Path, capsys: Output) -> None:
    async with asked() as server:
        assert await server.run(main, "simple", "-n", "1") == 0
    assert capsys.readouterr().out.splitlines() == [
        "==> simple/1#0 (pid 7, err) <==",
        "two",
        "==> simple/2#0 (pid 8, out) <==",
        "three",
    ]


async def test_without_a_model_those_of_the_other_processes_come_too(
    folder: Path, capsys: Output
) -> None:
    async with asked() as server:
        assert await server.run(main) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "==> worker-c-9.err <==",
        "of the controller",
    ]


@pytest.fixture
def own(folder: Path) -> Path:
    """A log file that the controller, number 9, has open."""
    file = folder / "server.log"
    file.write_text("line\n")
    (folder / "proc/9/fd").mkdir(parents=True)
    (folder / "proc/9/fd/2").symlink_to(folder / "worker-c-9.err")
    (folder / "proc/9/fd/5").symlink_to(file)
    return file


async def lines_of_server(log_file: str, capsys: Output) -> list[str]:
    async with asked() as server:
        setattr(server.plane, "settings", SimpleNamespace(log=LogSettings(log_file)))  # noqa: B010
        assert await server.run(main) == 0
    return capsys.readouterr().out.splitlines()


async def test_without_a_model_it_is_the_file_of_the_server(own: Path, capsys: Output) -> None:
    assert await lines_of_server(str(own), capsys) == ["line"]


async def test_a_file_that_no_process_of_the_server_has_open_is_not_read(
    own: Path, capsys: Output
) -> None:
    (own.parent / "proc/9/fd/5").unlink()
    assert "line" not in await lines_of_server(str(own), capsys)


async def test_a_file_that_another_process_has_open_is_not_read(own: Path, capsys: Output) -> None:
    (own.parent / "proc/9/fd/2").unlink()
    assert "line" not in await lines_of_server(str(own), capsys)


async def test_a_relative_path_is_of_the_servers_folder_not_of_this_one(
    own: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own.parent)
    assert "line" not in await lines_of_server(own.name, capsys)


@pytest.mark.parametrize(
    ("is_terminal", "said"), [(True, "a\\x1b[2J\tb\n"), (False, "a\x1b[2J\tb\n")]
)
def test_what_is_logged_does_not_steer_a_terminal(
    is_terminal: bool, said: str, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("a\x1b[2J\tb\n")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    show({tmp_path / "a": "A"}, 5, follows=False)
    assert capsys.readouterr().out == said


async def test_a_process_that_only_has_the_number_of_one_is_not_taken_for_it(
    folder: Path, capsys: Output
) -> None:
    for link in (folder / "proc").glob("*/fd/*"):
        link.unlink()
        link.symlink_to("/var/log/secret")
    async with asked() as server:
        assert await server.run(main) == 1
        assert await server.run(main, "simple") == 1
        assert await server.run(main, "smple") == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("has no log on this machine") == 2
    assert "Did you mean 'simple'?" in captured.err


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [
        (b"a\nb\nc\n", 2, [b"b\n", b"c\n"]),
        (b"a\n", 5, [b"a\n"]),
        (b"a\nunfinished", 5, [b"a\n"]),
        (b"a\n", 0, []),
    ],
)
def test_the_end_of_a_file_is_its_last_whole_lines(
    text: bytes, count: int, expected: list[bytes]
) -> None:
    assert tail(io.BytesIO(text), count) == expected


def test_what_is_added_is_printed_until_the_end(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("1\n")
    second.write_text("2\n")
    added = [(first, "3\n4"), (first, "4\n"), (second, "5\n")]

    def sleep(seconds: float) -> None:
        if not added:
            raise KeyboardInterrupt
        path, text = added.pop(0)
        with path.open("a") as file:
            file.write(text)

    monkeypatch.setattr(logs.time, "sleep", sleep)
    with pytest.raises(KeyboardInterrupt):
        show({first: "A", second: "B"}, 5, follows=True)
    assert capsys.readouterr().out.split("\n") == [
        "==> A <==", "1", "==> B <==", "2", "==> A <==", "3", "44", "==> B <==", "5", "",
    ]  # fmt: skip
