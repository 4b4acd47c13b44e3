# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.api.bytes_tensor import count_elements, deserialize_bytes, serialize_bytes
from tests.support.examples import examples


def wire(elements: list[bytes]) -> bytes:
    """Wire form, element by element."""
    return b"".join(struct.pack("<I", len(each)) + each for each in elements)


# Short and long ones, and equally long ones, few and many.
element_lists = st.lists(st.binary(max_size=6), max_size=80) | st.tuples(
    st.binary(max_size=300) | st.binary(min_size=4090, max_size=4100), st.integers(0, 80)
).map(lambda given: [given[0]] * given[1])


@settings(max_examples=examples(200), deadline=None)
@given(elements=element_lists)
def test_elements_survive_the_wire(elements: list[bytes]) -> None:
    serialized = serialize_bytes(elements)
    assert serialized == wire(elements)
    data = memoryview(serialized)
    assert deserialize_bytes(data) == elements
    assert {type(each) for each in deserialize_bytes(data)} <= {bytes}
    assert count_elements(data) == len(elements)


@settings(max_examples=examples(200), deadline=None)
@given(elements=element_lists, at=st.integers(0, 500), inserted=st.binary(max_size=4))
def test_elements_are_counted_where_they_can_be_split(
    elements: list[bytes], at: int, inserted: bytes
) -> None:
    whole = wire(elements)
    mutated = memoryview(whole[:at] + inserted + whole[at + 1 :])
    try:
        found = deserialize_bytes(mutated)
    except ValueError:
        assert count_elements(mutated) == -1
    else:
        assert wire(found) == mutated
        assert count_elements(mutated) == len(found)


def test_zero_bytes_at_the_end_of_equally_long_elements_are_kept() -> None:
    elements = [b"ab\0\0", b"\0\0\0\0"] * 40
    assert deserialize_bytes(memoryview(wire(elements))) == elements


@pytest.mark.parametrize(
    ("data", "start"),
    [
        (b"\1", 0),
        (b"\1\0\0", 0),
        (wire([b"a"]) + b"\1\0", 5),
        (wire([b"a", b"b"])[:-1], 5),
        (wire([b"abc"] * 50)[:-1], 49 * 7),
        (wire([b"x" * 5000, b"b"])[:-1], 5004),
        (b"\xff\xff\xff\xff", 0),
    ],
)
def test_element_that_is_cut_short_is_named_by_where_it_begins(data: bytes, start: int) -> None:
    with pytest.raises(ValueError, match=f"^BYTES element at byte {start} is cut short$"):
        deserialize_bytes(memoryview(data))


class Text(str):
    def __str__(self) -> str:
        return "its text"


def test_what_is_neither_bytes_nor_text_is_written_as_str_says() -> None:
    elements = ["h\u00e9", b"\xff", 1.5, None, Text("x")]
    assert serialize_bytes(elements) == wire([b"h\xc3\xa9", b"\xff", b"1.5", b"None", b"its text"])


@pytest.mark.parametrize(
    ("array", "elements"),
    [
        (np.array(["a", b"bc", 3], np.object_), [b"a", b"bc", b"3"]),
        (np.array([b"a", b"bc"]), [b"a", b"bc"]),
        (np.array(["a", "b\u00e9"]), [b"a", b"b\xc3\xa9"]),
        (np.array([0.1], np.float32), [b"0.1"]),
        (np.array([], np.object_), []),
        (np.array([[1, 2]]), [b"[1 2]"]),
    ],
)
def test_arrays_are_written_element_by_element(array, elements) -> None:
    assert serialize_bytes(array) == wire(elements)
