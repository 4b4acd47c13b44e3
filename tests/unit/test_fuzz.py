# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Mutated valid input for all that parses foreign bytes; ``make fuzz`` goes on for longer."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import HANG_S, TARGETS, Target
from tests.support.examples import examples

# Values at which lengths, counts and signs change their meaning.
_EDGES = tuple(
    number.to_bytes(size, order, signed=True)
    for size in (1, 2, 4, 8)
    for order in ("big", "little")
    for number in (0, 1, -1, -(1 << 8 * size - 1), (1 << 8 * size - 1) - 1)
)
_TEXTS = (
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b"\r\n",
    b"\0",
    b"null",
    b"1e999",
    b"9" * 40,
    b"\xff",
)

_Edit = tuple[float, int, bytes, int]
_edits = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 40),
        st.sampled_from((b"", *_EDGES, *_TEXTS)) | st.binary(max_size=12),
        st.sampled_from((1, 1, 1, 2, 100)),
    ),
    max_size=6,
)


def mutated(seed: bytes, edits: list[_Edit]) -> bytes:
    """Replace pieces of a seed: (where, how many bytes, by what, how often)."""
    data = bytearray(seed)
    for place, removed, inserted, count in edits:
        at = int(place * len(data))
        data[at : at + removed] = inserted * count
    return bytes(data)


# protobuf warns of a backslash before any letter, and takes it.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
@pytest.mark.timeout(HANG_S * 6)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_mutated_input_is_parsed_or_refused(target: Target) -> None:
    @settings(
        max_examples=examples(250),
        deadline=HANG_S * 1000,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.sampled_from(target.seeds), _edits)
    def parse(seed: bytes, edits: list[_Edit]) -> None:
        target.run(mutated(seed, edits))

    parse()


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_every_seed_is_parsed(target: Target) -> None:
    for seed in target.seeds:
        target.run(seed)
