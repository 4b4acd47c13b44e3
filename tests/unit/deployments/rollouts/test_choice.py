# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import zlib
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.request import SEQUENCE_END, SEQUENCE_START
from deployments.rollouts.choice import MOST_SEQUENCES, Chooser, place_of, spread
from deployments.rollouts.spec import (
    Arm,
    Condition,
    How,
    Rule,
    Shadow,
    Source,
    Sticky,
    Traffic,
)
from tests.support.examples import examples

USER = Sticky(Source.HEADER, "user")
ALL = frozenset(range(1, 20))


def traffic(*weights: int, sticky: Sticky | None = None, rules: tuple[Rule, ...] = ()) -> Traffic:
    arms = tuple(Arm(f"arm{at}", at + 1, weight) for at, weight in enumerate(weights))
    return Traffic(1, "salt", arms, rules, sticky)


def names(chooser: Chooser, users: range) -> dict[int, str]:
    return {user: chooser.choose({"user": f"user-{user}"}, {}).name for user in users}


_splits = st.lists(st.integers(0, 10_000), min_size=1, max_size=7).map(
    lambda cuts: tuple(
        after - before
        for before, after in zip([0, *sorted(cuts)], [*sorted(cuts), 10_000], strict=True)
    )
)


@settings(max_examples=examples(60), deadline=None)
@given(_splits, st.integers(1, 16), st.integers(0, 1 << 40))
def test_ten_thousand_requests_are_split_within_one_percent_by_ingresses_that_choose_alone(
    weights: tuple[int, ...], ingresses: int, seed: int
) -> None:
    random = Random(seed)
    choosers = [Chooser(traffic(*weights), ALL, random.getrandbits(32)) for _ in range(ingresses)]
    counts: Counter[str] = Counter()
    for _ in range(10_000):
        counts[random.choice(choosers).choose({}, {}).name] += 1
    for at, weight in enumerate(weights):
        assert abs(counts[f"arm{at}"] - weight) <= 100


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 10_000), st.integers(0, (1 << 32) - 1))
def test_one_ingress_splits_exactly_within_a_few_requests(weight: int, phase: int) -> None:
    chooser = Chooser(traffic(10_000 - weight, weight), ALL, phase)
    count = sum(chooser.choose({}, {}).version == 2 for _ in range(1000))
    assert abs(count - weight / 10) <= 4


@pytest.mark.parametrize("period", [2, 3, 5, 8, 10])
def test_clients_that_take_turns_are_split_alike(period: int) -> None:
    chooser = Chooser(traffic(9_000, 1_000), ALL, 99)
    counts = Counter(at % period for at in range(20_000) if chooser.choose({}, {}).version == 2)
    for turn in range(period):
        assert abs(counts[turn] - 2_000 / period) <= 0.05 * 2_000 / period + 5


def test_a_key_has_the_same_arm_in_every_ingress_and_every_time() -> None:
    for weights in ((7_000, 3_000), (5_000, 2_000, 3_000)):
        seen = traffic(*weights, sticky=USER)
        first = names(Chooser(seen, ALL, 1), range(500))
        assert names(Chooser(seen, ALL, 2), range(500)) == first


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_a_heavier_candidate_takes_keys_and_gives_none_back(one: int, other: int) -> None:
    less, more = sorted((one, other))
    before = names(Chooser(traffic(10_000 - less, less, sticky=USER), ALL, 0), range(300))
    after = names(Chooser(traffic(10_000 - more, more, sticky=USER), ALL, 0), range(300))
    assert all(after[user] == "arm1" for user, arm in before.items() if arm == "arm1")


@settings(max_examples=examples(40), deadline=None)
@given(_splits, st.data())
def test_a_change_of_many_weights_moves_keys_only_from_arms_that_shrank_or_to_arms_that_grew(
    weights: tuple[int, ...], data: st.DataObject
) -> None:
    giver = data.draw(st.integers(0, len(weights) - 1))
    taker = data.draw(st.integers(0, len(weights) - 1))
    moved = data.draw(st.integers(0, weights[giver]))
    changed = list(weights)
    changed[giver] -= moved
    changed[taker] += moved
    before = names(Chooser(traffic(*weights, sticky=USER), ALL, 0), range(200))
    after = names(Chooser(traffic(*changed, sticky=USER), ALL, 0), range(200))
    for user, arm in before.items():
        if after[user] != arm and len(weights) > 2:
            assert arm == f"arm{giver}" or after[user] == f"arm{taker}"


def test_keys_are_shared_by_weight() -> None:
    for weights in ((9_500, 500), (5_000, 3_000, 2_000)):
        counts = Counter(
            names(Chooser(traffic(*weights, sticky=USER), ALL, 0), range(20_000)).values()
        )
        for at, weight in enumerate(weights):
            # Keys are drawn at random: four standard deviations.
            allowed = 4 * (20_000 * weight * (10_000 - weight)) ** 0.5 / 10_000
            assert abs(counts[f"arm{at}"] - 2 * weight) <= allowed


def test_another_salt_shares_users_differently() -> None:
    seen = traffic(5_000, 5_000, sticky=USER)
    first = names(Chooser(seen, ALL, 0), range(2000))
    other = names(Chooser(replace(seen, salt="other"), ALL, 0), range(2000))
    assert 800 < sum(first[user] == other[user] for user in first) < 1200


def test_a_request_without_a_key_goes_by_weight() -> None:
    chooser = Chooser(traffic(5_000, 5_000, sticky=USER), ALL, 0)
    counts = Counter(chooser.choose({}, {}).name for _ in range(1000))
    assert abs(counts["arm0"] - 500) <= 4


def test_rules_come_first_and_in_order() -> None:
    beta = Condition(Source.HEADER, "beta", How.PRESENT)
    red = Condition(Source.TENANT, "", How.EXACT, ("red",))
    rules = (Rule("arm1", (beta,)), Rule("arm0", (red,)))
    chooser = Chooser(traffic(0, 10_000, sticky=USER, rules=rules), ALL, 0)
    assert chooser.choose({"beta": "1"}, {}, "red").name == "arm1"
    assert chooser.choose({"user": "u"}, {}, "red").name == "arm0"
    assert chooser.choose({"user": "u"}, {}, "blue").name == "arm1"


def test_requests_of_an_arm_that_cannot_serve_go_to_the_stable_one_and_no_other_key_moves() -> None:
    for weights in ((7_000, 3_000), (4_000, 3_000, 3_000)):
        chooser = Chooser(traffic(*weights, sticky=USER), ALL, 0)
        before = names(chooser, range(500))
        chooser.take(chooser.traffic, ALL - {2})
        during = names(chooser, range(500))
        assert during == {user: "arm0" if arm == "arm1" else arm for user, arm in before.items()}
        chooser.take(chooser.traffic, ALL)
        assert names(chooser, range(500)) == before


def test_without_the_stable_version_the_first_that_can_serve_takes_its_requests() -> None:
    chooser = Chooser(traffic(9_000, 1_000), {2}, 0)
    assert {chooser.choose({}, {}).version for _ in range(100)} == {2}


def test_without_any_version_that_can_serve_the_arm_is_the_stable_one() -> None:
    assert Chooser(traffic(0, 10_000), (), 0).choose({}, {}).version == 1


def test_a_sequence_stays_where_it_began_when_weights_change() -> None:
    chooser = Chooser(traffic(0, 10_000), ALL, 0)
    assert chooser.choose({}, {}, "", 7, SEQUENCE_START).version == 2
    chooser.take(traffic(10_000, 0), ALL)
    assert chooser.choose({}, {}, "", 7).version == 2
    assert chooser.choose({}, {}, "", "8", SEQUENCE_START).version == 1
    assert chooser.choose({}, {}, "", 7, SEQUENCE_END).version == 2
    # It is over; the next of this number is another one.
    assert chooser.choose({}, {}, "", 7, SEQUENCE_START).version == 1


def test_a_sequence_that_begins_anew_without_having_ended_is_chosen_for_anew() -> None:
    chooser = Chooser(traffic(0, 10_000), ALL, 0)
    chooser.choose({}, {}, "", 7, SEQUENCE_START)
    chooser.take(traffic(10_000, 0), ALL)
    assert chooser.choose({}, {}, "", 7, SEQUENCE_START).version == 1


def test_a_sequence_whose_version_cannot_serve_goes_to_the_stable_one() -> None:
    chooser = Chooser(traffic(0, 10_000), ALL, 0)
    chooser.choose({}, {}, "", 7, SEQUENCE_START)
    chooser.take(traffic(0, 10_000), {1})
    assert chooser.choose({}, {}, "", 7).version == 1


def test_sequences_have_the_same_arm_in_every_ingress() -> None:
    seen = traffic(5_000, 5_000)
    one, other = Chooser(seen, ALL, 1), Chooser(seen, ALL, 2)
    for sequence in range(1, 200):
        first = one.choose({}, {}, "", sequence, SEQUENCE_START)
        assert other.choose({}, {}, "", sequence).version == first.version


def test_remembered_sequences_are_bounded() -> None:
    chooser = Chooser(traffic(5_000, 5_000), ALL, 0)
    for sequence in range(1, MOST_SEQUENCES + 100):
        chooser.choose({}, {}, "", sequence, SEQUENCE_START)
    assert len(chooser._began) == MOST_SEQUENCES


def test_a_shadow_gets_its_share_and_only_with_a_shadow_is_anything_copied() -> None:
    assert not any(Chooser(traffic(10_000), ALL, 0).mirrors() for _ in range(100))
    shadowed = replace(traffic(10_000), shadow=Shadow(9, 2_500))
    chooser = Chooser(shadowed, ALL, 5)
    assert abs(sum(chooser.mirrors() for _ in range(1000)) - 250) <= 4


def test_numbers_are_spread_one_to_one() -> None:
    numbers = [*range(5000), *range(1 << 31, (1 << 31) + 5000)]
    found = [spread(number) for number in numbers]
    assert len(set(found)) == len(numbers)
    counts = Counter(number >> 28 for number in found)
    assert all(abs(count - 625) < 150 for count in counts.values())


def test_a_key_keeps_its_arm_from_release_to_release() -> None:
    def arms(*weights: int) -> str:
        chosen = names(Chooser(traffic(*weights, sticky=USER), ALL, 0), range(40))
        return "".join(each.removeprefix("arm") for each in chosen.values())

    assert arms(5_000, 5_000) == "0111001010000011101101010010110111111011"
    assert arms(5_000, 2_000, 3_000) == "0211001000001222000201020222200200202000"
    assert place_of("user-1", 0) == 1_304_011_714
    assert place_of("\ud800", 7) == 456_038_863
    assert (spread(1), spread(0xDEADBEEF)) == (3_979_630_085, 683_641_658)


@pytest.mark.parametrize("sequence", [0, 7])
@pytest.mark.parametrize(
    ("source", "request_"),
    [
        (Source.HEADER, {"headers": {"user": "u"}}),
        (Source.PARAMETER, {"parameters": {"user": "u"}}),
        (Source.TENANT, {"tenant": "u"}),
    ],
)
def test_rules_and_keys_look_at_the_whole_request(
    source: Source, request_: dict[str, object], sequence: int
) -> None:
    name = "user" if source in (Source.HEADER, Source.PARAMETER) else ""
    asked = {"headers": {}, "parameters": {}, "sequence": sequence} | request_
    rule = Rule("arm2", (Condition(source, name, How.EXACT, ("u",)),))
    ruled = Chooser(traffic(5_000, 5_000, 0, rules=(rule,)), ALL, 0)
    assert ruled.choose(**asked).name == "arm2"  # type: ignore[arg-type]
    # The key decides and not the share: nine ingresses that begin elsewhere choose alike.
    keyed = traffic(5_000, 5_000, sticky=Sticky(source, name))
    of_key = {
        Chooser(keyed, ALL, phase << 28).choose(**asked).name  # type: ignore[arg-type]
        for phase in range(9)
    }
    assert of_key == {"arm1" if place_of("u", spread(zlib.crc32(b"salt"))) < 1 << 31 else "arm0"}


def test_a_rule_can_name_a_sequence() -> None:
    rule = Rule("arm2", (Condition(Source.SEQUENCE, "", How.EXACT, ("7",)),))
    chooser = Chooser(traffic(10_000, 0, 0, rules=(rule,)), ALL, 0)
    assert chooser.choose({}, {}, sequence=7).name == "arm2"
    assert chooser.choose({}, {}, sequence=8).name == "arm0"


def test_without_a_key_a_correlation_id_is_one() -> None:
    for sequence in range(1, 30):
        chosen = {
            Chooser(traffic(5_000, 5_000), ALL, phase << 28)
            .choose({}, {}, sequence=sequence, flags=SEQUENCE_START)
            .name
            for phase in range(9)
        }
        assert len(chosen) == 1


@pytest.mark.parametrize("weight", [0, 1, 2_500, 10_000])
def test_a_shadow_is_sent_its_share(weight: int) -> None:
    seen = replace(traffic(10_000), shadow=Shadow(2, weight))
    chooser = Chooser(seen, ALL, 0)
    count = sum(chooser.mirrors() for _ in range(10_000))
    assert abs(count - weight) <= 4
