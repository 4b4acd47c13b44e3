# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A request that crashes the instances that execute it, and those that merely were there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from backends.api.errors import InternalError, TritonError, UnavailableError
from backends.api.request import SEQUENCE_END, SEQUENCE_START, InferenceRequest
from deployments.lane.server import ServerRequest
from deployments.routing.pool import LinkPool
from deployments.routing.routed_request import RoutedRequest
from tests.support.cluster_of_instances import Instance, Routed, request, table
from tests.support.lane_rig import Sink, echo, until

# What Python 3.11 writes.
STACK = """some line of the model
Fatal Python error: Segmentation fault

Current thread 0x00007f0c2b7fe640 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "/models/m/1/model.py", line 12 in execute
  File "/opt/manta/deployments/instance/model_execution.py", line 18 in run_model

Extension modules: numpy.core._multiarray_umath (total: 1)
"""
KILLED = ""
Make = Callable[[], Instance]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes instances, each with a log of its own."""

    def made() -> Instance:
        log = tmp_path / f"{len(list(tmp_path.iterdir()))}.err"
        log.write_text("it has begun\n")
        return Instance(log=log)

    return made


def write(log: str, text: str) -> None:
    with Path(log).open("a") as file:
        file.write(text)


async def end(instance: Instance, stack: str) -> None:
    """End an instance as a process ends: what is written is written before its lanes close."""
    assert instance.page is not None
    write(instance.page.place.log, stack)
    await instance.stop()


async def lanes(here: Routed, count: int) -> None:
    await until(lambda: len(here.model.pool.lanes) == count)


def by_turn(*instances: Instance) -> list[Instance]:
    """Return the instances, first the one that has requests."""
    return sorted(instances, key=lambda each: not each.handler.requests)


async def outcome_of(
    make: Make, *ends: str, executes: tuple[bool, bool] = (True, True), **fields: object
) -> tuple[TritonError | None, list[str]]:
    """Send a request to two instances that end in turn, and return its error and their names."""
    first, second = make(), make()
    async with Routed(first, second) as here:
        await lanes(here, 2)
        sink = Sink()
        here.router.submit(here.model, request(**fields), sink)
        names = []
        for is_executed, stack in zip(executes, ends, strict=True):
            await until(lambda: first.handler.requests or second.handler.requests)
            instance = by_turn(first, second)[0]
            names.append(instance.endpoint.name)
            if is_executed:
                instance.execute(*instance.handler.requests)
            instance.handler.requests.clear()
            await end(instance, stack)
        await sink.ended
        return sink.error, names


async def test_a_request_that_crashes_two_instances_ends_with_its_own_error(make: Make) -> None:
    error, (first, second) = await outcome_of(make, STACK, STACK)
    assert isinstance(error, InternalError)
    assert error.message == (
        f"instance '{second}' of model 'm' was ended by SIGSEGV in model.py:12 while it executed "
        f"the request, as was instance '{first}' before: the request is not sent again; fix the "
        f"model or change the request, the instance's log has the stack"
    )


async def test_a_request_that_crashes_one_instance_is_answered_by_another(make: Make) -> None:
    first, second = make(), make()
    async with Routed(first, second) as here:
        await lanes(here, 2)
        sink = Sink()
        here.router.submit(here.model, request(), sink)
        await until(lambda: first.handler.requests or second.handler.requests)
        crashed, other = by_turn(first, second)
        crashed.execute(*crashed.handler.requests)
        await end(crashed, STACK)
        await until(lambda: other.handler.requests)
        echo(other.handler.requests[0])
        await sink.ended
        assert sink.error is None


@pytest.mark.parametrize("ends", [(KILLED, KILLED), (KILLED, STACK), (STACK, KILLED)])
async def test_instances_that_were_killed_are_no_fault_of_the_request(
    make: Make, ends: tuple[str, str]
) -> None:
    error, (first, _) = await outcome_of(make, *ends)
    assert isinstance(error, UnavailableError)
    assert f"as did instance '{first}' before" in error.message
    assert error.message.endswith("; send the request again")


@pytest.mark.parametrize("executes", [(False, False), (False, True), (True, False)])
async def test_a_request_that_waited_while_the_instance_crashed_is_not_to_blame(
    make: Make, executes: tuple[bool, bool]
) -> None:
    error, _ = await outcome_of(make, STACK, STACK, executes=executes)
    assert isinstance(error, UnavailableError)
    assert error.message.endswith("; send the request again")


async def test_a_request_that_cannot_be_sent_again_is_told_what_ended_its_instance(
    make: Make,
) -> None:
    error, (name,) = await outcome_of(
        make, STACK, executes=(True,), correlation_id=7, flags=SEQUENCE_START
    )  # type: ignore[arg-type]
    assert isinstance(error, UnavailableError)
    assert error.message == (
        f"instance '{name}' of model 'm' was ended by SIGSEGV in model.py:12 while it executed the "
        f"request; sequence 7 ended with it, start the sequence again"
    )


async def test_of_the_requests_at_a_crashed_instance_those_that_waited_are_told_apart(
    make: Make,
) -> None:
    first, second, last = make(), make(), Instance(echo)
    async with Routed(first, second, last) as here:
        await lanes(here, 3)
        here.router.links.all()[2].lane.draining = True  # type: ignore[union-attr]
        sinks = [Sink() for _ in range(4)]
        for number, sink in enumerate(sinks):
            here.router.submit(here.model, request(id=str(number)), sink)
        await until(lambda: len(first.handler.requests) == 2 == len(second.handler.requests))
        guilty = first.handler.requests[0].request.id
        first.execute(first.handler.requests[0])
        await end(first, STACK)
        await until(lambda: len(second.handler.requests) == 4)
        second.execute(*(each for each in second.handler.requests if each.request.id == guilty))
        await end(second, STACK)
        await sinks[int(guilty)].ended
        assert isinstance(sinks[int(guilty)].error, InternalError)
        others = [sink for number, sink in enumerate(sinks) if str(number) != guilty]
        assert not any(isinstance(sink.error, InternalError) for sink in others)


async def outcomes_of(answered_count: int, *places: int) -> list[TritonError | None]:
    """Send requests of a sequence to an instance that drains and ends, and has another's place.

    Args:
        answered_count: How many it answers before.
        places: Their flags.
    """
    came: list[int] = []

    def answer(asked: ServerRequest) -> None:
        came.append(asked.request.flags)
        echo(asked)

    first, second = Instance(), Instance(answer)
    async with Routed(first, second) as here:
        here.router.update(table(first))
        await lanes(here, 1)
        sinks = [Sink() for _ in places]
        for sink, flags in zip(sinks, places, strict=True):
            asked = request(correlation_id=7, flags=flags)
            here.router.submit(here.model, asked, sink)
        await until(lambda: len(first.handler.requests) == len(places))
        for each in first.handler.requests[:answered_count]:
            echo(each)
        first.server.start_draining()
        await until(lambda: here.model.pool.lanes[0].draining)
        here.router.update(table(second))
        first.server.close()
        for sink in sinks:
            await sink.ended
        rest = [flags for flags, sink in zip(places, sinks, strict=True) if sink.error is None]
        assert came == rest[answered_count:]
        return [sink.error for sink in sinks]


async def test_a_sequence_that_an_ending_instance_had_not_begun_begins_at_another() -> None:
    assert await outcomes_of(0, SEQUENCE_START, 0, SEQUENCE_END) == [None, None, None]


async def test_a_sequence_that_an_ending_instance_had_begun_ends_with_it() -> None:
    first, *others = await outcomes_of(1, SEQUENCE_START, 0, SEQUENCE_END)
    assert first is None
    assert all(isinstance(each, UnavailableError) for each in others)


async def test_the_first_request_that_a_draining_instance_refuses_is_sent_to_another() -> None:
    draining, other = Instance(), Instance(echo)
    async with Routed(draining, other) as here:
        here.router.update(table(draining))
        await lanes(here, 1)
        sinks = [Sink(), Sink()]
        for sink, flags in zip(sinks, (SEQUENCE_START, 0), strict=True):
            here.router.submit(here.model, request(correlation_id=7, flags=flags), sink)
        await until(lambda: len(draining.handler.requests) == 2)
        draining.server.start_draining()
        await until(lambda: here.model.pool.lanes[0].draining)
        here.router.update(table(other))
        for each in draining.handler.requests:
            each.fail(UnavailableError("Server is stopping"))
        for sink in sinks:
            await sink.ended
        assert sinks[0].error is None
        assert isinstance(sinks[1].error, UnavailableError)


def test_what_goes_on_in_a_requests_place_has_crashed_what_that_has() -> None:
    class Nobody:
        def respond(self, response: object, *, final: bool) -> None: ...
        def fail(self, error: TritonError, *, final: bool = True) -> None: ...

    routed = RoutedRequest(lambda _: None, LinkPool(), InferenceRequest("m"), Nobody())
    routed.crashed = routed.lost_at = "m/1#0"
    successor = routed.moved()
    assert (successor.crashed, successor.lost_at) == ("m/1#0", "m/1#0")
