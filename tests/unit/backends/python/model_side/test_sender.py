# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import gc
import logging
import threading

import numpy as np
import pytest

from backends.api.errors import (
    InternalError,
    InvalidArgumentError,
    RequestCancelledError,
    TritonError,
)
from tests.support.python_probe import DECOUPLED, model
from tests.support.recording import execute, recorded

FINAL = "pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL"
SENDER = "s = requests[0].get_response_sender()\n"


def request():
    return recorded({"INPUT0": np.zeros((1, 2), np.int32)})


def answers(asked):
    return [
        str(answer.message) if isinstance(answer, TritonError) else int(answer.outputs[0].data[0])
        for answer in asked.answers
    ]


def run(tmp_path, body, **fields):
    asked = request()
    instance = model(tmp_path, body, **fields)
    execute(instance, asked)
    instance.close()
    return asked


def test_decoupled_model_sends_any_number_of_responses(tmp_path):
    body = SENDER + f"for k in range(3):\n    s.send(one(k))\ns.send(flags={FINAL})"
    asked = run(tmp_path, body, config=DECOUPLED)
    assert answers(asked) == [0, 1, 2]
    assert asked.is_done


def test_final_flag_may_ride_on_the_last_response(tmp_path):
    asked = run(tmp_path, SENDER + f"s.send(one(1))\ns.send(one(2), {FINAL})", config=DECOUPLED)
    assert answers(asked) == [1, 2]
    assert asked.is_done


def test_decoupled_model_may_send_no_response(tmp_path):
    asked = run(tmp_path, SENDER + f"s.send(flags={FINAL})", config=DECOUPLED)
    assert (asked.answers, asked.is_done) == ([], True)


def test_decoupled_model_goes_on_after_an_error_response(tmp_path):
    code = "pb_utils.TritonError.INVALID_ARG"
    error = f"pb_utils.InferenceResponse([], pb_utils.TritonError('e', {code}))"
    asked = run(
        tmp_path,
        SENDER + f"s.send(one(1))\ns.send({error})\ns.send(one(3), {FINAL})",
        config=DECOUPLED,
    )
    assert answers(asked) == [1, "e", 3]
    assert isinstance(asked.answers[1], InvalidArgumentError)


def test_thread_may_send_after_execute_returned(tmp_path):
    body = (
        SENDER + "def work():\n"
        "    self.go.wait()\n"
        f"    s.send(one(7), {FINAL})\n"
        "self.go = threading.Event()\n"
        "self.thread = threading.Thread(target=work)\n"
        "self.thread.start()"
    )
    instance = model(tmp_path, body, config=DECOUPLED)
    asked = request()
    execute(instance, asked)
    assert not asked.is_done
    instance._model.go.set()
    instance._model.thread.join()
    assert answers(asked) == [7]


def test_decoupled_coroutines_of_two_batches_overlap(tmp_path):
    body = (
        "type(self).waiting = getattr(self, 'waiting', [])\n"
        "mine = asyncio.Event()\n"
        "self.waiting.append(mine)\n"
        "if len(self.waiting) == 2:\n"
        "    for event in self.waiting:\n"
        "        event.set()\n"
        "await mine.wait()\n"
        f"requests[0].get_response_sender().send(one(1), {FINAL})"
    )
    instance = model(tmp_path, body, config=DECOUPLED, execute="async def")
    first, second = request(), request()
    execute(instance, first)
    execute(instance, second)
    instance._coroutines.run_pending()
    assert (answers(first), answers(second)) == ([1], [1])
    instance.close()


def test_exception_in_a_decoupled_coroutine_fails_its_requests(tmp_path, caplog):
    body = "raise ValueError('late')"
    instance = model(tmp_path, body, config=DECOUPLED, execute="async def")
    asked = request()
    with caplog.at_level(logging.ERROR):
        execute(instance, asked)
        instance._coroutines.run_pending()
    assert "ValueError: late" in answers(asked)[0]
    instance.close()


def test_exception_after_responses_ends_the_stream_with_the_error(tmp_path):
    asked = run(tmp_path, SENDER + "s.send(one(1))\nraise ValueError('x')", config=DECOUPLED)
    assert answers(asked)[0] == 1
    assert "ValueError: x" in answers(asked)[1]
    assert asked.is_done


def test_dropped_sender_closes_its_stream(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        asked = run(tmp_path, SENDER + "s.send(one(1))", config=DECOUPLED)
        gc.collect()
        assert asked.done.wait(10)
    assert answers(asked) == [1]
    assert asked.is_done
    assert "without TRITONSERVER_RESPONSE_COMPLETE_FINAL" in caplog.text


@pytest.mark.parametrize("returned", ["None", "[None]"])
def test_default_mode_may_answer_through_a_sender(tmp_path, returned):
    asked = run(tmp_path, SENDER + f"s.send(one(4), {FINAL})\nreturn {returned}")
    assert answers(asked) == [4]


def test_default_mode_may_send_response_and_final_flag_apart(tmp_path):
    asked = run(tmp_path, SENDER + f"s.send(one(4))\ns.send(flags={FINAL})\nreturn None")
    assert answers(asked) == [4]
    assert asked.is_done


def test_execute_waits_for_a_sender_used_from_a_thread(tmp_path):
    body = SENDER + f"threading.Timer(0.01, lambda: s.send(one(6), {FINAL})).start()\nreturn [None]"
    assert answers(run(tmp_path, body)) == [6]


def test_execute_does_not_wait_for_a_sender_that_was_dropped_within_a_cycle(tmp_path):
    body = SENDER + "s.send(one(4))\nself.cycle = cycle = [s]\ncycle.append(cycle)\n"
    instance = model(tmp_path, body + "del self.cycle\nreturn [None]")
    asked = request()
    gc.disable()
    try:
        execute(instance, asked)
    finally:
        gc.enable()
    assert answers(asked) == [4]


def test_execute_does_not_wait_for_an_answer_nobody_takes(tmp_path):
    instance = model(tmp_path, SENDER + "type(self).kept = s\nreturn [None]")
    asked = request()
    asked.is_cancelled = True
    execute(instance, asked)
    assert isinstance(asked.answers[0], RequestCancelledError)
    with pytest.raises(Exception, match="Response sender has been closed"):
        instance._model.kept.send(flags=1)


def test_an_exception_of_pb_utils_shows_the_models_frames_only(tmp_path):
    asked = run(tmp_path, SENDER + "s.send()")
    assert answers(asked)[0].count("\n  ") == 1


def test_response_returned_after_one_was_sent_is_ignored(tmp_path):
    asked = run(tmp_path, SENDER + f"s.send(one(4), {FINAL})\nreturn [one(5)]")
    assert answers(asked) == [4]


def test_sender_that_is_asked_for_and_not_used_does_not_get_in_the_way(tmp_path):
    assert answers(run(tmp_path, SENDER + "return [one(5)]")) == [5]


def test_sender_may_be_collected_while_the_server_holds_its_lock(tmp_path):
    instance = model(tmp_path, SENDER + "cycle = [s]\ncycle.append(cycle)", config=DECOUPLED)
    asked = request()
    mutex = threading.Lock()
    respond = asked.respond

    def locked(response, *, final=True):
        with mutex:
            respond(response, final=final)

    asked.respond = locked
    with mutex:
        execute(instance, asked)
        gc.collect()
        assert not asked.is_done
    assert asked.done.wait(10)


def test_default_mode_that_drops_its_sender_fails_instead_of_hanging(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        asked = run(tmp_path, SENDER + "return [None]")
    assert isinstance(asked.answers[0], InternalError)
    assert "dropped its response sender" in answers(asked)[0]


@pytest.mark.parametrize(
    ("body", "config", "says"),
    [
        (
            f"s.send(one(1), {FINAL})\ns.send(flags={FINAL})",
            DECOUPLED,
            "Unable to send response. Response sender has been closed.",
        ),
        ("s.send(one(1), 7)", DECOUPLED, "Unable to send response. Unsupported flag provided."),
        (
            "s.send()",
            DECOUPLED,
            "Inference Response object must be provided when the response flags is set to zero.",
        ),
        (
            "s.send(one(1))\ns.send(one(2))",
            None,
            "Unable to send response. Non-decoupled model cannot send more than one response.",
        ),
        (
            f"s.send(flags={FINAL})",
            None,
            "Unable to send response. Non-decoupled model cannot send complete final before "
            "sending a response.",
        ),
    ],
)
def test_misuse_of_the_sender_raises_with_the_texts_of_triton(tmp_path, body, config, says):
    watched = "".join(f"    {line}\n" for line in body.splitlines())
    source = (
        SENDER + f"try:\n{watched}"
        "except pb_utils.TritonModelException as error:\n    type(self).said = str(error)\n"
        f"try:\n    s.send(one(0), {FINAL})\nexcept pb_utils.TritonModelException:\n    pass\n"
        f"try:\n    s.send(flags={FINAL})\nexcept pb_utils.TritonModelException:\n    pass"
    )
    instance = model(tmp_path, source, **({"config": config} if config else {}))
    asked = request()
    execute(instance, asked)
    assert instance._model.said == says
    assert asked.is_done


def test_cancellation_is_seen_by_request_and_sender(tmp_path):
    body = (
        "type(self).seen = [requests[0].is_cancelled(),\n"
        "                   requests[0].get_response_sender().is_cancelled()]\n"
        "return [one(1)]"
    )
    instance = model(tmp_path, body)
    asked = request()
    asked.is_cancelled = True
    execute(instance, asked)
    assert instance._model.seen == [True, True]
