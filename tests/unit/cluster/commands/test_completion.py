# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta completion``."""

import shutil
import subprocess

import pytest

from cluster.commands.completion import flags_of, main
from cluster.commands.table import BY_NAME, COMMANDS

_ASK = """
COMP_WORDS=({words}); COMP_CWORD={last}
_manta
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def script():
    import contextlib
    import io

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["bash"]) == 0
    return printed.getvalue()


def completed(script, *words):
    shown = " ".join(f"'{word}'" for word in words)
    text = script + _ASK.format(words=shown, last=len(words) - 1)
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_commands(script):
    assert set(completed(script, "manta", "")) == {each.name for each in COMMANDS}
    assert completed(script, "manta", "unl") == ["unload"]


def test_bash_completes_the_flags_of_the_command(script):
    assert completed(script, "manta", "infer", "m", "--cu") == ["--curl"]
    assert "--http-port" in completed(script, "manta", "serve", "--http-p")
    assert "--http-port" not in completed(script, "manta", "ls", "--")


def test_flags_are_those_of_the_help():
    flags = flags_of("ls", BY_NAME["ls"].where)
    assert {"--help", "--json", "--url", "--ca-cert"} <= set(flags)
    assert flags_of("perf", "") == ()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_has_every_command_and_its_shell_reads_it(shell, capsys):
    assert main([shell]) == 0
    script = capsys.readouterr().out
    assert all(each.name in script for each in COMMANDS)
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
