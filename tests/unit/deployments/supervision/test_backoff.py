# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import random

from hypothesis import given
from hypothesis import strategies as st

from deployments.supervision.backoff import Backoff


def test_waits_double_up_to_the_longest_and_begin_anew_after_a_reset():
    backoff = Backoff(0.01, 0.05, draw=lambda: 0.0)
    assert [backoff.next_s() for _ in range(5)] == [0.01, 0.02, 0.04, 0.05, 0.05]
    backoff.reset()
    assert backoff.next_s() == 0.01


@given(st.randoms(use_true_random=False))
def test_every_wait_is_between_half_of_its_bound_and_its_bound(source):
    backoff = Backoff(1.0, 8.0, draw=source.random)
    for bound_s in (1.0, 2.0, 4.0, 8.0, 8.0):
        assert bound_s / 2 <= backoff.next_s() <= bound_s


def test_many_that_failed_together_do_not_try_in_step():
    draw = random.Random(1).random
    waits_s = sorted(Backoff(1.0, 1.0, draw).next_s() for _ in range(1000))
    busiest = max(sum(at <= other < at + 0.05 for other in waits_s) for at in waits_s)
    assert busiest < 200
