# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of ``manta``, and the help that lists them."""

import difflib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

TOOLS: Final = "manta-tools"
_TITLE: Final = "Manta: an inference server with Triton's protocols and repositories, on Ray."
_USAGE: Final = "Usage: manta COMMAND [options]"
_OTHERS: Final = "Commands of other packages"
_END: Final = """'manta COMMAND --help' says more. Those that ask a server take --url, or MANTA_URL.
Exit codes: 0 done, 1 failed, 2 a wrong command line."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        where: Its function, as entry points name one; empty for one of manta-tools, or the cli's.
    """

    name: str
    where: str
    group: str
    summary: str

    @property
    def is_of_tools(self) -> bool:
        """Whether it is in manta-tools."""
        return self.group == _MEASURE


_SERVE: Final = "Serve"
_MODELS: Final = "Use a running server"
_WATCH: Final = "Watch a running server"
_REPOSITORY: Final = "Model repositories"
_CLUSTER: Final = "Operate"
_MEASURE: Final = "Measure and tune"
_ITSELF: Final = "This command"

COMMANDS: Final = (
    Command("serve", "", _SERVE, "start a server: manta serve --model-repository PATH"),
    Command("check", "cluster.commands.check.command:main", _SERVE, "find what is wrong with a"
            " model repository before it is served"),
    Command("doctor", "cluster.commands.doctor.command:main", _SERVE, "find what leaves a server"
            " open to others"),
    Command("ls", "cluster.commands.client.listing:ls", _MODELS, "list models: version, state,"
            " instances, reason"),
    Command("show", "cluster.commands.client.show:main", _MODELS, "show a model's inputs and"
            " outputs, and a call for curl"),
    Command("infer", "cluster.commands.client.infer:main", _MODELS, "run a model on numbers, texts"
            " or files"),
    Command("load", "cluster.commands.client.control:load", _MODELS, "load models, or load them"
            " anew"),
    Command("unload", "cluster.commands.client.control:unload", _MODELS, "unload models"),
    Command("config", "cluster.commands.client.config:main", _MODELS, "print the config of a"
            " model, or compare it with a file"),
    Command("graph", "cluster.commands.graph:main", _MODELS, "draw the steps of an ensemble"),
    Command("rollout", "cluster.commands.rollout:main", _MODELS, "move requests to another version"
            " of a model"),
    Command("replay", "cluster.commands.replay.command:main", _MODELS, "send captured requests"
            " again and compare the answers"),
    Command("status", "cluster.commands.client.listing:status", _WATCH, "say whether a server is"
            " ready, and what it serves"),
    Command("ps", "cluster.commands.client.listing:ps", _WATCH, "list instances: process, node,"
            " device, restarts"),
    Command("top", "cluster.commands.client.watch:top", _WATCH, "show requests and latencies of"
            " models as they go"),
    Command("events", "cluster.commands.client.watch:events", _WATCH, "print what becomes of models"
            " and instances"),
    Command("logs", "cluster.commands.client.logs:main", _WATCH, "print what a server on this"
            " machine has logged"),
    Command("explain", "cluster.commands.explain:main", _WATCH, "say why instances are where they"
            " are, or what they wait for"),
    Command("init", "cluster.commands.scaffold:main", _REPOSITORY, "write the folder of a new"
            " model"),
    Command("model", "cluster.commands.publish.command:main", _REPOSITORY, "publish, list, compare"
            " and sign models of a repository"),
    Command("policy", "cluster.commands.policy.command:main", _CLUSTER, "check and try access"
            " policies, make keys"),
    Command("upgrade", "cluster.server.upgrade_command:main", _CLUSTER, "put this release in the"
            " place of the one that runs"),
    Command("node-resources", "cluster.commands.node_resources:main", _CLUSTER, "print what 'ray"
            " start' has to be told of this machine's GPUs"),
    Command("env", "cluster.commands.environment:main", _CLUSTER, "print what Ray's commands need,"
            " and a report for issues"),
    Command("perf", "", _MEASURE, "send load to a server and measure it, as perf_analyzer"),
    Command("genai-perf", "", _MEASURE, "the same for language models, as GenAI-Perf"),
    Command("analyze", "", _MEASURE, "search for the best config of a model, as Model Analyzer"),
    Command("tune", "", _MEASURE, "adjust how a served model is batched, while it serves"),
    Command("completion", "cluster.commands.completion:main", _ITSELF, "print a script that"
            " completes command lines: bash, zsh, fish"),
    Command("version", "", _ITSELF, "print the version"),
    Command("help", "", _ITSELF, "print this, or the help of a command"),
)  # fmt: skip
OF_TOOLS: Final = frozenset(each.name for each in COMMANDS if each.is_of_tools)
BY_NAME: Final = {each.name: each for each in COMMANDS}


def help_text(installed: Collection[str]) -> str:
    """Return what ``manta --help`` prints where other distributions have these commands."""
    return "\n".join(_lines(installed))


def _lines(installed: Collection[str]) -> Iterator[str]:
    yield from (_TITLE, "", _USAGE)
    width = max(len(name) for name in (*BY_NAME, *installed))
    group = ""
    for each in COMMANDS:
        if each.group != group:
            group = each.group
            yield from ("", f"{group}:")
        is_missing = each.is_of_tools and each.name not in installed
        note = f"  (pip install {TOOLS})" if is_missing else ""
        yield f"  {each.name:<{width}}  {each.summary}{note}"
    others = sorted(set(installed) - BY_NAME.keys())
    if others:
        yield from ("", f"{_OTHERS}:", *(f"  {name}" for name in others))
    yield from ("", _END)


def unknown(name: str, installed: Collection[str]) -> str:
    """Return what is said of a command that nobody has."""
    near = difflib.get_close_matches(name, [*BY_NAME, *installed], n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"there is no command '{name}'.{hint} 'manta --help' lists all."
