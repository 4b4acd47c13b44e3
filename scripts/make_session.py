#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Draws the README's picture of a session, docs/images/session.svg, from its transcript.

Usage: make_session.py [--record]

``--record`` writes the transcript first: it publishes a model, checks it, serves it on free ports,
which the transcript shows as the default ones, sends a request and stops the server.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "images"
TRANSCRIPT: Final = FOLDER / "session.txt"
PICTURE: Final = FOLDER / "session.svg"
_PROMPT: Final = "$ "
_WIDTH: Final = 100
_LINE_PX: Final = 18
_CHAR_PX: Final = 7.8
_COLOURS: Final = (
    (_PROMPT, "#7ee787"),
    ("error", "#ff7b72"),
)
_PLAIN: Final = "#c9d1d9"
_READY: Final = "MANTA_READY "
_PORTS: Final = {"http": 8000, "grpc": 8001, "metrics": 8002}
_MODEL: Final = Path(__file__).resolve().parents[1] / "docs" / "get-started.md"
_BODY: Final = (
    '{"inputs": [{"name": "X", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}'
)


def picture(transcript: str) -> str:
    """Draw a transcript: lines that begin with a prompt are commands, others what they said."""
    lines = list(_wrapped(transcript))
    height, width = (len(lines) + 2) * _LINE_PX, round((_WIDTH + 4) * _CHAR_PX)
    texts = [
        f'<text x="16" y="{(row + 1.6) * _LINE_PX:g}" fill="{_colour(line)}">{escape(line)}</text>'
        for row, line in enumerate(lines)
        if line
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
            f' width="{width}" height="{height}" xml:space="preserve">',
            "<title>A session: publish a model, check it, serve it, send a request</title>",
            "<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;"
            "white-space:pre}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
            *texts,
            "</svg>",
            "",
        ]
    )


def _wrapped(transcript: str) -> Iterator[str]:
    for line in transcript.rstrip("\n").split("\n"):
        for at in range(0, max(len(line), 1), _WIDTH):
            yield line[at : at + _WIDTH]


def _colour(line: str) -> str:
    return next((colour for start, colour in _COLOURS if line.startswith(start)), _PLAIN)


def record() -> str:
    """Run the session and return its transcript.

    Raises:
        RuntimeError: The server ended before it was ready.
    """
    manta = str(Path(sys.executable).with_name("manta"))
    blocks = re.findall(r"```python\n(.*?)```", _MODEL.read_text(), re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.py").write_text(blocks[0])
        lines = []
        for arguments in (
            "model add model.py --name double --to models",
            "check models",
        ):
            said = subprocess.run(
                [manta, *arguments.split()], cwd=folder, capture_output=True, text=True, check=True
            )
            lines += [f"{_PROMPT}manta {arguments}", *said.stdout.splitlines(), ""]
        lines += _served(manta, folder)
    return "\n".join(line.replace(f"{folder}/", "") for line in lines) + "\n"


def _served(manta: str, folder: str) -> list[str]:
    ports = [f"--{each}-port=0" for each in _PORTS]
    server = subprocess.Popen(
        [manta, "serve", "--model-repository=models", *ports],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    said: list[str] = []
    addresses: dict[str, str] = {}
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith(_READY):
            addresses = json.loads(line.removeprefix(_READY))
            break
        said.append(line.rstrip())
    try:
        if not addresses:
            raise RuntimeError("\n".join(said))
        url = f"localhost:{addresses['http'].rpartition(':')[2]}/v2/models/double/infer"
        answer = subprocess.run(
            ["curl", "-s", url, "-d", _BODY], capture_output=True, text=True, check=True
        )
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    for protocol, port in _PORTS.items():
        given = addresses[protocol].rpartition(":")[2]
        said = [re.sub(rf":{given}\b", f":{port}", line) for line in said]
    shown = f"curl localhost:8000/v2/models/double/infer -d '{_BODY}'"
    return [
        f"{_PROMPT}manta serve --model-repository models &",
        *said,
        "",
        f"{_PROMPT}{shown}",
        *answer.stdout.splitlines(),
    ]


def main() -> None:
    """Write the picture, with ``--record`` the transcript before."""
    if sys.argv[1:] == ["--record"]:
        TRANSCRIPT.write_text(record())
    PICTURE.write_text(picture(TRANSCRIPT.read_text()))


if __name__ == "__main__":
    main()
