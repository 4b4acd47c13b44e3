# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the command line of ``manta genai-perf profile``.

Triton: perf_analyzer/genai-perf/genai_perf/parser.py @263c5f6
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from manta_tools.perf.genai.options import DEFAULTS, OPTIONS, GenaiOptions, Option
from manta_tools.perf.options.parsing import UsageError

PROGRAM: Final = "manta genai-perf profile"
_KSERVE: Final = "kserve"

_DOWNLOADS: Final = "nothing is downloaded; give a path to --tokenizer"
_OTHER_MODELS: Final = "only language models are measured"
# genai-perf's options that mean nothing here, and why.
_REFUSED: Final = {
    "--tokenizer-revision": _DOWNLOADS,
    "--tokenizer-trust-remote-code": _DOWNLOADS,
    "--generate-plots": "there are no plots; profile_export.json has what they would show",
    "--enable-checkpointing": "a run starts anew",
    "--checkpoint-dir": "a run starts anew",
    "--server-metrics-url": "metrics of GPUs are not read; manta perf --collect-metrics does",
    "--server-metrics-urls": "metrics of GPUs are not read; manta perf --collect-metrics does",
    "--grpc-method": "calls of other services are not made",
    "--batch-size": _OTHER_MODELS,
    "--batch-size-text": _OTHER_MODELS,
    "--batch-size-image": _OTHER_MODELS,
    "--batch-size-audio": _OTHER_MODELS,
    "-b": _OTHER_MODELS,
}


class Parser(argparse.ArgumentParser):
    """One that raises what it would print."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(f"{message}\n{self.format_usage().rstrip()}")


def parse_profile(argv: Sequence[str]) -> tuple[GenaiOptions, tuple[str, ...]]:
    """Read the arguments after ``profile``; return the options, and what follows ``--``.

    Raises:
        UsageError: An option is unknown, has a wrong value, or does not go with another.
    """
    arguments = list(argv)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for argument in arguments[:end]:
        if reason := _REFUSED.get(argument.partition("=")[0]):
            raise UsageError(f"{argument.partition('=')[0]} is not supported: {reason}")
    given = vars(_parser().parse_args(arguments[:end]))
    options = GenaiOptions(**{name: _frozen(value) for name, value in given.items()})
    for message, is_refused in _RULES:
        if is_refused(options, frozenset(given)):
            raise UsageError(message)
    return options, tuple(arguments[end + 1 :])


def usage() -> str:
    """Render the help, grouped."""
    return _parser().format_help().rstrip()


def options_table() -> str:
    """Render the options as the tables of docs/genai-perf.md."""
    lines: list[str] = []
    group = ""
    for name, option in OPTIONS.items():
        if option.group != group:
            group = option.group
            lines += ["", f"### {group}", "", "| option | default | meaning |", "|---|---|---|"]
        flags = ", ".join(f"`{flag}`" for flag in option.flags)
        lines.append(f"| {flags} | {_shown(name)} | {option.meaning} |")
    return "\n".join(lines[1:])


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog=PROGRAM, usage=f"{PROGRAM} -m MODEL [options] [-- manta perf's options]")
    groups: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group)
        groups[option.group].add_argument(
            *option.flags, dest=name, default=argparse.SUPPRESS, **_form(name, option)
        )
    return parser


def _form(name: str, option: Option) -> dict[str, Any]:
    shown = _shown(name)
    help_text = f"{option.meaning} Default {shown}." if shown else option.meaning
    form: dict[str, Any] = {"help": help_text.replace("%", "%%")}
    if option.parse is None:
        return {**form, "action": "store_true"}
    form |= {"type": option.parse, "metavar": "VALUE"}
    if option.is_repeatable:
        form["action"] = "append"
    if option.takes:
        form["nargs"] = option.takes
    return form


def _shown(name: str) -> str:
    default = DEFAULTS[name]
    if default is None or default is False or default in ("", ()):
        return ""
    return f"{default:g}" if isinstance(default, float) else str(default)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_LOADS: Final = ("concurrency", "request_rate", "fixed_schedule", "session_concurrency")
_Refused = Callable[[GenaiOptions, frozenset[str]], bool]


def _asks_for_length(options: GenaiOptions, given: frozenset[str]) -> bool:
    """Whether the length of a run is given that is as long as its data."""
    is_whole = options.fixed_schedule or options.session_concurrency is not None
    return is_whole and not given.isdisjoint(
        ("request_count", "measurement_interval", "warmup_request_count")
    )


_RULES: Final[tuple[tuple[str, _Refused], ...]] = (
    ("the following arguments are required: -m/--model", lambda o, _: not o.models),
    (
        "--concurrency, --request-rate, --fixed-schedule and --session-concurrency exclude each "
        "other; give one",
        lambda _, given: sum(name in given for name in _LOADS) > 1,
    ),
    (
        "--measurement-interval and --request-count exclude each other; give one",
        lambda _, given: {"measurement_interval", "request_count"} <= given,
    ),
    (
        "--backend is of models behind --endpoint-type kserve; leave one of them out",
        lambda o, given: "backend" in given and o.endpoint_type != _KSERVE,
    ),
    (
        "--endpoint is a path of HTTP; it does not go with --endpoint-type kserve",
        lambda o, _: bool(o.endpoint) and o.endpoint_type == _KSERVE,
    ),
    (
        "--endpoint-type kserve takes one model; of several requests would differ in their tensors",
        lambda o, _: len(o.models) > 1 and o.endpoint_type == _KSERVE,
    ),
    (
        "--output-tokens-mean-deterministic is only supported with --endpoint-type kserve",
        lambda o, _: o.output_tokens_mean_deterministic and o.endpoint_type != _KSERVE,
    ),
    (
        "--session-concurrency is of chats: give --endpoint-type chat",
        lambda o, _: o.session_concurrency is not None and o.endpoint_type != "chat",
    ),
    (
        "--num-sessions makes sessions for --session-concurrency: give that too, and no "
        "--input-file",
        lambda o, _: o.num_sessions > 0 and (o.session_concurrency is None or bool(o.input_file)),
    ),
    (
        "--session-concurrency takes --num-sessions, or --input-file payload:FILE",
        lambda o, _: (
            o.session_concurrency is not None
            and not o.num_sessions
            and not o.input_file.startswith("payload:")
        ),
    ),
    (
        "--fixed-schedule takes --input-file payload:FILE, with a timestamp in every line, and an "
        "--endpoint-type of HTTP",
        lambda o, _: (
            o.fixed_schedule
            and (not o.input_file.startswith("payload:") or o.endpoint_type == _KSERVE)
        ),
    ),
    (
        "--request-count, --measurement-interval and --warmup-request-count do not go with "
        "--fixed-schedule and --session-concurrency, which are as long as their data",
        _asks_for_length,
    ),
)
