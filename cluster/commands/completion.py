# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""``manta completion``: a script with which a shell completes command lines.

Commands, their flags and, behind flags that take one, files. Flags are read from the help that the
commands print, so that they are written down in one place.
"""

import argparse
import contextlib
import io
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final

from cluster.commands.client.command_line import argument, command
from cluster.commands.table import COMMANDS

_FLAG: Final = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_SERVE: Final = "serve"
_HOW: Final = {
    "bash": "source <(manta completion bash)",
    "zsh": "source <(manta completion zsh)",
    "fish": "manta completion fish | source",
}
_BASH: Final = r"""# %(how)s
_manta() {
    local word="${COMP_WORDS[COMP_CWORD]}" flags=""
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "%(commands)s" -- "$word"))
        return
    fi
    case "${COMP_WORDS[1]}" in
%(cases)s
    esac
    if [[ "$word" == -* ]]; then
        COMPREPLY=($(compgen -W "$flags" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}
complete -o filenames -F _manta manta
"""
_ZSH: Final = r"""#compdef manta
# %(how)s
_manta() {
    local -a commands flags
    commands=(
%(commands)s
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    case "${words[2]}" in
%(cases)s
    esac
    if [[ "${words[CURRENT]}" == -* ]]; then
        compadd -- $flags
    else
        _files
    fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
compdef _manta manta
"""


@command(
    "completion",
    "Print a script that completes command lines of manta. "
    + "; ".join(f"{shell}: {how}" for shell, how in _HOW.items()),
    argument("shell", choices=tuple(_HOW)),
    has_json=False,
    asks_server=False,
)
def main(given: argparse.Namespace) -> None:
    """Run ``manta completion``."""
    flags = {each.name: flags_of(each.name, each.where) for each in COMMANDS}
    make = {"bash": _bash, "zsh": _zsh, "fish": _fish}[given.shell]
    print(make(flags), end="")


def flags_of(name: str, where: str) -> tuple[str, ...]:
    """Return the flags of a command; none of those of manta-tools, whose help takes long."""
    if name == _SERVE:
        from cluster.options.table import FLAGS  # noqa: PLC0415 - only here

        return ("--help", *(f"--{each.name}" for each in FLAGS.values()))
    if not where:
        return ()
    module, _, function = where.partition(":")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        getattr(import_module(module), function)(["--help"])
    return tuple(dict.fromkeys(_FLAG.findall(printed.getvalue())))


def _cases(flags: Mapping[str, Sequence[str]], opening: str, closing: str) -> str:
    return "\n".join(
        f"        {name}) flags={opening}{' '.join(found)}{closing} ;;"
        for name, found in flags.items()
        if found
    )


def _bash(flags: Mapping[str, Sequence[str]]) -> str:
    cases = _cases(flags, '"', '"')
    return _BASH % {"how": _HOW["bash"], "commands": " ".join(flags), "cases": cases}


def _zsh(flags: Mapping[str, Sequence[str]]) -> str:
    commands = "\n".join(f"        {_quoted(f'{x.name}:{x.summary}')}" for x in COMMANDS)
    cases = _cases(flags, "(", ")")
    return _ZSH % {"how": _HOW["zsh"], "commands": commands, "cases": cases}


def _fish(flags: Mapping[str, Sequence[str]]) -> str:
    lines = [f"# {_HOW['fish']}"]
    lines += [
        f"complete -c manta -n __fish_use_subcommand -f -a {each.name} -d {_quoted(each.summary)}"
        for each in COMMANDS
    ]
    lines += [
        f"complete -c manta -n '__fish_seen_subcommand_from {name}' -l {flag[2:]}"
        for name, found in flags.items()
        for flag in found
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a word of zsh or fish, which know no quote within quotes alike."""
    return "'" + text.replace("'", "") + "'"
