# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which routers get leases of an idle pool, and when they have to give them back."""

from hypothesis import given
from hypothesis import strategies as st

from deployments.pool_queue.leases import (
    LATELY_NS,
    PAUSE_NS,
    UNUSED_NS,
    LeaseOffer,
    Leases,
    OutstandingLease,
)

MS = 1_000_000


def leased(leases, free, now_ns, number=100):
    """Make the leases that are offered, numbered from ``number`` on."""
    offers = leases.offers(free, now_ns)
    for at, offer in enumerate(offers):
        leases.leased(number + at, offer, now_ns)
    return offers


def test_a_router_nobody_has_heard_of_gets_none():
    assert Leases().offers(["a", "b"], 0) == []


def test_a_router_whose_request_was_executed_alone_gets_the_instance_used_last():
    leases = Leases()
    leases.began(1, "r", 0)
    assert leases.offers(["b"], 1) == []
    leases.ended(1, 5)
    assert leases.offers(["a", "b"], 6) == [LeaseOffer("r", "a")]
    assert leased(leases, ["a", "b"], 6) == [LeaseOffer("r", "a")]
    assert leases.offers(["b"], 7) == []
    assert leases.outstanding_count == 1


def test_a_lease_that_was_used_is_renewed_as_long_as_it_is():
    leases = Leases()
    leases.began(1, "r", 0)
    leases.ended(1, 0)
    for step in range(5):
        now_ns = step * 900 * MS
        assert leased(leases, ["a"], now_ns, step + 2) == [LeaseOffer("r", "a")]
        leases.ended(step + 2, now_ns + MS)
    assert leases.offers(["a"], now_ns + MS + LATELY_NS + 1) == []


def test_a_router_gets_as_many_as_it_had_requests_at_once():
    leases = Leases()
    for number in (1, 2):
        leases.began(number, "r", 0)
    for number in (1, 2):
        leases.ended(number, 1)
    assert len(leased(leases, ["a", "b", "c"], 2)) == 2
    leases.ended(100, 3)
    assert leases.offers(["a", "c"], 4) == [LeaseOffer("r", "a")]


def test_an_instance_stays_free_for_the_holders_own_requests():
    leases = Leases()
    for number in (1, 2):
        leases.began(number, "r", 0)
        leases.ended(number, 0)
    leases.used_here(0)
    assert leases.offers(["a"], 0) == []
    assert leases.offers(["a", "b"], 0) == [LeaseOffer("r", "a")]
    assert leases.offers(["a"], LATELY_NS + 1) == []
    leases.began(3, "r", LATELY_NS)
    leases.ended(3, LATELY_NS)
    assert leases.offers(["a"], LATELY_NS + 1) == [LeaseOffer("r", "a")]


def test_the_router_that_used_the_pool_last_comes_first():
    leases = Leases()
    for number, router in enumerate(("old", "new")):
        leases.began(number, router, number)
        leases.ended(number, number)
    assert leases.offers(["a"], 2) == [LeaseOffer("new", "a")]
    assert leases.offers(["a", "b"], 2) == [LeaseOffer("new", "a"), LeaseOffer("old", "b")]


def test_an_unused_lease_is_called_back_once_and_its_router_gets_fewer():
    leases = Leases()
    for number in (1, 2):
        leases.began(number, "r", 0)
    for number in (1, 2):
        leases.ended(number, 0)
    leased(leases, ["a", "b"], 10)
    assert leases.deadline_ns == 10 + UNUSED_NS
    assert leases.overdue(9 + UNUSED_NS) == []
    overdue = leases.overdue(10 + UNUSED_NS)
    assert overdue == [OutstandingLease("r", 100), OutstandingLease("r", 101)]
    assert leases.deadline_ns is None
    assert leases.overdue(11 + UNUSED_NS) == []
    assert leases.returned(101, "r")
    leases.ended(100, 12 + UNUSED_NS)  # it was in use
    assert leases.offers(["a", "b"], 13 + UNUSED_NS) == [LeaseOffer("r", "a")]


def test_leases_are_called_back_when_something_waits_and_pause_then():
    leases = Leases()
    assert leases.wanted_back(0) == []
    leases.began(1, "r", 0)
    leases.ended(1, 0)
    leased(leases, ["a"], 1)
    assert leases.wanted_back(2) == [OutstandingLease("r", 100)]
    assert leases.wanted_back(3) == []
    assert leases.returned(100, "r")
    assert leases.offers(["a"], PAUSE_NS) == []
    assert leases.offers(["a"], 3 + PAUSE_NS) == [LeaseOffer("r", "a")]


def test_only_who_has_a_lease_can_give_it_back():
    leases = Leases()
    leases.began(1, "r", 0)
    leases.ended(1, 0)
    leased(leases, ["a"], 1)
    assert not leases.returned(100, "stranger")
    assert not leases.returned(99, "r")
    assert leases.returned(100, "r")
    assert not leases.returned(100, "r")


def test_the_leases_of_a_router_that_is_gone_are_known():
    leases = Leases()
    leases.began(1, "r", 0)
    leases.ended(1, 0)
    leased(leases, ["a"], 1)
    leases.began(2, "r", 0)
    assert leases.party_lost("r") == [100]
    leases.ended(100, 2)
    leases.ended(2, 2)
    assert leases.offers(["a"], 3) == []
    assert leases.outstanding_count == 0


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["began", "ended", "here", "offers", "back", "wanted", "overdue", "lost"]),
        st.sampled_from("rst"),
        st.integers(0, 20),
        st.integers(0, 700 * MS),
    ),
    max_size=60,
)


@given(_STEPS)
def test_an_instance_has_one_lease_and_a_called_lease_exists(steps):
    leases = Leases()
    instances = dict.fromkeys("abcd")
    now_ns, last = 0, 100
    out = {}
    for what, party, number, passed_ns in steps:
        now_ns += passed_ns
        if what == "began":
            leases.began(number, party, now_ns)
        elif what == "ended":
            ended = number if not out or number % 2 else next(iter(out))
            leases.ended(ended, now_ns)
            instances = {name: None if of == ended else of for name, of in instances.items()}
            out.pop(ended, None)
        elif what == "here":
            leases.used_here(now_ns)
        elif what == "offers":
            free = [name for name, of in instances.items() if of is None]
            offers = leases.offers(free, now_ns)
            assert len({offer.instance for offer in offers}) == len(offers)
            for offer in offers:
                assert offer.instance in free
                last += 1
                leases.leased(last, offer, now_ns)
                instances[offer.instance] = last
                out[last] = offer.party
        elif what == "back" and out:
            given = next(iter(out))
            assert leases.returned(given, out.pop(given))
            instances = {name: None if of == given else of for name, of in instances.items()}
        elif what == "wanted":
            assert {each.number for each in leases.wanted_back(now_ns)} <= set(out)
        elif what == "overdue":
            assert {each.number for each in leases.overdue(now_ns)} <= set(out)
        elif what == "lost":
            gone = leases.party_lost(party)
            assert set(gone) == {each for each, of in out.items() if of == party}
            out = {each: of for each, of in out.items() if of != party}
            instances = {n: None if of in gone else of for n, of in instances.items()}
        assert leases.outstanding_count == len(out)
