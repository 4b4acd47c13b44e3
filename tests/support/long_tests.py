# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The tests that are marked `long`: CI does not run them, so that each needs a reason.

`make test` leaves them to `make test-all` by `-m "not long"`. What stays in `make test` of their
claim is said beside them.
"""

from collections.abc import Iterable, Mapping

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
    return "no reason in LONG_TESTS of tests/support/long_tests.py"
