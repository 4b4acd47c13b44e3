# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Instances that do not die but get nowhere: no request is lost, and they are replaced."""

import os
import signal
import time

import psutil
import tritonclient.http as triton_http

from tests.support.clients import Load
from tests.support.expendable_server import HEARTBEAT_TIMEOUT_S
from tests.support.server import RunningServer

_TITLE = "ray::add_sub/1"
_REASON = f"showed no progress for {HEARTBEAT_TIMEOUT_S} s; it is replaced"
_PATIENCE_S = 60.0


def _reason(client: triton_http.InferenceServerClient) -> str:
    rows = client.get_model_repository_index()
    return next((row.get("reason", "") for row in rows if row["name"] == "add_sub"), "")


def _stop_one(server: RunningServer) -> psutil.Process:
    victim = server.processes(_TITLE)[0]
    os.kill(victim.pid, signal.SIGSTOP)
    return victim


def _see_it_replaced(server: RunningServer, victim: psutil.Process) -> None:
    """Wait for the reason in the index, for two live instances, and for the end of the victim."""
    ends_s = time.monotonic() + _PATIENCE_S
    with triton_http.InferenceServerClient(server.http) as client:
        while _REASON not in _reason(client):
            assert time.monotonic() < ends_s, "the index says nothing"
        while _reason(client):
            assert time.monotonic() < ends_s, "no instance took its place"
    gone, _ = psutil.wait_procs([victim], timeout=30)
    assert gone, "the stopped process is still there"
    assert len(server.processes(_TITLE)) == 2


def test_a_stopped_instance_costs_no_request_and_is_replaced(expendable: RunningServer) -> None:
    loads = [Load(expendable.http, "add_sub"), Load(expendable.grpc, "add_sub", protocol="grpc")]
    for load in loads:
        load.wait_for(200)
    victim = _stop_one(expendable)
    _see_it_replaced(expendable, victim)
    for load in loads:
        load.wait_for(200)
        outcomes = load.stop()
        assert set(outcomes) == {"ok"}, outcomes


def test_a_stopped_instance_without_requests_is_replaced_too(expendable: RunningServer) -> None:
    victim = _stop_one(expendable)
    _see_it_replaced(expendable, victim)
