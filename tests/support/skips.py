# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A test that CI does not run is a test that nobody runs: there a skip has to be on a list."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.gates import REASON

# The tests that are marked `long`: CI does not run them, so that each needs a reason.
# `make test` leaves them to `make test-all` by `-m "not long"`. What stays in `make test` of
# their claim is said beside them.

# The beginning of a node id in tests/integration, and why CI may do without it.
_OF_INTEGRATION = {
    "test_tracing.py::test_requests_of_every_ingress_are_in_one_file": (
        "the file of several ingresses; test_a_count_is_shared_by_all_ingresses stays"
    ),
    "test_cluster.py::test_a_joined_ray_is_left_as_it_was": (
        "a Ray for each way to end; test_a_lost_node_costs_only_the_connections joins one, too"
    ),
    "test_rollouts.py::test_a_canary_that_fails_or_is_slow_or_doubtful_is_rolled_back[5": (
        "fails stays; slow needs a minute of samples"
    ),
    "test_rollouts.py::test_a_canary_that_fails_or_is_slow_or_doubtful_is_rolled_back[4": (
        "fails stays; doubtful needs a minute of samples"
    ),
    "test_rollouts.py::test_a_green_version_that_dies_for_good_after_the_switch": (
        "restarts until given up; the unit tests of rollouts stay"
    ),
    "test_analyze_winners.py::test_what_a_running_server_had_loaded_is_restored": (
        "measures a whole server; test_analyze.py and the rest of the module stay"
    ),
    "test_analyze_winners.py::test_what_is_written_serves": (
        "measures a whole server; test_analyze.py and the rest of the module stay"
    ),
    "test_files_of_a_load.py::test_an_instance_on_another_node_fetches_the_files": (
        "a second node; the unit tests of models' files stay"
    ),
    "test_misbehaving_models.py::test_instance_that_dies_at_every_start": (
        "waits for growing pauses; the unit tests of restarts stay"
    ),
    "test_on_demand.py::test_no_request_of_a_zipf_trace_over_sixty_models_is_lost": (
        "sixty models; the rest of the module stays"
    ),
    "test_kserve.py::test_kserves_own_client_gets_answers": (
        "KServe's own client; the container of KServe stays"
    ),
    "test_draining.py::test_drain_delay_serves_while_not_ready": (
        "waits for the delay; test_sigterm_loses_no_answer stays"
    ),
    "test_draining.py::test_configuration_that_cannot_be_built": (
        "a server of its own; test_redeploy_refuses_no_connection stays"
    ),
    "test_draining.py::test_redeploy_refuses_no_connection_and_loses_no_answer[1]": (
        "one ingress on the node; the same with two of them stays"
    ),
    "test_head_faults.py::test_a_gcs_that_is_killed_and_started_again_costs_no_answer[rocksdb]": (
        "chaos kills a GCS under load in each run; the unit tests of what waits for one stay"
    ),
    "test_nodes.py::test_instances_follow_a_tenfold_step_over_both_nodes": (
        "two nodes; test_autoscaling.py stays on one"
    ),
    "test_faults_of_instances.py::": (
        "minutes of restarts; test_crashes.py and test_wedged.py stay"
    ),
    "test_tune.py::test_the_delay_shrinks_under_load": (
        "minutes of measuring; the unit tests of tuning stay"
    ),
    "test_faults.py::test_killed_instance_costs_no_answer": (
        "a server for one row; test_crashes.py::test_killed_instance_costs_no_request stays"
    ),
    "test_faults.py::test_sigterm_under_load_costs_no_answer": (
        "a server for one row; test_draining.py::test_sigterm_loses_no_answer stays"
    ),
    "test_faults.py::test_stopped_instance_costs_no_answer": ("test_wedged.py stays"),
    "test_faults.py::test_dead_execution_thread": ("the unit tests of the prober stay"),
    "test_analyze_on_nodes.py::test_an_analysis_that_is_a_job": (
        "two nodes; test_analyze.py stays"
    ),
    "test_analyze_on_nodes.py::test_the_trial_of_a_node_that_dies": (
        "two nodes; the unit tests of dispatching stay"
    ),
    "test_transcripts.py::test_a_start_a_request": (
        "two servers; the unit tests of each text, and starts that are refused, stay"
    ),
    "test_examples.py::test_both_nodes_answer": "two nodes; the examples on one node stay",
}
LONG_TESTS = {f"tests/integration/{test}": why for test, why in _OF_INTEGRATION.items()}


def unlisted(marked: Iterable[str], listed: Mapping[str, str] = LONG_TESTS) -> list[str]:
    """Return the node ids of tests that are marked and not listed."""
    return [each for each in marked if not each.startswith(tuple(listed))]


def reason_of(nodeid: str, listed: Mapping[str, str] = LONG_TESTS) -> str:
    """Return why CI may do without a test; what to do where that stands nowhere."""
    for begin, reason in listed.items():
        if nodeid.startswith(begin):
            return reason
    return "no reason in LONG_TESTS of tests/support/skips.py"


@dataclass(frozen=True)
class AllowedSkip:
    """What CI may skip.

    Attributes:
        test: The beginning of node ids.
        reason: The beginning of what the skip says; one that says something else is not allowed.
        why: Why CI may do without it.
    """

    test: str
    reason: str
    why: str


_ALL_HAS_IT = "takes minutes; make test-all runs it"
_INTEGRATION = "tests/integration"
ALLOWED_SKIPS = (
    AllowedSkip(
        "tests/unit/scripts/test_gpu_check.py::test_providers_that_are_not_there",
        "this onnxruntime has providers of GPUs",
        "says what happens without a GPU; CI may have one",
    ),
    AllowedSkip(
        "tests/unit/scripts/test_gpu_check.py::test_without_a_driver",
        "this machine has a GPU",
        "says what happens without a GPU; CI may have one",
    ),
    AllowedSkip(
        "tests/unit/backends/python/model_side/test_device_memory.py::test_without_a_driver",
        "this machine has a CUDA driver",
        "says what happens without a CUDA driver; CI may have one",
    ),
    AllowedSkip(
        "tests/unit/deployments/instance/test_adopted_sequences.py::test_a_sequence_begins_when",
        "replaces a method of an object, which has none then",
        "only the plain form has such a method; make unit runs that",
    ),
    AllowedSkip(
        "tests/unit/cluster/fork_server/test_differences.py::test_another_namespace",
        "this kernel lets nobody make a namespace",
        "containers may not make one",
    ),
    AllowedSkip("tests/unit/cluster/fork_server/test_forked.py::test_torch", REASON, _ALL_HAS_IT),
    AllowedSkip(
        f"{_INTEGRATION}/test_fork_server.py::test_clients_that_are_killed", REASON, _ALL_HAS_IT
    ),
    AllowedSkip(f"{_INTEGRATION}/test_head_faults.py::", REASON, _ALL_HAS_IT),
    AllowedSkip(f"{_INTEGRATION}/test_node_autoscaler.py::", REASON, _ALL_HAS_IT),
    *(
        AllowedSkip(f"{_INTEGRATION}/test_nodes.py::{test}", REASON, _ALL_HAS_IT)
        for test in ("test_a_node_whose_pod", "test_a_pod_with", "test_a_killed_node")
    ),
    AllowedSkip(
        f"{_INTEGRATION}/test_upgrade.py::test_a_release_whose_instances_do_not",
        REASON,
        _ALL_HAS_IT,
    ),
    AllowedSkip(f"{_INTEGRATION}/test_kuberay.py::", REASON, _ALL_HAS_IT),
    AllowedSkip(f"{_INTEGRATION}/test_raylet_kills.py::", REASON, _ALL_HAS_IT),
    AllowedSkip(
        f"{_INTEGRATION}/test_kserve.py::", "pods need root", "CI need not be root for pods"
    ),
    AllowedSkip("tests/stores/test_ray_nodes.py::", REASON, _ALL_HAS_IT),
    AllowedSkip("tests/k8s/test_image.py::", "minutes; make test-all runs it", _ALL_HAS_IT),
)


def is_ci(environ: Mapping[str, str]) -> bool:
    """Whether the tests run in CI."""
    return environ.get("CI", "").lower() in {"true", "1"}


def refuse_skip(
    report: pytest.TestReport | pytest.CollectReport,
    environ: Mapping[str, str],
    allowed: Iterable[AllowedSkip] = ALLOWED_SKIPS,
) -> None:
    """Make a skip in CI a failure, unless it is allowed."""
    if not report.skipped or hasattr(report, "wasxfail") or not is_ci(environ):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    said = reason.removeprefix("Skipped: ")
    if any(report.nodeid.startswith(row.test) and said.startswith(row.reason) for row in allowed):
        return
    report.outcome = "failed"
    report.longrepr = (
        f"{report.nodeid} is skipped in CI: {reason}. Install what it needs, or give the test and"
        " the reason in ALLOWED_SKIPS of tests/support/skips.py."
    )


def unmatched(
    entries: Iterable[str], collected: Iterable[str], arguments: Iterable[str]
) -> list[str]:
    """Find entries that no test matches any more.

    Args:
        entries: Beginnings of node ids.
        collected: Node ids of all tests that were found, before any was deselected.
        arguments: What pytest was asked for, relative to the root: an entry is judged where a
            folder was asked for that its file is in, not where single files are run.
    """
    folders = [Path(each) for each in arguments if "::" not in each and not each.endswith(".py")]
    ids = list(collected)
    return [
        entry
        for entry in entries
        if any(folder in Path(entry.partition("::")[0]).parents for folder in folders)
        and not any(each.startswith(entry) for each in ids)
    ]
