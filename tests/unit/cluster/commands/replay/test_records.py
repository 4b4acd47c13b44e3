# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.commands.replay.command import main
from cluster.commands.replay.records import Replayed, Summary, Verdict, is_sendable, judge, lanes
from cluster.commands.replay.sending import from_message, to_message
from deployments.captures.records import CaptureRecord, KeptRequest, KeptResponse, KeptTensor
from deployments.rollouts.comparing import Tolerance

ONE = KeptResponse((KeptTensor("Y", "INT8", (1,), b"\1"),), {})
TWO = KeptResponse((KeptTensor("Y", "INT8", (1,), b"\2"),), {})
HIDDEN = KeptResponse((KeptTensor("Y", "INT8", (1,), b"", "redacted"),), {})


def _request(correlation_id: int | str = 0, omitted: str = "") -> KeptRequest:
    tensor = KeptTensor("X", "INT8", (1,), b"\3", omitted)
    return KeptRequest("7", (tensor,), ("Y",), {"a": 1.5}, 2, 30, correlation_id, 1)


def _record(*responses: KeptResponse, outcome: str = "ok", **fields: object) -> CaptureRecord:
    record = CaptureRecord("id", 0.0, "m", "1", request=_request(), outcome=outcome)
    record.responses = list(responses)
    for name, value in fields.items():
        setattr(record, name, value)
    return record


@pytest.mark.parametrize(
    ("replayed", "verdict"),
    [
        (Replayed(_record(ONE), [ONE]), Verdict.SAME),
        (Replayed(_record(ONE), [TWO]), Verdict.DIFFERENT),
        (Replayed(_record(ONE), [ONE, ONE]), Verdict.DIFFERENT),
        (Replayed(_record(ONE), [], "NOT_FOUND"), Verdict.FAILED),
        (Replayed(_record(outcome="Internal"), [], "INTERNAL"), Verdict.SAME),
        (Replayed(_record(outcome="Internal"), [ONE]), Verdict.DIFFERENT),
        (Replayed(_record(), [ONE]), Verdict.NOT_COMPARED),
        (Replayed(_record(HIDDEN), [ONE]), Verdict.NOT_COMPARED),
        (Replayed(_record(ONE, is_truncated=True), [ONE]), Verdict.NOT_COMPARED),
    ],
)
def test_what_came_of_a_record(replayed: Replayed, verdict: Verdict) -> None:
    assert judge(replayed, Tolerance())[0] is verdict


def test_a_difference_is_named_with_its_output() -> None:
    verdict, reason = judge(Replayed(_record(ONE), [TWO]), Tolerance())
    assert verdict is Verdict.DIFFERENT
    assert reason == "output 'Y': element 0: expected np.int8(1), got np.int8(2); 1 differ"
    assert "missing ['Y']" in judge(Replayed(_record(ONE), [KeptResponse((), {})]), Tolerance())[1]


def test_an_answer_that_cannot_be_read_is_another_one() -> None:
    cut, whole = (
        KeptResponse((KeptTensor("Y", "BYTES", (1,), data),), {})
        for data in (b"\7\0\0\0x", b"\1\0\0\0x")
    )
    verdict, reason = judge(Replayed(_record(whole), [cut]), Tolerance())
    assert verdict is Verdict.DIFFERENT
    assert "cannot be compared" in reason


def test_a_summary_is_good_unless_something_differs_or_fails() -> None:
    summary = Summary()
    summary.add(Replayed(_record(ONE), [ONE]), Tolerance())
    summary.add(Replayed(_record(), [ONE]), Tolerance())
    assert summary.is_good
    summary.add(Replayed(_record(ONE), [TWO]), Tolerance())
    assert not summary.is_good
    assert [verdict for _, verdict, _ in summary.reasons] == [Verdict.DIFFERENT]


def test_a_record_without_all_of_its_inputs_is_not_sendable() -> None:
    assert is_sendable(_record())
    assert not is_sendable(_record(request=_request(omitted="size")))
    assert not is_sendable(_record(request=None))


@given(st.lists(st.sampled_from([0, 0, "a", "b", 7]), max_size=30), st.integers(1, 5))
def test_sequences_stay_in_order_with_one_worker(
    correlation_ids: list[int | str], count: int
) -> None:
    records = [
        _record(id=str(at), time_s=float(at), request=_request(correlation_id))
        for at, correlation_id in enumerate(correlation_ids)
    ]
    found = lanes(records, count)
    assert len(found) <= count
    assert sorted(int(each.id) for lane in found for each in lane) == list(range(len(records)))
    for wanted in {each for each in correlation_ids if each}:
        having = [
            [int(each.id) for each in lane if each.request.correlation_id == wanted]  # type: ignore[union-attr]
            for lane in found
        ]
        kept = [ids for ids in having if ids]
        assert len(kept) == 1
        assert kept[0] == sorted(kept[0])


def test_a_message_has_all_of_a_captured_request() -> None:
    message = to_message(_request("s"), "other", "2")
    assert (message.model_name, message.model_version, message.id) == ("other", "2", "7")
    assert message.raw_input_contents == [b"\3"]
    assert message.parameters["a"].double_param == 1.5
    assert message.parameters["priority"].int64_param == 2
    assert message.parameters["timeout"].int64_param == 30
    assert message.parameters["sequence_id"].string_param == "s"
    assert message.parameters["sequence_start"].bool_param
    assert not message.parameters["sequence_end"].bool_param


def test_a_response_is_read_by_its_raw_contents() -> None:
    from tritonclient.grpc import service_pb2

    answer = service_pb2.ModelInferResponse(raw_output_contents=[b"\1"])
    answer.outputs.add(name="Y", datatype="INT8", shape=[1])
    assert from_message(answer) == ONE


def test_a_file_that_is_no_capture_is_an_error_of_the_call(
    tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    path = f"{tmp_path}/x.jsonl"
    with open(path, "w") as file:  # noqa: PTH123
        file.write("{}\n")
    assert main([path]) == 2
    assert "x.jsonl, line 1: b'{}' is no record of a capture" in capsys.readouterr().err
