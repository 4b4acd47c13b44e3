# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Ray's thread of error messages in a driver whose head is away."""

import threading
from types import SimpleNamespace

import pytest
from ray._private import worker as driver

from cluster.server import error_messages
from cluster.server.error_messages import (
    PausingSubscriber,
    pause_while_the_head_is_away,
    print_messages,
)

_ERROR = (b"key", {"job_id": b"1", "error_message": "lost"})


class _Subscriber:
    """Ray's, without a GCS: has what it is given, then nothing at once."""

    def __init__(self, *messages: tuple[bytes, dict[str, object]]) -> None:
        self.messages = list(messages)
        self.is_closed = False

    def poll(self):
        return self.messages.pop(0) if self.messages else (None, None)

    def close(self) -> None:
        self.is_closed = True


class _Event(threading.Event):
    def __init__(self) -> None:
        super().__init__()
        self.waited_s: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited_s.append(timeout)
        return False


def test_a_driver_whose_head_is_away_does_not_ask_again_at_once() -> None:
    stopped = _Event()
    subscriber = PausingSubscriber(_Subscriber(_ERROR), stopped)
    assert subscriber.poll() == _ERROR
    assert stopped.waited_s == []
    assert subscriber.poll() == (None, None)
    assert stopped.waited_s == [0.5]


def test_a_driver_s_subscriber_is_replaced_once_and_closed_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rays = _Subscriber()
    worker = SimpleNamespace(gcs_error_subscriber=rays, threads_stopped=threading.Event())
    monkeypatch.setattr(error_messages, "global_worker", worker)
    pause_while_the_head_is_away()
    first = worker.gcs_error_subscriber
    pause_while_the_head_is_away()
    assert worker.gcs_error_subscriber is first
    first.close()
    assert rays.is_closed


def test_a_process_that_is_no_driver_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = SimpleNamespace()
    monkeypatch.setattr(error_messages, "global_worker", worker)
    pause_while_the_head_is_away()
    assert vars(worker) == {}


@pytest.mark.parametrize("is_wanted", [True, False])
def test_messages_of_ray_are_printed_only_where_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, is_wanted: bool
) -> None:
    monkeypatch.setattr(driver, "_worker_logs_enabled", not is_wanted)
    print_messages(is_wanted=is_wanted)
    message = {"lines": [f"a worker died, {is_wanted}"], "pid": "raylet", "is_err": False}
    driver.print_to_stdstream(message, ignore_prefix=False)
    assert ("a worker died" in capsys.readouterr().out) == is_wanted
