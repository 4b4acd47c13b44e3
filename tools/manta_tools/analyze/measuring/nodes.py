# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Measures on free nodes of a Ray cluster: an actor on each, which has a server and clients there.

An actor reserves all of its node, so that nothing else is started there. Its server has a Ray of
its own: requests and answers stay on the node, and only trials and outcomes travel.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import ray
import uvloop
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from backends.api.errors import TritonError, UnavailableError
from backends.api.model_config import ModelConfig
from backends.config.pbtxt import from_json, to_json
from cluster.placement.demand import NodeResources
from cluster.placement.nodes import read_cluster
from manta_tools.analyze.measuring.dispatching import PlaceLostError, Pool
from manta_tools.analyze.measuring.from_options import folder_of, measurer_of, repository_of
from manta_tools.analyze.measuring.measurer import Models
from manta_tools.analyze.measuring.node_choice import CPU, GPU, choose_nodes, name_of
from manta_tools.analyze.options.table import AnalyzeOptions
from manta_tools.analyze.records import Measured, Setting, Trial

# A first process on a node, which may have to unpack the job's folder there.
_ACTOR_START_S: Final = 180.0
# A server that ends drains for up to a minute.
_CLOSE_S: Final = 90.0

Say = Callable[[str], None]
# Takes what the load generator says of a model, and the model's name.
OnReport = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class _Opened:
    """What a node tells once its server runs: GPUs before any model, and how nice processes are."""

    idle_gpus: Mapping[str, Mapping[str, float]]
    niceness: int


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came of a trial, and the load generator's reports: a model and a text each."""

    measured: Measured
    reports: tuple[tuple[str, str], ...]


class _NodeSide:
    """The actor: it measures on its node as the command does on its machine.

    Its methods are no coroutines, so that they run on the process's main thread, on a loop of their
    own: the load generator shares it with nothing of Ray's.

    Args:
        options: The options, with paths that are the same in every folder.
    """

    def __init__(self, options: AnalyzeOptions) -> None:
        self._options = options
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._texts: dict[Setting, str] = {}
        self._composing: dict[str, tuple[str, ...]] = {}
        self._reports: list[tuple[str, str]] = []
        is_reloaded = not options.reload_model_disable
        self._measurer = measurer_of(
            options,
            Models(self._texts.__getitem__, self._composing, is_reloaded=is_reloaded),
            lambda model, text: self._reports.append((model, text)),
        )

    def is_there(self) -> bool:
        """Return true."""
        return True

    def open(self) -> _Opened:
        """Start the server.

        Raises:
            UnavailableError: The model repository is missing, or the server does not start.
        """
        folder = folder_of(self._options)
        if folder is not None and not folder.is_dir():
            raise UnavailableError(
                f"model repository '{folder}' is no directory there, expected it at the same path "
                "on every node; mount it there, or give a URL"
            )
        if self._options.triton_output_path:
            Path(self._options.triton_output_path).parent.mkdir(parents=True, exist_ok=True)
        self._runner.run(self._measurer.connect())
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        return _Opened(self._measurer.idle_gpus, niceness)

    def default_config(self, model: str) -> bytes:
        """Return a model's config as JSON; raises as the measurer's does."""
        return to_json(self._runner.run(self._measurer.default_config(model)))

    def measure(
        self,
        trial: Trial,
        texts: Mapping[Setting, str],
        composing: Mapping[str, tuple[str, ...]],
    ) -> _Answer:
        """Measure a trial with these configs of its settings; raises as the measurer's does."""
        self._texts.update(texts)
        self._composing.update(composing)
        self._reports.clear()
        measured = self._runner.run(self._measurer.measure(trial))
        return _Answer(measured, tuple(self._reports))

    def close(self) -> None:
        """Stop the server."""
        self._runner.run(self._measurer.close())


class _RayNode:
    """A node as the analysis sees it: a place that is called through its actor.

    Args:
        name: What lines call it.
        actor: The handle.
        models: What is known of the models, also what becomes known later.
        on_report: Takes reports of the load generator; None for nobody.

    Attributes:
        name: The same.
        idle_gpus: Metrics of its GPUs by UUID before any model was loaded.
        niceness: Of its processes.
    """

    def __init__(self, name: str, actor: Any, models: Models, on_report: OnReport | None) -> None:
        self.name = name
        self.idle_gpus: Mapping[str, Mapping[str, float]] = {}
        self.niceness = 0
        self._actor, self._models, self._on_report = actor, models, on_report
        # Whether its server runs, and the actor has nothing else to do.
        self._is_idle = False

    async def open(self) -> None:
        """Wait until its server runs.

        Raises:
            PlaceLostError: It does not start there.
        """
        try:
            async with asyncio.timeout(_ACTOR_START_S):
                await self._call("is_there")
            opened: _Opened = await self._call("open")
        except TimeoutError:
            raise self._lost(
                f"no process has started there within {_ACTOR_START_S:g} s: its CPUs were taken "
                "meanwhile, or the job's environment cannot be made there"
            ) from None
        except PlaceLostError:
            raise
        except TritonError as error:
            raise self._lost(str(error)) from None
        self.idle_gpus, self.niceness = opened.idle_gpus, opened.niceness
        self._is_idle = True

    async def measure(self, trial: Trial) -> Measured:
        """Have a trial measured there; raises as `Place.measure` does."""
        texts = {each: self._models.override(each) for each in trial.candidate.settings}
        self._is_idle = False
        try:
            answer: _Answer = await self._call("measure", trial, texts, self._models.composing)
        except PlaceLostError:
            raise
        except TritonError as error:
            # No outcome of the trial: the server does not start there any more.
            raise self._lost(str(error)) from None
        self._is_idle = True
        if self._on_report:
            for model, text in answer.reports:
                self._on_report(model, text)
        return answer.measured

    async def default_config(self, model: str) -> ModelConfig:
        """Return a model's config; raises as `Place.default_config` does."""
        return from_json(await self._call("default_config", model))

    async def close(self) -> None:
        """Give the node back, once its server has stopped; at once where a trial is given up."""
        # The actor does one thing after the other. Its server ends with it in any case.
        if self._is_idle:
            with contextlib.suppress(TritonError, TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await self._call("close")
        with contextlib.suppress(RayError):
            ray.kill(self._actor)

    async def _call(self, method: str, *arguments: object) -> Any:
        """Call the actor.

        Raises:
            TritonError: What the method raises.
            PlaceLostError: The actor is gone, or the method failed as none should.
        """
        try:
            answer = getattr(self._actor, method).remote(*arguments)
            return await asyncio.wrap_future(answer.future())
        except RayTaskError as error:
            if isinstance(error.cause, TritonError):
                raise error.cause from None
            raise self._lost(_last_line(error)) from error
        except RayError as error:
            raise self._lost(_last_line(error)) from error

    def _lost(self, reason: str) -> PlaceLostError:
        return PlaceLostError(f"node {self.name} is left out: {reason}")


@asynccontextmanager
async def pool_on_nodes(
    options: AnalyzeOptions, models: Models, say: Say, on_report: OnReport | None = None
) -> AsyncIterator[Pool]:
    """Have servers on free nodes of the cluster that this process is on, and end them.

    Args:
        options: The options, completed.
        models: What is known of the models, also what becomes known later.
        say: Takes lines about nodes.
        on_report: Takes reports of the load generator; None for nobody.

    Raises:
        UnavailableError: There is no cluster, none of its nodes is free, or on none a server
            starts.
    """
    _join()
    try:
        choice = choose_nodes((await read_cluster()).nodes, options.nodes)
        for note in choice.notes:
            say(f"note: {note}")
        nodes = [
            _RayNode(name_of(each), _actor_on(each, options), models, on_report)
            for each in choice.nodes
        ]
        try:
            opened = await _opened(nodes, say)
            for line in _lines_about(opened):
                say(line)
            yield Pool(opened, say, asdict(choice.kind))
        finally:
            await asyncio.gather(*(each.close() for each in nodes))
    finally:
        ray.shutdown()


def _join() -> None:
    """Become a driver of the cluster that RAY_ADDRESS names, or of the one on this machine."""
    address = os.environ.get("RAY_ADDRESS", "")
    remedy = (
        "start the analysis on a node of the cluster, or with 'ray job submit', or leave out "
        "--nodes"
    )
    if "://" in address:
        raise UnavailableError(
            f"--nodes: RAY_ADDRESS is '{address}', expected auto or <host>:<port> of a cluster "
            f"that this machine is a node of; {remedy}"
        )
    try:
        ray.init(address="auto", logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UnavailableError(
            f"--nodes: there is no Ray cluster at '{address or 'auto'}': {error}; {remedy}"
        ) from error


def _actor_on(node: NodeResources, options: AnalyzeOptions) -> Any:
    """Return the actor of a node, which has all of its CPUs and GPUs."""
    log = options.triton_output_path
    its_options = replace(
        options,
        model_repository=repository_of(options),
        triton_output_path=f"{Path(log).resolve()}.{node.node_id[:8]}" if log else "",
    )
    actor = ray.remote(_NodeSide).options(
        num_cpus=node.total[CPU],
        num_gpus=node.total.get(GPU, 0.0),
        max_restarts=0,
        max_task_retries=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=False),
    )
    return actor.remote(its_options)


async def _opened(nodes: Sequence[_RayNode], say: Say) -> list[_RayNode]:
    """Return the nodes whose servers run, and say of the others why they do not.

    Raises:
        UnavailableError: There is none.
    """
    outcomes = await asyncio.gather(*(each.open() for each in nodes), return_exceptions=True)
    reasons = []
    for outcome in outcomes:
        if isinstance(outcome, PlaceLostError):
            reasons.append(str(outcome))
        elif outcome is not None:
            raise outcome
    if len(reasons) == len(nodes):
        raise UnavailableError(
            f"on none of {len(nodes)} nodes trials can be measured: {'; '.join(reasons)}"
        )
    for reason in reasons:
        say(f"note: {reason}")
    return [each for each, outcome in zip(nodes, outcomes, strict=True) if outcome is None]


def _lines_about(nodes: Sequence[_RayNode]) -> list[str]:
    lines = [f"Measuring on {len(nodes)} nodes: {', '.join(each.name for each in nodes)}"]
    niceness = max(each.niceness for each in nodes)
    if niceness > 0:
        lines.append(
            f"note: processes of this Ray cluster run at nice {niceness} and starve beside others; "
            "set RAY_worker_niceness=0 where Ray is started, on every node"
        )
    return lines


def _last_line(error: RayError) -> str:
    """Return why, of an error that begins with where."""
    return str(error).strip().split("\n")[-1].strip()
