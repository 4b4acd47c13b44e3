# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Actors of the double of Ray (`tests.support.fake_ray`), and the answers of their calls."""

import asyncio
import concurrent.futures
import threading
import types
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError

if TYPE_CHECKING:
    from tests.support.fake_ray import FakeRay


class Future(concurrent.futures.Future[Any]):
    """What waits for an answer without ``ray.get``; its waits pass the time of the double."""

    def __init__(self, owner: "FakeRay") -> None:
        super().__init__()
        self._owner = owner

    def result(self, timeout: float | None = None) -> Any:
        """Wait at most so long.

        Raises:
            TimeoutError: There is no answer by then.
        """
        self._owner.wait_for(self, timeout)
        return super().result(0)


class Reference:
    """The answer of a call."""

    def __init__(self, owner: "FakeRay", actor: "FakeActor | None", method: str) -> None:
        self.answer = Future(owner)
        self.actor = actor
        self.method = method

    def future(self) -> Future:
        return self.answer

    def __await__(self) -> Generator[Any, None, Any]:
        if self.answer.done():
            return self.answer.result()
        return (yield from asyncio.wrap_future(self.answer).__await__())

    def run(self, call: Callable[[], Any]) -> None:
        """Make the answer."""
        try:
            value = call()
            if asyncio.iscoroutine(value):
                value = _run_to_end(value)
        except Exception as error:
            task_error: Any = RayTaskError(self.method, repr(error), error)
            self.answer.set_exception(task_error.as_instanceof_cause())
        else:
            self.answer.set_result(value)


class FakeActor:
    """An actor.

    Attributes:
        made: What its constructor has returned, which answers its calls.
        options: What it was started with.
        arguments: Of its constructor.
        restarts: How often it has been started anew.
        is_dead: Whether it has ended for good.
    """

    def __init__(self, owner: "FakeRay", kind: Any, options: dict[str, Any], arguments: Any):
        self._owner = owner
        self._kind = kind
        self.options = options
        self.arguments = arguments
        self.restarts = 0
        self.is_dead = False
        self.waiting: list[tuple[Reference, Callable[[], Any]]] = []
        self.number = next(owner.numbers)
        positional, named = arguments
        self.made = kind(*positional, **named)

    def call(self, method: str, *positional: Any, **named: Any) -> Reference:
        reference = Reference(self._owner, self, method)
        self._owner.calls.append((str(self.options.get("name")), method, *positional))
        if self.is_dead:
            reference.answer.set_exception(ActorDiedError())
            return reference
        if self._owner.failures.get(method):
            reference.answer.set_exception(self._owner.failures[method].pop(0))
            return reference

        def run() -> Any:
            return getattr(self.made, method)(*positional, **named)

        if method in self._owner.held:
            self.waiting.append((reference, run))
        else:
            reference.run(run)
        return reference

    def let_go(self) -> None:
        """Run the calls that were held."""
        waiting, self.waiting = self.waiting, []
        for reference, call in waiting:
            reference.run(call)

    def die(self) -> None:
        """End for good; calls that wait fail, and the name is free."""
        self.is_dead = True
        self._break_off(ActorDiedError())
        self._owner.forget(self)

    def restart(self) -> None:
        """Die, and be started anew by Ray under the same name."""
        self.restarts += 1
        self._break_off(ActorUnavailableError("its process ended", bytes(16)))
        positional, named = self.arguments
        self.made = self._kind(*positional, **named)

    def _break_off(self, error: Exception) -> None:
        waiting, self.waiting = self.waiting, []
        for reference, _ in waiting:
            reference.answer.set_exception(error)


class Handle:
    """What callers hold of an actor; has the methods that its class has."""

    def __init__(self, actor: FakeActor) -> None:
        self.fake = actor
        self._actor_id = types.SimpleNamespace(hex=lambda: f"{actor.number:032x}")

    def __getattr__(self, method: str) -> Any:
        if method.startswith("__") or not hasattr(self.fake.made, method):
            raise AttributeError(f"the actor has no method {method}")
        call = types.SimpleNamespace(
            remote=lambda *positional, **named: self.fake.call(method, *positional, **named)
        )
        call.options = lambda **_options: call
        return call


class Remote:
    """A class or function that runs elsewhere, with what it is to be started with."""

    def __init__(self, owner: "FakeRay", kind: Any, options: dict[str, Any]) -> None:
        self._owner = owner
        self._kind = kind
        self._options = options

    def options(self, **options: Any) -> "Remote":
        return Remote(self._owner, self._kind, self._options | options)

    def remote(self, *positional: Any, **named: Any) -> Any:
        self._owner.require_there()
        if isinstance(self._kind, type):
            return self._owner.start(self._kind, self._options, (positional, named))
        reference = Reference(self._owner, None, self._kind.__name__)
        if self._kind.__name__ in self._owner.held:
            return reference
        if self._owner.failures.get(self._kind.__name__):
            reference.answer.set_exception(self._owner.failures[self._kind.__name__].pop(0))
        else:
            reference.run(lambda: self._kind(*positional, **named))
        return reference


def _run_to_end(work: Any) -> Any:
    """Run a coroutine on a loop of its own: the caller may be on one."""
    done: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def run() -> None:
        try:
            done.set_result(asyncio.run(work))
        except BaseException as error:
            done.set_exception(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return done.result()
