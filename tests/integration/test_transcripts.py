# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""All that a person sees of a server, whole: sessions in a terminal and in a pipe, as recorded.

The records lie in ``transcripts/``; with ``MANTA_RECORD=1`` in the environment a run writes them
anew, to be read before they are kept. What differs from run to run is told by its kind: `SECONDS`,
`PORT`. Lines of different processes come in any order: between two commands stand the driver's, and
then those of all others, sorted. Empty lines are left out.
"""

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.integration.conftest import ADD_SUB
from tests.support.server import ROOT, until

_RECORDS: Final = Path(__file__).with_name("transcripts")
_IN: Final = ("pipe", "terminal")
_CONFIG: Final = """
backend: "python"
input { name: "X" data_type: TYPE_FP32 dims: [1] }
output { name: "Y" data_type: TYPE_FP32 dims: [1] }
"""
_CODE: Final = """
import os
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        print("a line of the model")

    def execute(self, requests):
        found = [pb_utils.get_input_tensor_by_name(each, "X").as_numpy() for each in requests]
        if found[0][0] < 0:
            os.abort()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]) for x in found]
"""
# What is wrong with a model: its config and its code.
_BROKEN: Final = {
    "no_class": (_CONFIG, "class Model: pass\n"),
    "no_execute": (_CONFIG, "class TritonPythonModel: pass\n"),
    "no_syntax": (_CONFIG, "class TritonPythonModel\n"),
    "no_code": (_CONFIG, None),
    "no_config_syntax": ('backend: "python" input {', ADD_SUB),
    "no_such_field": (_CONFIG + "max_batch: 8\n", ADD_SUB),
    "no_such_type": (_CONFIG.replace("TYPE_FP32", "TYPE_FLOAT"), ADD_SUB),
    "no_such_backend": (_CONFIG.replace("python", "pythn"), ADD_SUB),
    "other_name": (_CONFIG + 'name: "another"\n', ADD_SUB),
    "no_dims": (_CONFIG.replace("dims: [1]", ""), ADD_SUB),
}
_KINDS: Final = (
    (r"\b(?:\d+\.){3}\d+:\d+", "ADDRESS"),
    (r"\blocalhost:\d+", "localhost:PORT"),
    (r'"pid": \d+', '"pid": PID'),
    (r"([IWE])\d{4} [\d:.]{15} +\d+ (\w+\.py):\d+", r"\1 TIME \2"),
    (r" *\d+\.\d s\b", " SECONDS"),
    (r"--http-port=[1-9]\d*", "--http-port=PORT"),
)
# What the handlers of a crash print, of Python and of Ray: as long as the stack is deep.
_CRASH: Final = re.compile(
    r"(echo/1#0:)? *(\*\*\* SIG|PC: @|@ +0x|File \"|Stack \(|Extension modules|Fatal Python|$)"
)
# From the hidden cursor to the line that is gone again: as often drawn as the command takes time.
_PROGRESS: Final = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h\s*\x1b\[1A\x1b\[2K", re.DOTALL)
# What instances, ingresses and the controller print.
_OF_OTHERS: Final = re.compile(r"(\S+: )?([IWE] TIME |a line |another line )| +successfully ")


class Session:
    """A server, and what has been seen of it and of commands beside it.

    Args:
        folder: Where commands run, with a repository ``models``; its path is not shown.
        is_terminal: Whether they write to a terminal instead of into a pipe.
    """

    def __init__(self, folder: Path, *, is_terminal: bool) -> None:
        self.folder = folder
        self._is_terminal = is_terminal
        self._transcript: list[str] = []
        self._printed: list[str] = []

    @contextlib.contextmanager
    def server(self, *flags: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Serve until the block ends, at the latest."""
        command = ("serve", "--model-repository=models", *flags)
        process, reading = self._started(command)
        self._transcript.append(f"$ manta {' '.join(command)}")
        reader = threading.Thread(target=self._read, args=(reading,))
        reader.start()
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)
            reader.join(60)

    def run(self, *arguments: str) -> None:
        """Run a command to its end."""
        process, reading = self._started(arguments)
        self._transcript.append(f"$ manta {' '.join(arguments)}")
        self._transcript += [*_lines(reading), f"[exit code {process.wait(60)}]"]

    def wait_for(self, text: str, count: int = 1) -> str:
        """Wait until the server has printed lines with a text, and return the last of them."""
        return until(
            lambda: [each for each in self._printed if text in each][count - 1 :],
            f"the server has not printed {text!r}",
        )[-1]

    def take(self) -> None:
        """Take what the server has printed since the last time into the transcript.

        First what its driver says, then what its other processes do: each line once, sorted, and
        without the stacks of crashes.
        """
        taken, self._printed = [_plain(each) for each in self._printed], []
        others = {each for each in taken if _OF_OTHERS.match(each)}
        own = (each for each in taken if each not in others)
        self._transcript += [each for each in own if not _CRASH.match(each)]
        self._transcript += sorted(others)

    def note(self, text: str) -> None:
        """Add a line of one's own."""
        self._transcript.append(f"[{text}]")

    def transcript(self) -> str:
        """Return all that was seen."""
        text = "".join(f"{_plain(each).rstrip()}\n" for each in self._transcript)
        if self._is_terminal:
            text = _PROGRESS.sub("", text)
        return text.replace(str(self.folder), "FOLDER")

    def _started(self, arguments: Sequence[str]) -> "tuple[subprocess.Popen[bytes], int]":
        reading, writing = pty.openpty() if self._is_terminal else os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-m", "cluster", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        os.close(writing)
        return process, reading

    def _read(self, reading: int) -> None:
        for line in _lines(reading):
            self._printed.append(line)


def _lines(reading: int) -> Iterator[str]:
    """Read lines until the last process that writes has ended."""
    rest = b""
    # A terminal tells its end by EIO.
    with os.fdopen(reading, "rb", buffering=0) as file, contextlib.suppress(OSError):
        while read := file.read(1 << 16):
            *whole, rest = (rest + read).split(b"\n")
            yield from (each.decode().removesuffix("\r") for each in whole)
    if rest:
        yield rest.decode()


def _plain(line: str) -> str:
    """Return a line without what differs from run to run."""
    for pattern, kind in _KINDS:
        line = re.sub(pattern, kind, line)
    return line


def _write(folder: Path, config: str, code: str | None) -> None:
    version = folder / "1"
    version.mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config.lstrip())
    if code is not None:
        (version / "model.py").write_text(code)


def _is_as_recorded(name: str, session: Session) -> None:
    record = _RECORDS / f"{name}.txt"
    if os.environ.get("MANTA_RECORD"):
        record.write_text(session.transcript())
    assert session.transcript() == record.read_text()


@pytest.fixture(params=_IN)
def where(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(where: str, tmp_path: Path) -> Session:
    return Session(tmp_path, is_terminal=where == "terminal")


def test_ten_broken_models_are_told_at_once(session: Session) -> None:
    for name, (config, code) in _BROKEN.items():
        _write(session.folder / "models" / name, config, code)
    session.run("serve", "--model-repository=models", "--http-port=0")
    _is_as_recorded("broken_models", session)


def test_a_port_that_is_taken_is_told_with_its_flag(session: Session) -> None:
    _write(session.folder / "models" / "echo", _CONFIG, _CODE)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        flag = f"--http-port={other.getsockname()[1]}"
        session.run("serve", "--model-repository=models", "--http-address=127.0.0.1", flag)
    _is_as_recorded("taken_port", session)


@pytest.mark.long
def test_a_start_a_request_a_reload_crashes_and_ctrl_c(
    session: Session, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(session.folder / "models" / "echo", _CONFIG, _CODE)
    flags = ("--model-control-mode=explicit", "--load-model=*", "--http-address=127.0.0.1")
    with session.server(
        *flags, *(f"--{each}-port=0" for each in ("http", "grpc", "metrics"))
    ) as it:
        ready = json.loads(session.wait_for("MANTA_READY ").removeprefix("MANTA_READY "))
        session.wait_for("Try: ")
        session.take()
        monkeypatch.setenv("MANTA_URL", ready["http"])
        session.run("infer", "echo", "1")
        code = session.folder / "models" / "echo" / "1" / "model.py"
        code.write_text(_CODE.replace("a line", "another line"))
        session.run("load", "echo")
        session.wait_for("successfully loaded")
        session.take()
        for _ in range(3):
            session.run("infer", "echo", "-1")
        session.run("infer", "echo", "1")
        session.wait_for("another line of the model", 6)
        session.take()
        it.send_signal(signal.SIGINT)
        it.wait(120)
    session.take()
    session.note(f"Ctrl-C, exit code {it.returncode}")
    _is_as_recorded(f"session.{where}", session)
