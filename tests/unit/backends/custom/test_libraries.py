# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import json

import pytest

FAILURES = {
    "initialize": {"load": "Unavailable: cannot initialize today"},
    "model": {"load": "Unavailable: cannot model today"},
    "instance": {"load": "Unavailable: cannot instance today"},
    "execute": {"answers": ["Unavailable: cannot execute today"] * 2, "errors": []},
    "latin": {"answers": ["Cancelled: caf? é"] * 2, "errors": []},
    "finalize": {
        "answers": [[4], [5]],
        "errors": ["failed finalizing model instance of 'm': cannot finalize today"],
    },
    "size": {
        "answers": [
            "Internal: model 'm': output 'OUTPUT0' of shape [1] and datatype INT32 has a buffer of "
            "3 bytes, expected 4"
        ]
        * 2,
        "errors": [],
    },
    "name": {
        "answers": [
            "Invalid argument: unexpected inference output 'OUTPUT9' for model 'm'",
        ]
        * 2,
        "errors": [],
    },
    "forget": {
        "answers": [
            "Internal: model 'm': its backend library has released a request and everything it "
            "could be answered with, without a response"
        ]
        * 2,
        "errors": [],
    },
}


def test_library_reads_inputs_and_makes_outputs_of_every_size(played):
    done = played("echo")
    assert done["plain"] == [[5]]
    assert done["sizes"] == [True] * 6
    assert done["texts"] == ["a", "bc"]


@pytest.mark.slow
def test_library_reads_an_optional_input_that_is_left_out_from_no_earlier_request(played):
    missing = "Invalid argument: [request id: <id_unknown>] unknown request input name INPUT0"
    assert played("optional") == [[424242], missing, [5], missing] * 2


def test_library_sees_what_a_request_is_beside_its_tensors(played):
    done = played("echo")
    assert done["plain parameters"] == {
        "id": "",
        "correlation": 0,
        "flags": 0,
        "timeout": 0,
        "cancelled": False,
        "traced": False,
        "wanted": 1,
    }
    assert done["rich"] == {
        "id": "seven",
        # Its own parameter is signed.
        "correlation": -1,
        "flags": 3,
        "timeout": 9,
        "cancelled": True,
        "traced": False,
        "wanted": 1,
        "got_i": -5,
        "got_s": "é",
        "got_b": True,
        "got_d": 0.5,
    }
    assert done["named"] == "text"


def test_one_request_of_a_batch_fails_with_the_library_s_code_and_text(played):
    assert played("echo")["failed"] == ["Not found: as you wish"]


def test_log_lines_name_the_library_s_file(played):
    assert ["WARNING", "echo.c", "m_0_0"] in played("echo")["lines"]


def test_readiness_is_asked_where_the_library_has_an_opinion(played):
    done = played("echo")
    assert (done["has readiness"], done["is ready"]) == (True, False)
    assert played("batched")["has readiness"] is False
    assert ["WARNING", "model 'm' is not ready: not in the mood"] in [
        [level, text] for level, _, text in done["lines"]
    ]


def test_requests_may_be_answered_after_execute_from_another_thread(played):
    assert played("batched")["answers"] == [[[3]]] * 3


def test_library_tells_when_it_computed(played):
    done = played("batched")
    assert done["times are told"]
    assert done["computing ms"] >= 2


@pytest.mark.parametrize("place", ["version", "parameter"])
def test_batching_library_divides_batches(played, place):
    assert played("strategy", place) == [2, 2, 1, 1, 3, 3, 3]


def test_decoupled_model_answers_from_threads_of_its_own(played):
    done = played("decoupled")
    assert done["three"] == [[0], [1], [2]]
    assert done["none"] == []
    assert done["thousand"] == [[each] for each in range(1000)]
    assert done["error"] == ["Unavailable: the end"]


def test_decoupled_model_that_forgets_a_request_ends_its_stream(played):
    assert played("decoupled")["forgotten"] == [
        "Internal: model 'm': its backend library has released a request and everything it could "
        "be answered with, without a final response"
    ]


def test_decoupled_model_hears_of_cancellation(played):
    assert played("decoupled")["cancelled"] == ["Cancelled: the end"]


def test_decoupled_model_that_refuses_an_execution_fails_its_requests(played):
    assert played("decoupled")["refused"] == ["Unsupported: no such wish"]


def test_decoupled_model_may_answer_a_request_that_is_executed_again(played):
    assert played("decoupled")["again"] == [[[5]], True, False]


def test_nothing_is_kept_of_requests_that_are_done_with(played):
    assert played("decoupled")["left"] == 0


def test_states_are_updated_beside_outputs(played):
    known, unknown, _ = played("stateful")
    assert known == {"OUTPUT0": [7], "sum": [7]}
    assert unknown == "Invalid argument: state 'other' is not a valid state name."


def test_state_that_is_one_buffer_holds_its_input_at_first(played):
    assert played("stateful")[2] == {"OUTPUT0": [58], "sum": [8]}


def test_state_that_the_config_has_not_is_refused(played):
    assert played("stateless") == (
        "Invalid argument: unable to add state 'sum'. State configuration is missing for model 'm'."
    )


def test_metrics_are_those_of_the_library(played):
    done = played("metrics")
    assert done["families"] == [
        ["executions", "COUNTER", "of a test", ["model", "counted"]],
        ["last_size", "GAUGE", "of a test", ["model", "counted"]],
        ["sizes", "HISTOGRAM", "of a test", ["model", "counted"]],
    ]
    assert done["values"] == [3, 2, 6]
    assert done["buckets"] == [[1, 2], [1, 1, 1]]
    assert done["gauge is dated"]
    assert done["after"] == 0


def test_wrong_metrics_are_refused_with_the_texts_of_triton(played):
    assert played("metrics")["refused"] == [
        "Family name already exists with different type",
        "Invalid metric name",
        "Must call MetricDelete on all dependent metrics before calling MetricFamilyDelete.",
        "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented monotonically by non-negative "
        "values.",
        "TRITONSERVER_METRIC_KIND_COUNTER does not support Set",
        "TRITONSERVER_METRIC_KIND_GAUGE does not support Observe",
        "Bucket boundaries not found in Metric args.",
    ]


def test_library_completes_a_config_and_keeps_what_is_not_its_business(played):
    config = played("completing")["config"]
    assert config["backend"] == "completing"
    assert config["max_batch_size"] == 8
    assert [each["name"] for each in config["input"] + config["output"]] == ["INPUT0", "OUTPUT0"]
    assert config["dynamic_batching"]["preferred_batch_size"] == [8]


def test_library_sees_the_completed_config_at_once_and_one_model_object(played):
    done = played("completing")
    assert json.loads(done["said"]["config"])["dynamic_batching"]["preferred_batch_size"] == [8]
    assert done["initialisations"] == 1


def test_library_is_told_where_it_runs(played):
    said = played("completing")["said"]
    settings = json.loads(said["settings"])["cmdline"]
    assert said["backend"] == "completing"
    assert said["directory"].endswith("/completing")
    assert said["directory"].startswith(settings["backend-directory"])
    assert settings["auto-complete-config"] == "true"
    assert settings["default-max-batch-size"] == "4"
    assert settings["mine"] == "yes"
    assert json.loads(said["host policy"]) == {"cpu": {}}
    assert said["version 2"] == (
        "model configuration version 2 not supported, supported versions are: 1"
    )


@pytest.mark.parametrize("stage", FAILURES)
def test_failure_at_each_stage_has_the_library_s_text(played, stage):
    assert played("failing", stage) == FAILURES[stage]


def test_requests_may_be_executed_again(played):
    assert played("failing", "later") == [True, True]


def test_exceptions_of_a_library_fail_requests(played):
    assert played("throwing") == [
        "Internal: TRITONBACKEND_ModelInstanceExecute threw an exception: out of patience",
        "Internal: TRITONBACKEND_ModelInstanceExecute threw what is no std::exception",
    ]


def test_library_that_wants_an_unknown_function_is_told_the_versions_there_are(played):
    said = played("unloadable", "newer")
    assert said.startswith("Not found: unable to load shared library: ")
    assert said.endswith(
        "undefined symbol: TRITONBACKEND_OfTheFuture; there is TRITONBACKEND API 1.19 and "
        "TRITONSERVER API 1.34 here: build the library against the headers of these"
    )


def test_library_has_to_have_a_function_to_execute_with(played):
    assert played("unloadable", "empty").startswith(
        "Not found: unable to find required entrypoint 'TRITONBACKEND_ModelInstanceExecute' in "
        "shared library: "
    )


def test_config_that_is_none_is_refused(played):
    assert "Invalid config override" in played("failing", "complete")["load"]


@pytest.mark.parametrize(("stage", "name"), [("crash", "SIGSEGV"), ("abort", "SIGABRT")])
def test_crash_names_library_model_and_function(played, stage, name):
    done = played("failing", stage)
    assert done.returncode < 0
    assert f"libtriton_failing.so' of model 'm' crashed with {name} in " in done.stderr
    assert "TRITONBACKEND_ModelInstanceExecute" in done.stderr
