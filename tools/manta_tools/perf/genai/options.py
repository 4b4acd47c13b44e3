# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of ``manta genai-perf profile``, a field each.

Names, defaults and meanings are genai-perf's; those of the last group are Manta's.

Triton: perf_analyzer/genai-perf/genai_perf/parser.py, config/input/config_defaults.py @263c5f6
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeVar

from manta_tools.perf.genai import values
from manta_tools.perf.genai.metrics import GOODPUT_METRICS

T = TypeVar("T")

_ENDPOINT: Final = "Endpoint"
_INPUT: Final = "Input"
_PROFILING: Final = "Profiling"
_SESSION: Final = "Session"
_TOKENIZER: Final = "Tokenizer"
_OUTPUT: Final = "Output"
_OWN: Final = "Not genai-perf's"


@dataclass(frozen=True, slots=True)
class Option:
    """How one option is given.

    Attributes:
        flags: Its names, with dashes.
        group: Heading in the help.
        meaning: One sentence.
        parse: Reads one value; None for a switch.
        takes: How many values follow it, as argparse says it: empty for one.
        is_repeatable: Whether the values of all occurrences count.
    """

    flags: tuple[str, ...]
    group: str
    meaning: str
    parse: Callable[[str], Any] | None
    takes: str = ""
    is_repeatable: bool = False


def _option(
    default: T,
    group: str,
    meaning: str,
    parse: Callable[[str], Any] | None = None,
    *,
    also: tuple[str, ...] = (),
    name: str = "",
    is_repeatable: bool = False,
) -> T:
    metadata = {
        "group": group,
        "meaning": meaning,
        "parse": None if isinstance(default, bool) else parse or str,
        "takes": "+" if isinstance(default, tuple) and not is_repeatable else "",
        "is_repeatable": is_repeatable,
        "also": also,
        "name": name,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class GenaiOptions:
    """The options of a run; `OPTIONS` says how each is given, and what it means."""

    models: tuple[str, ...] = _option(
        (),
        _ENDPOINT,
        "The model, or several that requests are spread over; required.",
        name="model",
        also=("-m",),
    )
    model_selection_strategy: str = _option(
        "round_robin",
        _ENDPOINT,
        "How several models are chosen: round_robin or random.",
        values.word("round_robin", "random"),
    )
    backend: str = _option(
        "tensorrtllm",
        _ENDPOINT,
        "Backend of a model behind kserve: tensorrtllm or vllm.",
        values.word("tensorrtllm", "vllm"),
    )
    endpoint: str = _option("", _ENDPOINT, "The endpoint's path, where it is not that of its type.")
    endpoint_type: str = _option(
        "kserve",
        _ENDPOINT,
        "kserve for tensors over a stream of gRPC, chat, completions, or generate.",
        values.endpoint_type,
    )
    streaming: bool = _option(False, _ENDPOINT, "Have answers come in parts.")
    url: str = _option(
        "",
        _ENDPOINT,
        "Server, host:port; localhost:8000, or :8001 for kserve.",
        also=("-u",),
    )

    extra_inputs: tuple[tuple[tuple[str, Any], ...], ...] = _option(
        (),
        _INPUT,
        "A field of every request, name:value, or several as a JSON object.",
        values.extra_inputs,
        is_repeatable=True,
    )
    goodput: tuple[tuple[str, float], ...] = _option(
        (),
        _INPUT,
        "Limits of a good request, metric:value, in milliseconds or tokens a second.",
        values.objective(GOODPUT_METRICS),
        also=("-g",),
    )
    header: tuple[str, ...] = _option(
        (),
        _INPUT,
        "A header of every request, name:value.",
        also=("-H",),
        is_repeatable=True,
    )
    input_file: str = _option(
        "",
        _INPUT,
        "Prompts: a file or directory of JSON lines with text, or payload:FILE; made up where left "
        "out.",
        values.input_file,
    )
    num_dataset_entries: int = _option(
        100,
        _INPUT,
        "How many prompts are made up; they are sent in turn.",
        values.least(1),
        also=("--num-prompts",),
    )
    num_prefix_prompts: int = _option(
        0, _INPUT, "How many prefixes the prompts share; 0 for none.", values.least(0)
    )
    prefix_prompt_length: int = _option(100, _INPUT, "Tokens of a prefix.", values.least(1))
    synthetic_input_tokens_mean: int = _option(
        550, _INPUT, "Mean of the tokens of made-up prompts.", values.least(1), also=("--isl",)
    )
    synthetic_input_tokens_stddev: int = _option(
        0, _INPUT, "Their standard deviation.", values.least(0)
    )
    output_tokens_mean: int | None = _option(
        None,
        _INPUT,
        "Mean of the most tokens of answers; the server's own limit where left out.",
        values.least(1),
        also=("--osl",),
    )
    output_tokens_stddev: int = _option(0, _INPUT, "Its standard deviation.", values.least(0))
    output_tokens_mean_deterministic: bool = _option(
        False, _INPUT, "Have answers be no shorter than that; kserve only."
    )
    random_seed: int = _option(
        0, _INPUT, "Seed of prompts, lengths, sessions and arrivals.", values.least(0)
    )
    warmup_request_count: int = _option(
        0,
        _INPUT,
        "Requests before the measurement.",
        values.least(0),
        also=("--num-warmup-requests",),
    )

    concurrency: int | None = _option(
        None, _PROFILING, "Requests in flight; 1 where no load is given.", values.least(1)
    )
    request_rate: float | None = _option(None, _PROFILING, "Requests a second.", values.positive)
    fixed_schedule: bool = _option(
        False, _PROFILING, "Send each entry of a payload file once, at its timestamp."
    )
    measurement_interval: int | None = _option(
        None,
        _PROFILING,
        "Measure windows of so many milliseconds, three of them or more.",
        values.least(1),
        also=("-p",),
    )
    request_count: int | None = _option(
        None,
        _PROFILING,
        "Measure so many requests; where neither is given 10, twice the concurrency, or a second "
        "of the rate, whichever is most.",
        values.least(1),
        also=("--num-requests",),
    )
    stability_percentage: float = _option(
        999.0,
        _PROFILING,
        "How far three windows may lie apart.",
        values.positive,
        also=("-s",),
    )

    num_sessions: int = _option(0, _SESSION, "How many sessions are made up.", values.least(1))
    session_concurrency: int | None = _option(
        None, _SESSION, "Sessions at once; each is had once.", values.least(1)
    )
    session_delay_ratio: float = _option(
        1.0, _SESSION, "By what delays of a payload file are multiplied.", values.positive
    )
    session_turn_delay_mean: int = _option(
        0,
        _SESSION,
        "Mean of the milliseconds between an answer and the next turn.",
        values.least(0),
    )
    session_turn_delay_stddev: int = _option(
        0, _SESSION, "Their standard deviation.", values.least(0)
    )
    session_turns_mean: int = _option(1, _SESSION, "Mean of a session's turns.", values.least(1))
    session_turns_stddev: int = _option(0, _SESSION, "Their standard deviation.", values.least(0))

    tokenizer: str = _option(
        "",
        _TOKENIZER,
        "Path of a tokenizer.json, or of the directory that has it; built in and approximate where "
        "left out.",
    )

    artifact_dir: Path = _option(
        Path("artifacts"), _OUTPUT, "Where the folder of the run's files is made.", Path
    )
    profile_export_file: str = _option(
        "profile_export.json",
        _OUTPUT,
        "Name of the file of all requests, from which those of the others are made.",
        values.file_name,
    )
    verbose: bool = _option(False, _OUTPUT, "Print each window.", also=("-v",))

    text_input_name: str = _option("text_input", _OWN, "The prompt's tensor; kserve and generate.")
    text_output_name: str = _option(
        "text_output", _OWN, "The answer's tensor; kserve and generate."
    )
    stream_name: str = _option(
        "stream", _OWN, "The tensor that asks for parts; kserve and generate."
    )
    sampling_parameters_name: str = _option(
        "sampling_parameters", _OWN, "The tensor with the limit of tokens; vllm behind kserve."
    )
    no_server_tokens: bool = _option(
        False,
        _OWN,
        "Do not ask for the server's own count of tokens, and do not use it.",
    )


def _flags(name: str, metadata: Any) -> tuple[str, ...]:
    long = f"--{(metadata['name'] or name).replace('_', '-')}"
    also = metadata["also"]
    return (*(each for each in also if len(each) == 2), long, *(e for e in also if len(e) > 2))  # noqa: PLR2004 - a letter


OPTIONS: Final[dict[str, Option]] = {
    row.name: Option(
        _flags(row.name, row.metadata),
        **{key: value for key, value in row.metadata.items() if key not in ("also", "name")},
    )
    for row in fields(GenaiOptions)
}
DEFAULTS: Final[dict[str, Any]] = {row.name: row.default for row in fields(GenaiOptions)}
