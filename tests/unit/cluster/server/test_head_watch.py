# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the operator hears of a head that is away."""

import threading

from cluster.server.watches import HeadWatch, short_patience


class Scene:
    """A watch whose head and clock a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.said: list[str] = []
        self.is_away = False
        self.watch = HeadWatch(self._ask, self.said.append, lambda: self.now_s)

    def _ask(self) -> None:
        if self.is_away:
            raise ConnectionError("away")

    def pass_time(self, duration_s: int) -> None:
        for _ in range(duration_s):
            self.now_s += 1
            self.watch.ask_once()
            self.watch.look()


def test_nothing_is_said_of_a_head_that_answers() -> None:
    scene = Scene()
    scene.pass_time(100)
    assert scene.said == []


def test_a_short_silence_is_not_worth_a_word() -> None:
    scene = Scene()
    scene.is_away = True
    scene.pass_time(4)
    scene.is_away = False
    scene.pass_time(4)
    assert scene.said == []


def test_an_outage_is_said_once_and_its_end_with_how_long_it_took() -> None:
    scene = Scene()
    scene.is_away = True
    scene.pass_time(30)
    assert len(scene.said) == 1
    assert "loaded are served" in scene.said[0]
    scene.is_away = False
    scene.pass_time(10)
    assert scene.said[1:] == ["The head of the Ray cluster is back after 30 s."]


def test_who_has_started_the_gcs_hears_that_nobody_else_does() -> None:
    scene = Scene()
    ended = threading.Event()
    ended.set()
    scene.watch.start(ended, is_own=True)
    scene.is_away = True
    scene.pass_time(10)
    (error,) = scene.said
    assert error.startswith("Error: the GCS of this server's own Ray does not answer.")
    assert "start it anew" in error


def test_a_cluster_whose_processes_do_not_wait_for_the_head_is_warned_of() -> None:
    warning = short_patience(60.0)
    assert "head is away for 60 s" in warning
    assert "RAY_gcs_rpc_server_reconnect_timeout_s=600" in warning
    assert short_patience(600.0) == ""
