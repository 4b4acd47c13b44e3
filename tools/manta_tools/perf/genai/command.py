# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``manta genai-perf``."""

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import uvloop

from backends.api.errors import TritonError
from cluster import __version__
from manta_tools.perf.genai import files, merging, parsing
from manta_tools.perf.genai.dataset import Recipe, make_turns
from manta_tools.perf.genai.endpoints import TensorNames, Wish, bodies
from manta_tools.perf.genai.export import Outcome, document, outcome, reported
from manta_tools.perf.genai.options import GenaiOptions
from manta_tools.perf.genai.perf_options import artifact_name, endpoint_of, perf_options
from manta_tools.perf.genai.prompts import Amount, PromptMaker
from manta_tools.perf.genai.reporting import Reading, report
from manta_tools.perf.genai.run import Run, write_inputs
from manta_tools.perf.genai.tokenizing import Tokenizer, read_tokenizer
from manta_tools.perf.options.checks import is_rate
from manta_tools.perf.options.parsing import UsageError
from manta_tools.perf.profiler import Measurement

_USAGE: Final = """Usage: manta genai-perf profile -m MODEL [options] [--help]
       manta genai-perf process-export-files [-d DIRECTORY] [--help]"""
_FAILED: Final = 1
# As argparse reports options that are wrong.
_WRONG_OPTIONS: Final = 2
# As shells report a command that SIGINT has ended.
_INTERRUPTED: Final = 130
_INPUTS: Final = "inputs.json"


def main(arguments: Sequence[str]) -> int:
    """Run ``manta genai-perf`` and return its exit code: 0, 1 for a failure, 2, or 130."""
    command, *rest = arguments or [""]
    if command not in _COMMANDS:
        is_help = command in ("-h", "--help")
        print(_USAGE, file=sys.stdout if is_help else sys.stderr)
        return 0 if is_help else _WRONG_OPTIONS
    try:
        return _COMMANDS[command](rest)
    except (asyncio.CancelledError, KeyboardInterrupt):
        return _INTERRUPTED
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return _WRONG_OPTIONS
    except TritonError as error:
        print(f"error: {error}", file=sys.stderr)
        return _FAILED


def _profile(arguments: Sequence[str]) -> int:
    if "--help" in arguments or "-h" in arguments:
        print(parsing.usage())
        return 0
    options, passed = parsing.parse_profile(arguments)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(profile(options, passed))


def _merge(arguments: Sequence[str]) -> int:
    is_help = not {"--help", "-h"}.isdisjoint(arguments)
    print(merging.merge_usage() if is_help else merging.merge(merging.parse_merge(arguments)))
    return 0


async def profile(options: GenaiOptions, passed: Sequence[str] = ()) -> int:
    """Run what options ask for, print and write its reports, and return the exit code.

    Args:
        options: What is asked for.
        passed: Options of ``manta perf`` besides.

    Raises:
        UsageError: Options contradict each other.
        TritonError: The server cannot be reached or refuses, or data does not fit the model.
    """
    tokenizer = read_tokenizer(options.tokenizer)
    directory = options.artifact_dir / artifact_name(options)
    run = _prepared(options, tokenizer, directory, passed)
    async with run:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, run.interrupt)
        try:
            measured = await run.measure()
        finally:
            loop.remove_signal_handler(signal.SIGINT)
    reading = Reading(
        run.endpoint,
        _names(options),
        tokenizer,
        options.streaming,
        options.no_server_tokens,
        dict(options.goodput),
    )
    _finish(run, measured, options, reading, directory)
    return _INTERRUPTED if run.is_interrupted else 0


def _prepared(
    options: GenaiOptions, tokenizer: Tokenizer, directory: Path, passed: Sequence[str]
) -> Run:
    """Make the data, write it, and return the run."""
    endpoint = endpoint_of(options)
    maker = PromptMaker(tokenizer, options.random_seed)
    turns = make_turns(_recipe(options), maker, options.input_file)
    wish = _wish(options)
    made = bodies(endpoint, turns, wish)
    directory.mkdir(parents=True, exist_ok=True)
    inputs = directory / _INPUTS
    write_inputs(inputs, endpoint, made, turns)
    return Run(
        perf_options(options, inputs, passed),
        endpoint,
        turns,
        made,
        wish,
        print,
        session_concurrency=options.session_concurrency or 0,
    )


def _finish(
    run: Run, measured: Measurement, options: GenaiOptions, reading: Reading, directory: Path
) -> None:
    epoch_ns = time.time_ns() - time.monotonic_ns()
    found = outcome(
        reported(measured),
        run.endpoint,
        run.turns,
        run.bodies,
        reading.names,
        epoch_ns=epoch_ns,
        is_streaming=options.streaming,
    )
    export = directory / options.profile_export_file
    export.write_bytes(
        document(
            found.rows,
            mode=("request_rate" if is_rate(run.options) else "concurrency", measured.level),
            service_kind=run.endpoint.service_kind,
            endpoint=run.options.endpoint,
            boundaries_ns=[epoch_ns + each for each in measured.boundaries_ns],
            release=__version__,
        )
    )
    config = files.input_config(options, run.endpoint, directory)
    print(report(found.rows, reading, config, export))
    for line in _warnings(run, measured, found):
        print(line, file=sys.stderr)
    print(f"Files are in {directory}")


def _warnings(run: Run, measured: Measurement, found: Outcome) -> list[str]:
    lines = []
    if not (measured.is_stable or run.is_interrupted):
        lines.append(
            f"warning: no three of {run.options.max_trials} windows agree to "
            f"{run.options.stability_percentage:g} %; the last ones are reported"
        )
    if run.warning:
        lines.append(f"warning: {run.warning} ({found.cut} answers were left out)")
    if found.failures:
        lines.append(f"warning: {found.failures} requests failed; the first: {found.first_error}")
    return lines


def _names(options: GenaiOptions) -> TensorNames:
    return TensorNames(
        options.text_input_name,
        options.text_output_name,
        options.stream_name,
        options.sampling_parameters_name,
    )


def _wish(options: GenaiOptions) -> Wish:
    return Wish(
        options.models,
        options.model_selection_strategy == "random",
        options.streaming,
        not options.no_server_tokens,
        options.output_tokens_mean_deterministic,
        {name: value for group in options.extra_inputs for name, value in group},
        _names(options),
        options.random_seed,
    )


def _recipe(options: GenaiOptions) -> Recipe:
    output = None
    if options.output_tokens_mean is not None:
        output = Amount(options.output_tokens_mean, options.output_tokens_stddev)
    return Recipe(
        options.num_dataset_entries,
        Amount(options.synthetic_input_tokens_mean, options.synthetic_input_tokens_stddev),
        output,
        options.num_prefix_prompts,
        options.prefix_prompt_length,
        options.num_sessions,
        Amount(options.session_turns_mean, options.session_turns_stddev),
        Amount(options.session_turn_delay_mean, options.session_turn_delay_stddev),
        options.session_delay_ratio,
    )


_COMMANDS: Final[dict[str, Callable[[Sequence[str]], int]]] = {
    "profile": _profile,
    "process-export-files": _merge,
}
