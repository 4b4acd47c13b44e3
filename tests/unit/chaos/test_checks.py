# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is told from clients' records: what a fault excuses, and what nothing does."""

from typing import Any

import pytest

from tests.chaos.checks import Verdict, judge
from tests.chaos.records import (
    ERROR,
    FAR,
    HEAD,
    HUNG,
    LOST,
    OK,
    REFUSED,
    SEQUENCE,
    SHARED,
    STREAM,
    UNARY,
    WRONG,
    Control,
    Journal,
    Record,
    Strike,
)
from tests.chaos.rules import COSTS

AT_S = 100.0


def record(kind: str = OK, *, at_s: float = AT_S, request_id: str = "1", **fields: Any) -> Record:
    given: dict[str, Any] = {
        "client": "a",
        "traffic": UNARY,
        "protocol": "http",
        "node": HEAD,
        "request_id": request_id,
        "kind": kind,
        "begin_s": at_s - 0.1,
        "end_s": at_s + 0.1,
    }
    return Record(**{**given, **fields})


def journal(*records: Record) -> Journal:
    return Journal([each.request_id for each in records if each.kind != REFUSED], list(records))


def strike(fault: str, *, at_s: float = AT_S, **fields: Any) -> Strike:
    return Strike(fault, **{"begin_s": at_s, "over_s": at_s, **fields})


def verdict(records: list[Record], *strikes: Strike) -> Verdict:
    return judge([journal(*records)], strikes)


def unavailable(traffic: str, **fields: Any) -> Record:
    return record(ERROR, traffic=traffic, code="UNAVAILABLE", **fields)


def test_answers_alone_break_nothing() -> None:
    found = verdict([record(), record(request_id="2")])
    assert found.counts == {OK: 2}
    assert found.breaches == ()


@pytest.mark.parametrize("kind", [WRONG, HUNG, LOST, REFUSED, ERROR])
def test_without_a_fault_nothing_but_an_answer_is_allowed(kind: str) -> None:
    (breach,) = verdict([record(kind, detail="what it was")]).breaches
    assert "what it was" in breach


@pytest.mark.parametrize("fault", COSTS)
def test_no_fault_excuses_a_wrong_answer(fault: str) -> None:
    hit = strike(fault, node=HEAD, ports=frozenset({7}), connections=9, last_of=frozenset({UNARY}))
    assert verdict([record(WRONG, port=7, is_first=True)], hit).breaches


@pytest.mark.parametrize("fault", COSTS)
def test_no_fault_of_one_node_excuses_an_answer_that_never_came(fault: str) -> None:
    assert verdict([record(HUNG)], strike(fault, node=FAR)).breaches


class TestTerminalOutcomes:
    def test_request_without_an_outcome_is_a_breach(self) -> None:
        (breach,) = judge([Journal(["1", "2"], [record()])], []).breaches
        assert breach == "1 requests without a terminal outcome: 2"

    def test_request_with_two_outcomes_is_a_breach(self) -> None:
        (breach,) = judge([Journal(["1"], [record(), record()])], []).breaches
        assert breach == "1 requests with more than one terminal outcome: 1"

    def test_an_id_that_two_clients_send_is_a_breach(self) -> None:
        (breach,) = judge([journal(record()), journal(record(client="b"))], []).breaches
        assert breach == "1 requests sent twice: 1"

    def test_a_connection_that_was_never_made_is_no_request(self) -> None:
        lost = strike("lose-node", node=FAR)
        refused = record(REFUSED, node=FAR, request_id="-")
        assert judge([journal(refused, refused)], [lost]).breaches == ()


class TestInstances:
    @pytest.mark.parametrize("traffic", [SEQUENCE, STREAM, SHARED])
    def test_what_is_tied_to_a_killed_instance_may_end(self, traffic: str) -> None:
        hit = strike("kill-instance", traffics=frozenset({traffic}))
        found = verdict([unavailable(traffic)], hit)
        assert found.breaches == ()
        assert found.excused == {"kill-instance": {ERROR: 1}}

    def test_what_can_be_sent_elsewhere_may_not(self) -> None:
        hit = strike("kill-instance", traffics=frozenset({UNARY}))
        assert verdict([unavailable(UNARY)], hit).breaches

    def test_unless_there_was_no_other_instance(self) -> None:
        hit = strike("lose-node", last_of=frozenset({UNARY}))
        assert not verdict([unavailable(UNARY)], hit).breaches

    def test_unless_the_next_instance_was_hit_as_well(self) -> None:
        hits = [strike("kill-instance"), strike("kill-instance", at_s=AT_S + 1)]
        assert not verdict([unavailable(UNARY, end_s=AT_S + 1.2)], *hits).breaches

    def test_unless_the_next_instance_was_on_the_same_lost_node(self) -> None:
        hit = strike("lose-node", node=FAR)
        assert not verdict([unavailable(UNARY)], hit).breaches

    def test_instances_of_another_model_excuse_nothing(self) -> None:
        hit = strike("kill-instance", traffics=frozenset({STREAM}))
        assert verdict([unavailable(SEQUENCE)], hit).breaches

    def test_other_codes_are_not_excused(self) -> None:
        hit = strike("kill-instance", traffics=frozenset({STREAM}))
        assert verdict([record(ERROR, traffic=STREAM, code="INTERNAL")], hit).breaches

    def test_what_began_long_after_is_not_excused(self) -> None:
        hit = strike("kill-instance", at_s=AT_S - 60, traffics=frozenset({STREAM}))
        assert verdict([unavailable(STREAM)], hit).breaches

    def test_what_ended_before_is_not_excused(self) -> None:
        hit = strike("kill-instance", at_s=AT_S + 1, traffics=frozenset({STREAM}))
        assert verdict([unavailable(STREAM)], hit).breaches

    def test_a_fault_that_was_left_out_excuses_nothing(self) -> None:
        hit = strike("kill-instance", traffics=frozenset({STREAM}), left_out="nobody to hit")
        assert verdict([unavailable(STREAM)], hit).breaches


class TestSequences:
    HIT = strike("kill-instance", traffics=frozenset({SEQUENCE}))

    def test_a_sequence_learns_of_its_loss_with_its_next_request(self) -> None:
        records = [
            record(traffic=SEQUENCE, sequence=9, at_s=AT_S - 1),
            unavailable(SEQUENCE, sequence=9, at_s=AT_S + 30, request_id="2"),
        ]
        assert verdict(records, self.HIT).breaches == ()

    def test_a_sequence_that_began_long_after_is_not_excused(self) -> None:
        assert verdict([unavailable(SEQUENCE, sequence=9, at_s=AT_S + 30)], self.HIT).breaches

    def test_a_sequence_that_has_failed_may_not_go_on(self) -> None:
        records = [
            unavailable(SEQUENCE, sequence=9),
            record(traffic=SEQUENCE, sequence=9, at_s=AT_S + 1, request_id="2"),
        ]
        (breach,) = verdict(records, self.HIT).breaches
        assert breach == "sequence 9 of a went on after it had failed"

    def test_the_same_number_of_another_client_is_another_sequence(self) -> None:
        records = [
            unavailable(SEQUENCE, sequence=9),
            record(traffic=SEQUENCE, sequence=9, client="b", at_s=AT_S + 1, request_id="2"),
        ]
        assert verdict(records, self.HIT).breaches == ()


class TestConnections:
    HIT = strike("kill-ingress", node=HEAD, ports=frozenset({7}), connections=1)

    def test_connections_of_a_killed_ingress_may_end(self) -> None:
        assert verdict([record(LOST, port=7)], self.HIT).breaches == ()

    def test_connections_of_the_other_ingress_may_not(self) -> None:
        assert verdict([record(LOST, port=8)], self.HIT).breaches

    def test_a_connection_without_an_answer_may_have_been_in_its_backlog(self) -> None:
        assert verdict([record(LOST, port=8, is_first=True)], self.HIT).breaches == ()

    def test_new_connections_are_not_refused(self) -> None:
        assert verdict([record(REFUSED)], self.HIT).breaches

    def test_as_many_grpc_clients_may_lose_one_as_it_had_connections(self) -> None:
        assert verdict([record(LOST, protocol="grpc")], self.HIT).breaches == ()

    def test_more_grpc_clients_may_not(self) -> None:
        records = [
            record(LOST, protocol="grpc", client=name, request_id=name) for name in ("a", "b")
        ]
        (breach,) = verdict(records, self.HIT).breaches
        assert breach.startswith("2 gRPC clients lost a request when kill-ingress hit a process")

    def test_clients_of_a_lost_node_may_lose_and_be_refused(self) -> None:
        hit = strike("lose-node", node=FAR)
        records = [record(LOST, node=FAR), record(REFUSED, node=FAR, request_id="-")]
        assert verdict(records, hit).breaches == ()

    def test_clients_of_the_other_node_may_not(self) -> None:
        assert verdict([record(LOST)], strike("lose-node", node=FAR)).breaches


class TestDelays:
    def test_a_late_answer_is_a_breach(self) -> None:
        (breach,) = verdict([record(begin_s=AT_S - 40)]).breaches
        assert breach.startswith("1 answers were late: 1 of a took 40.1 s")

    def test_a_fault_allows_its_own_length_and_its_delay(self) -> None:
        late = record(begin_s=AT_S, end_s=AT_S + 25)
        assert verdict([late], strike("stop-ingress", over_s=AT_S + 5)).breaches == ()


class TestControls:
    FAILED = Control("load of a", AT_S, AT_S + 1, "503 not now")

    def test_a_load_that_fails_is_a_breach(self) -> None:
        assert judge([], [], [self.FAILED]).breaches == ("load of a: 503 not now",)

    def test_a_load_may_fail_when_the_controller_is_killed(self) -> None:
        assert judge([], [strike("kill-controller")], [self.FAILED]).breaches == ()

    def test_a_load_may_be_cut_off_when_an_ingress_is_killed_but_not_refused(self) -> None:
        cut = Control("load of a", AT_S, AT_S + 1, "0 EOF", is_cut=True)
        assert judge([], [strike("kill-ingress")], [cut]).breaches == ()
        assert judge([], [strike("kill-ingress")], [self.FAILED]).breaches
        assert judge([], [strike("stop-ingress")], [cut]).breaches

    def test_a_load_may_not_fail_because_an_instance_is_killed(self) -> None:
        assert judge([], [strike("kill-instance")], [self.FAILED]).breaches
