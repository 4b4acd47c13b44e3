# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A worker whose main thread is free for models, with a double of Ray's core worker."""

import signal
import threading
from types import SimpleNamespace

import pytest

from cluster.instances import ray_thread
from deployments.instance.main_thread import MainThread

LONG_S = 60.0


@pytest.fixture
def main(monkeypatch) -> MainThread:
    made = MainThread()
    monkeypatch.setattr(ray_thread, "MAIN", made)
    return made


@pytest.fixture(autouse=True)
def _sigterm():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def worker(run_task_loop, exits=None) -> SimpleNamespace:
    core_worker = SimpleNamespace(
        run_task_loop=run_task_loop, drain_and_exit_worker=lambda *said: exits.append(said)
    )
    return SimpleNamespace(core_worker=core_worker)


def test_rays_loop_runs_beside_the_main_thread_which_serves_until_it_ends(main):
    threads = {}

    def loop() -> None:
        threads["ray"] = threading.current_thread().name
        main.run(lambda: threads.update(model=threading.current_thread()), "x")

    with pytest.raises(SystemExit) as raised:
        ray_thread.main_loop(worker(loop))
    assert raised.value.code == 0
    assert threads == {"ray": "ray-tasks", "model": threading.main_thread()}


def test_sigterm_has_ray_end_the_worker_and_interrupts_no_model(main):
    told, exits = threading.Event(), []

    def model() -> None:
        signal.raise_signal(signal.SIGTERM)
        told.set()

    def loop() -> None:
        main.run(model, "x")
        assert told.wait(LONG_S)

    with pytest.raises(SystemExit):
        ray_thread.main_loop(worker(loop, exits))
    assert exits == [("system", "The process receives a SIGTERM.")]


def test_a_model_that_does_not_return_does_not_keep_the_process(main, monkeypatch):
    codes, gate = [], threading.Event()
    monkeypatch.setattr(ray_thread, "_END_TIMEOUT_S", 0.0)

    def end(code: int) -> None:
        codes.append(code)
        gate.set()

    monkeypatch.setattr(ray_thread.os, "_exit", end)
    begun = threading.Event()

    def model() -> None:
        begun.set()
        gate.wait(LONG_S)

    def loop() -> None:
        main.run(model, "x")
        assert begun.wait(LONG_S)

    with pytest.raises(SystemExit):
        ray_thread.main_loop(worker(loop))
    assert codes == [0]


def test_only_rays_own_thread_rests_in_its_look_for_signals(main):
    rests = []
    main.rest = lambda: rests.append(threading.current_thread().name)
    seen_by_ray = ray_thread.Look()
    assert seen_by_ray.is_finalizing() is False
    assert rests == []
    thread = threading.Thread(target=seen_by_ray.is_finalizing, name="ray-tasks")
    thread.start()
    thread.join(LONG_S)
    assert rests == ["ray-tasks"]
    main.rest = None
    assert seen_by_ray.is_finalizing() is False
    assert seen_by_ray.version_info[:1] == (3,)
