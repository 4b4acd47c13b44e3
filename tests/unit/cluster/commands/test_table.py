# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The table of commands."""

from importlib import import_module
from itertools import pairwise

import pytest

from cluster.commands.table import BY_NAME, COMMANDS, OF_TOOLS, help_text, unknown
from tests.support.tools_distribution import declared_commands


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.where], ids=lambda c: c.name)
def test_each_command_is_there_and_its_help_ends_with_0(command, capsys):
    module, _, function = command.where.partition(":")
    for flag in ("-h", "--help"):
        with pytest.raises(SystemExit) as caught:
            getattr(import_module(module), function)([flag])
        assert caught.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: manta {command.name}")


def test_commands_of_a_group_stand_together_and_each_has_one_line():
    groups = [each.group for each in COMMANDS]
    changes = sum(one != other for one, other in pairwise(groups))
    assert changes == len(set(groups)) - 1
    assert len(BY_NAME) == len(COMMANDS)
    assert all(each.summary and "\n" not in each.summary for each in COMMANDS)


def test_the_commands_of_the_tools_are_those_that_they_declare():
    assert set(declared_commands()) == OF_TOOLS


def test_help_has_every_command_under_its_group():
    lines = help_text(OF_TOOLS).splitlines()
    for each in COMMANDS:
        (line,) = (line for line in lines if line.split()[:1] == [each.name])
        heading = [h for h in lines[: lines.index(line)] if h.endswith(":") and h[0] != " "][-1]
        assert heading == f"{each.group}:"
        assert line.endswith(each.summary)


def test_commands_of_others_have_a_group_of_their_own():
    lines = help_text({*OF_TOOLS, "theirs"}).splitlines()
    assert lines[lines.index("Commands of other packages:") + 1] == "  theirs"


@pytest.mark.parametrize(
    ("typed", "meant"), [("serv", "serve"), ("lod", "load"), ("PS", None), ("theirz", "theirs")]
)
def test_a_typo_is_answered_with_the_nearest_command(typed, meant):
    said = unknown(typed, {"theirs"})
    assert said.startswith(f"there is no command '{typed}'.")
    assert (f"Did you mean '{meant}'?" in said) == (meant is not None)
