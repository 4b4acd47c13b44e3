# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The arbiter: never more than there is, by priority, and nobody waits for ever."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from backends.api.errors import InvalidArgumentError
from deployments.rate_limiter.arbiter import (
    GLOBAL,
    ClaimEvent,
    ClaimPhase,
    Limit,
    Resource,
    ResourceArbiter,
    ResourceDemand,
    count_resources,
)
from tests.support.examples import examples


def demand(priority: int = 1, *, device: int = 0, **counts: int) -> ResourceDemand:
    return ResourceDemand(
        {Resource(device, name): count for name, count in counts.items()}, priority
    )


def arbiter(*limits: Limit, **members: ResourceDemand) -> ResourceArbiter:
    made = ResourceArbiter(limits)
    for name, needs in members.items():
        assert made.join(name, needs) == []
    return made


def executed(made: ResourceArbiter, holder: str, count: int) -> list[str]:
    """Return who executes, in order, when everybody always asks again."""
    order = []
    for _ in range(count):
        order.append(holder)
        (holder,) = made.apply(holder, ClaimEvent.DONE_AND_ASK)
    return order


# How many there are. Triton: qa/L0_rate_limiter/test.sh, the cases that fail to load.

R1, R2 = Resource(0, "R1"), Resource(GLOBAL, "R2")
FIRST = demand(R1=4)
SECOND = ResourceDemand({R1: 2, R2: 2}, 2)


def test_without_limits_there_is_as_much_as_one_instance_needs_at_most():
    assert count_resources([FIRST, SECOND]) == {R1: 4, R2: 2}


@pytest.mark.parametrize(
    ("limits", "available"),
    [
        ([Limit("R1", 1)], 1),
        ([Limit("R1", 3), Limit("R2", 2)], 3),
        ([Limit("R1", 10, 10), Limit("R2", 2)], 0),
        ([Limit("R1", 9), Limit("R1", 3), Limit("R2", 2)], 3),
        ([Limit("R2", 2)], 0),
    ],
    ids=["less than both need", "enough for one", "of another device", "twice", "not named"],
)
def test_a_resource_of_which_there_is_too_little_is_refused(limits, available):
    with pytest.raises(InvalidArgumentError) as caught:
        count_resources([FIRST, SECOND], limits)
    assert caught.value.message == (
        f'Resource count for "R1" is limited to {available} which will prevent scheduling of one or'
        " more model instances, the minimum required count is 4"
    )


def test_limits_are_what_there_is():
    limits = [Limit("R1", 6), Limit("R1", 8, 0), Limit("R1", 7, 1), Limit("R2", 3, 5)]
    assert count_resources([FIRST, SECOND], limits) == {R1: 8, R2: 3}
    assert count_resources([demand(device=2, R1=1)], limits) == {Resource(2, "R1"): 6}


def test_a_resource_cannot_be_global_and_of_devices():
    with pytest.raises(InvalidArgumentError) as caught:
        count_resources([SECOND, demand(R2=2)])
    assert caught.value.message == (
        'Resource "R2" is present as both global and device-specific resource in the model '
        "configuration."
    )


def test_a_member_that_is_refused_changes_nothing():
    made = arbiter(Limit("R1", 2), small=demand(R1=2))
    with pytest.raises(InvalidArgumentError):
        made.join("large", demand(R1=4))
    assert made.totals == {R1: 2}
    assert made.apply("small", ClaimEvent.ASK) == ["small"]


# Who is next.


def test_instances_that_need_the_same_resource_take_turns():
    made = arbiter(a=demand(R=1), b=demand(R=1))
    assert made.apply("a", ClaimEvent.ASK) == ["a"]
    assert made.apply("b", ClaimEvent.ASK) == []
    assert executed(made, "a", 6) == ["a", "b"] * 3


def test_resources_of_different_devices_are_apart_and_global_ones_are_not():
    made = arbiter(
        a=demand(device=0, R=1),
        b=demand(device=1, R=1),
        c=ResourceDemand({Resource(GLOBAL, "G"): 1}),
    )
    assert made.apply("a", ClaimEvent.ASK) == ["a"]
    assert made.apply("b", ClaimEvent.ASK) == ["b"]
    assert made.apply("c", ClaimEvent.ASK) == ["c"]
    made.join("d", ResourceDemand({Resource(GLOBAL, "G"): 1}))
    assert made.apply("d", ClaimEvent.ASK) == []


def test_with_enough_resources_instances_execute_side_by_side():
    made = arbiter(Limit("R1", 6), Limit("R2", 2), a=FIRST, b=SECOND)
    assert made.apply("a", ClaimEvent.ASK) == ["a"]
    assert made.apply("b", ClaimEvent.ASK) == ["b"]
    assert made.held == {R1: 6, R2: 2}


@pytest.mark.parametrize("priority", [2, 3])
def test_executions_are_shared_in_inverse_proportion_to_priority(priority):
    made = arbiter(a=demand(1, R=1), b=demand(priority, R=1))
    made.apply("a", ClaimEvent.ASK)
    made.apply("b", ClaimEvent.ASK)
    order = executed(made, "a", 40 * (priority + 1))
    assert order.count("a") == priority * order.count("b")


def test_priority_nought_is_priority_one():
    made = arbiter(a=demand(0, R=1), b=demand(1, R=1))
    made.apply("a", ClaimEvent.ASK)
    made.apply("b", ClaimEvent.ASK)
    assert executed(made, "a", 4) == ["a", "b", "a", "b"]


def test_an_instance_that_rested_or_is_new_has_no_arrears():
    made = arbiter(busy=demand(R=1), idle=demand(R=1))
    made.apply("busy", ClaimEvent.ASK)
    for _ in range(100):
        assert made.apply("busy", ClaimEvent.DONE_AND_ASK) == ["busy"]
    made.join("new", demand(R=1))
    made.apply("idle", ClaimEvent.ASK)
    made.apply("new", ClaimEvent.ASK)
    order = executed(made, "busy", 9)
    assert [order.count(name) for name in ("busy", "idle", "new")] == [3, 3, 3]


def test_a_grant_without_an_execution_does_not_count():
    made = arbiter(a=demand(R=1), b=demand(R=1))
    for _ in range(10):
        assert made.apply("a", ClaimEvent.ASK) == ["a"]
        assert made.apply("a", ClaimEvent.DECLINE) == []
    made.apply("a", ClaimEvent.ASK)
    made.apply("b", ClaimEvent.ASK)
    assert executed(made, "a", 4) == ["a", "b", "a", "b"]


def test_a_large_demand_is_not_passed_by_small_ones_that_need_the_same():
    made = arbiter(Limit("R", 4), large=demand(R=4), s1=demand(R=1), s2=demand(R=1))
    made.apply("s1", ClaimEvent.ASK)
    assert made.apply("large", ClaimEvent.ASK) == []
    made.apply("s2", ClaimEvent.ASK)
    assert made.phase("s2") is ClaimPhase.ASKING
    assert made.apply("s1", ClaimEvent.DONE_AND_ASK) == ["large"]
    assert made.apply("large", ClaimEvent.DONE) == ["s2", "s1"]


def test_who_waits_does_not_hold_up_those_that_need_something_else():
    made = arbiter(a=demand(R=1), b=demand(R=1), other=demand(Q=1))
    made.apply("a", ClaimEvent.ASK)
    made.apply("b", ClaimEvent.ASK)
    assert made.apply("other", ClaimEvent.ASK) == ["other"]


# Calls of models to models.


def test_a_called_model_gets_what_its_caller_holds_while_that_waits():
    made = arbiter(caller=demand(R=1), called=demand(R=1))
    made.apply("caller", ClaimEvent.ASK)
    assert made.apply("called", ClaimEvent.ASK) == []
    assert made.apply("caller", ClaimEvent.PAUSE) == ["called"]
    assert made.apply("caller", ClaimEvent.RESUME) == []
    assert made.apply("called", ClaimEvent.DONE_AND_ASK) == ["caller"]


def test_who_goes_on_with_an_execution_is_granted_before_all_that_begin_one():
    made = arbiter(caller=demand(9, R=1), a=demand(R=1), b=demand(R=1))
    made.apply("caller", ClaimEvent.ASK)
    made.apply("a", ClaimEvent.ASK)
    made.apply("b", ClaimEvent.ASK)
    assert made.apply("caller", ClaimEvent.PAUSE) == ["a"]
    made.apply("caller", ClaimEvent.RESUME)
    assert made.apply("a", ClaimEvent.DONE_AND_ASK) == ["caller"]
    assert made.apply("caller", ClaimEvent.DONE) == ["b"]


# Ends and successors.


@pytest.mark.parametrize("last", [None, ClaimEvent.PAUSE])
def test_what_a_dead_instance_held_is_free(last):
    made = arbiter(dead=demand(R=1), heir=demand(R=1))
    made.apply("dead", ClaimEvent.ASK)
    if last is None:
        made.apply("heir", ClaimEvent.ASK)
        assert made.leave("dead") == ["heir"]
    else:
        made.apply("dead", last)
        made.leave("dead")
        assert made.apply("heir", ClaimEvent.ASK) == ["heir"]
    assert made.held == {Resource(0, "R"): 1}


def test_an_arbiter_that_takes_over_grants_nothing_before_it_is_opened():
    made = ResourceArbiter(is_open=False)
    assert made.join("asks", demand(R=1), ClaimPhase.ASKING) == []
    assert made.join("holds", demand(R=1), ClaimPhase.HOLDING) == []
    assert made.open() == []
    assert made.apply("holds", ClaimEvent.DONE) == ["asks"]


@pytest.mark.parametrize(
    ("phase", "event"),
    [
        (ClaimPhase.IDLE, ClaimEvent.DONE),
        (ClaimPhase.ASKING, ClaimEvent.ASK),
        (ClaimPhase.HOLDING, ClaimEvent.RESUME),
        (ClaimPhase.PAUSED, ClaimEvent.DONE),
    ],
)
def test_a_member_cannot_say_what_makes_no_sense_where_it_is(phase, event):
    made = ResourceArbiter(is_open=False)
    made.join("a", demand(R=1), phase)
    with pytest.raises(ValueError, match="cannot say"):
        made.apply("a", event)


# Invariants.

DEMANDS = st.builds(
    lambda counts, priority: ResourceDemand(
        {Resource(device, name): count for (device, name), count in counts.items()}, priority
    ),
    st.dictionaries(
        st.sampled_from([(0, "A"), (1, "A"), (0, "B"), (GLOBAL, "G")]),
        st.integers(1, 3),
        min_size=1,
    ),
    st.integers(0, 3),
)


class Arbitration(RuleBasedStateMachine):
    """Any members doing anything they may do."""

    @initialize(limits=st.sampled_from([(), (Limit("A", 3), Limit("B", 4), Limit("G", 3))]))
    def begin(self, limits):
        self.arbiter = ResourceArbiter(limits)
        self.demands = {}
        self.count = 0

    @rule(needs=DEMANDS)
    def join(self, needs):
        self.count += 1
        name = f"m{self.count}"
        self.demands[name] = needs
        self.check(self.arbiter.join(name, needs))

    @precondition(lambda self: self.demands)
    @rule(data=st.data())
    def speak(self, data):
        name = data.draw(st.sampled_from(sorted(self.demands)))
        allowed = {
            ClaimPhase.IDLE: [ClaimEvent.ASK],
            ClaimPhase.HOLDING: [
                ClaimEvent.DONE,
                ClaimEvent.DONE_AND_ASK,
                ClaimEvent.DECLINE,
                ClaimEvent.PAUSE,
            ],
            ClaimPhase.PAUSED: [ClaimEvent.RESUME],
        }.get(self.arbiter.phase(name))
        if allowed:
            self.check(self.arbiter.apply(name, data.draw(st.sampled_from(allowed))))

    @precondition(lambda self: self.demands)
    @rule(data=st.data())
    def die(self, data):
        name = data.draw(st.sampled_from(sorted(self.demands)))
        del self.demands[name]
        self.check(self.arbiter.leave(name))

    def check(self, granted):
        for name in granted:
            assert self.arbiter.phase(name) is ClaimPhase.HOLDING
            for resource in self.demands[name].resources:
                assert self.arbiter.held[resource] <= self.arbiter.totals[resource]

    @invariant()
    def held_is_the_sum_of_what_holders_need(self):
        held = {}
        for name, needs in self.demands.items():
            if self.arbiter.phase(name) is ClaimPhase.HOLDING:
                for resource, count in needs.resources.items():
                    held[resource] = held.get(resource, 0) + count
        assert held == self.arbiter.held

    @invariant()
    def somebody_executes_while_somebody_waits(self):
        phases = {self.arbiter.phase(name) for name in self.demands}
        if phases & {ClaimPhase.ASKING, ClaimPhase.RESUMING}:
            assert ClaimPhase.HOLDING in phases


TestArbitration = Arbitration.TestCase
TestArbitration.settings = settings(
    max_examples=examples(20), stateful_step_count=25, deadline=None
)


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(DEMANDS, min_size=2, max_size=5))
def test_nobody_starves(demands):
    made = ResourceArbiter()
    names = [f"m{index}" for index in range(len(demands))]
    for name, needs in zip(names, demands, strict=True):
        made.join(name, needs)
    holders = [granted for name in names for granted in made.apply(name, ClaimEvent.ASK)]
    waited = dict.fromkeys(names, 0)
    for _ in range(60):
        holders += made.apply(holders.pop(0), ClaimEvent.DONE_AND_ASK)
        for name in names:
            waited[name] = 0 if name in holders else waited[name] + 1
        # Before a member of priority 3 is due, the others execute three times, and once where all
        # wait equally; and those must end that hold something when it is.
        assert max(waited.values()) <= 5 * len(names)
