# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Runs of ensembles whose steps are decoupled."""

from backends.api.errors import (
    UnavailableError,
)
from tests.support.step_graphs import Rig, graph, model, request, step

A = model("a", "I", "O")
PAIR = model("pair", "I J", "O")
SPLIT = model("split", "I", "O P", decoupled=True)
STREAM = graph(
    "X",
    "Y",
    [step("split", "I=X", "O=l P=r"), step("a", "I=l", "O=m"), step("pair", "I=m J=r", "O=Y")],
    [SPLIT, A, PAIR],
    decoupled=True,
)


def test_every_response_of_a_decoupled_step_runs_what_follows():
    rig = Rig(STREAM, request("X"))
    rig.calls[0].run(final=False)
    rig.calls[0].run(final=False)
    rig.calls[0].close()
    # The branch is slower for the first response than for the second.
    rig.calls[2].run()
    rig.calls[1].run()
    for call in rig.calls[3:]:
        call.run()
    assert rig.sink.texts == [
        {"Y": "pair(a(split(X)#1.O).O,split(X)#1.P).O"},
        {"Y": "pair(a(split(X)#0.O).O,split(X)#0.P).O"},
    ]
    assert rig.sink.finals == [False, True]
    assert rig.sink.ends == 1


def test_a_decoupled_ensemble_may_answer_nothing():
    rig = Rig(STREAM, request("X"))
    rig.calls[0].close()
    assert not rig.sink.responses
    assert rig.sink.error is None
    assert rig.sink.ends == 1


def test_an_error_ends_a_stream_after_what_was_answered():
    rig = Rig(STREAM, request("X"))
    rig.calls[0].run(final=False)
    rig.calls[1].run()
    rig.calls[2].run()
    rig.calls[0].fail(UnavailableError("gone"))
    assert len(rig.sink.responses) == 1
    assert rig.sink.error is not None
    assert rig.sink.error.message == "in ensemble 'e', gone"


def test_an_error_that_a_step_goes_on_after_ends_the_ensemble_when_the_step_has_ended():
    rig = Rig(STREAM, request("X"))
    rig.calls[0].fail(UnavailableError("gone"), final=False)
    assert rig.calls[0].cancelled
    assert rig.sink.ends == 0
    rig.calls[0].run(final=False)
    assert len(rig.calls) == 1
    rig.calls[0].close()
    assert not rig.sink.responses
    assert rig.sink.error is not None
    assert rig.sink.error.message == "in ensemble 'e', gone"
