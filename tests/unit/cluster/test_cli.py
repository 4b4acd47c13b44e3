# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command as a process, where no Ray is needed."""

import os
import subprocess
import sys
import urllib.parse

import pytest

COMMAND = "import sys; from cluster.cli import main; sys.exit(main(sys.argv[1:]))"


def start(*arguments: str, stdout: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *arguments], stdout=stdout, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--help"],
        ["serve", "--model-repository=/m", "--print-options"],
        ["--version"],
        ["help"],
        ["graph", "--help"],
    ],
)
def test_a_reader_that_has_gone_ends_the_command_quietly(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    process = start(*arguments, stdout=writing)
    os.close(writing)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, b"")


def run(*arguments: str) -> tuple[int, str, str]:
    process = start(*arguments, stdout=subprocess.PIPE)
    output, errors = process.communicate(timeout=60)
    return process.returncode, output.decode(), errors.decode()


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"], ["help"]])
def test_help_is_asked_for_in_four_ways(arguments):
    code, output, errors = run(*arguments)
    assert (code, errors) == (0, "")
    assert "Usage: manta COMMAND" in output


@pytest.mark.parametrize("arguments", [["serve", "-h"], ["help", "serve"], ["serve", "--help"]])
def test_help_of_serve_is_its_flags(arguments):
    code, output, errors = run(*arguments)
    assert (code, errors) == (0, "")
    assert "--model-repository" in output


def test_a_wrong_flag_of_serve_is_a_wrong_command_line():
    code, output, errors = run("serve", "--htp-port=1")
    assert (code, output) == (2, "")
    assert "did you mean '--http-port'?" in errors


@pytest.mark.slow
def test_a_repository_that_does_not_exist_is_said_before_ray_starts(tmp_path):
    missing = tmp_path / urllib.parse.quote("none")
    process = start(
        "serve",
        f"--model-repository={missing}",
        *(f"--{name}-port=0" for name in ("http", "grpc", "metrics")),
        stdout=subprocess.PIPE,
    )
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert output.decode().endswith(", starting\n")
    expected = f"failed to open directory {missing}: No such file or directory"
    assert errors.decode().splitlines() == [f"error: creating server: Internal - {expected}"]
