# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The command ``manta analyze``."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import uvloop

from backends.api.errors import InvalidArgumentError, TritonError
from manta_tools.analyze import plans
from manta_tools.analyze.checkpoints import Checkpoint
from manta_tools.analyze.measuring.from_options import folder_of
from manta_tools.analyze.measuring.repository import Repository
from manta_tools.analyze.options.option import REPORT
from manta_tools.analyze.options.parsing import Invocation, parse, usage
from manta_tools.analyze.options.table import AnalyzeOptions
from manta_tools.analyze.profiling import Outcome, profile
from manta_tools.analyze.reports.files import (
    best_names,
    write_best_across,
    write_details,
    write_summaries,
)
from manta_tools.analyze.results.files import write_results
from manta_tools.analyze.results.groups import Noted, read_noted
from manta_tools.analyze.results.winners import (
    best_candidates,
    require_empty,
    served_directories,
    winning_configs,
    write_winner,
)
from manta_tools.pages.rendering import require_libraries

_FAILURE: Final = 1
# As shells report a command that SIGINT has ended.
_INTERRUPTED: Final = 130
_HELP: Final = ("--help", "-h", "help")
_PLAN: Final = "plan"

Say = Callable[[str], None]


def main(arguments: Sequence[str]) -> int:
    """Run ``manta analyze`` and return its exit code: 0, 1 when it failed, or 130.

    ``plan`` has a help and options of its own.
    """
    is_plan = list(arguments[:1]) == [_PLAN]
    if not arguments or (not is_plan and any(each in _HELP for each in arguments)):
        command = REPORT if REPORT in arguments else "profile"
        print(usage(command))
        return 0 if arguments else _FAILURE
    try:
        if is_plan:
            return plans.main(arguments[1:])
        invocation = parse(arguments, lambda path: Path(path).read_text(encoding="utf-8"))
        for warning in invocation.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        return (_report if invocation.command == REPORT else _profile)(invocation)
    except (asyncio.CancelledError, KeyboardInterrupt):
        return _INTERRUPTED
    except (TritonError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return _FAILURE


def _profile(invocation: Invocation) -> int:
    options = invocation.options
    _check(options)
    say = _quiet if invocation.verbosity < 0 else print
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(profile(options, say))
        _publish(outcome, options, say)
        if options.apply:
            runner.run(_apply(outcome.noted, options, say))
    if not outcome.is_complete:
        print("Stopped; run the same command again to go on.", file=sys.stderr)
        return _INTERRUPTED
    return 0


def _check(options: AnalyzeOptions) -> None:
    """Find out what is missing before a long run, not after it.

    Raises:
        UnavailableError: A library is not installed.
        AlreadyExistsError: The output repository holds something.
        InvalidArgumentError: There is nothing to measure.
    """
    if not options.profile_models:
        raise InvalidArgumentError(
            "no model is given, expected manta analyze MODEL, or --profile-models; see --help"
        )
    if not (options.skip_summary_reports and options.skip_detailed_reports):
        require_libraries()
    require_empty(
        Path(options.output_model_repository_path),
        is_replaced=options.override_output_model_repository,
    )


def _publish(outcome: Outcome, options: AnalyzeOptions, say: Say) -> None:
    noted = outcome.noted
    write_results(noted.found, outcome.idle_gpus, options, say)
    if options.model_repository:
        _write_winners(noted, options, say)
    if not options.skip_summary_reports:
        write_summaries(noted, options, say)
        if options.num_top_model_configs:
            write_best_across(noted, options, say)
    names = best_names(noted, options)
    if names and not options.skip_detailed_reports:
        write_details(noted, options, names, say)
    for line in _hints(noted, names, options):
        say(line)


def _write_winners(noted: Noted, options: AnalyzeOptions, say: Say) -> None:
    repository = folder_of(options)
    if repository is None:
        say("note: the best configurations are not written as models: the repository is no folder")
        return
    directory = Path(options.output_model_repository_path)
    directory.mkdir(parents=True, exist_ok=True)
    for found in noted.found:
        for candidate in best_candidates(found, options.num_configs_per_model):
            written = write_winner(found, candidate, [repository], directory)
            say(f"Model written to {', '.join(map(str, written))}")


def _hints(noted: Noted, names: Sequence[str], options: AnalyzeOptions) -> list[str]:
    if not names:
        return ["No configuration has been measured with success."]
    places = f"--checkpoint-directory {options.checkpoint_directory} -e {options.export_path}"
    hints = [
        f"To generate detailed reports for the {len(names)} best configurations, run "
        f"`manta analyze report --report-model-configs {','.join(names)} {places}`",
        f"To plan for a load, run `manta analyze plan MODEL --rate INFERENCES_A_SECOND "
        f"--checkpoint-directory {options.checkpoint_directory}`",
    ]
    directory = Path(options.output_model_repository_path)
    served = dict.fromkeys(
        f"--model-repository {each}"
        for found in noted.found
        for candidate in best_candidates(found, 1)
        for each in served_directories(found, candidate, directory)
    )
    if options.model_repository and folder_of(options) is not None:
        hints.append(f"To serve the best configuration, run `manta serve {' '.join(served)}`")
    return hints


async def _apply(noted: Noted, options: AnalyzeOptions, say: Say) -> None:
    """Load the best configuration of each group of models into a server that runs.

    Raises:
        UnavailableError: It cannot be reached, or refuses.
    """
    repository = Repository(options.triton_http_endpoint, max_retries=0)
    try:
        await repository.open()
        for found in noted.found:
            for candidate in best_candidates(found, 1):
                names = found.names.names(candidate)
                callers_last = sorted(
                    winning_configs(found, candidate).items(),
                    key=lambda each: bool(found.composing.get(each[0])),
                )
                for model, config in callers_last:
                    await repository.load(model, config)
                    say(f"{names[model]} is loaded into {options.triton_http_endpoint}")
    finally:
        await repository.close()


def _report(invocation: Invocation) -> int:
    options = invocation.options
    require_libraries()
    with Checkpoint.newest(Path(options.checkpoint_directory)) as kept:
        noted = read_noted(kept)
    named = [each.name for each in options.report_model_configs]
    write_details(noted, options, named or best_names(noted, options), print)
    return 0


def _quiet(line: str) -> None:
    """Print nothing."""
