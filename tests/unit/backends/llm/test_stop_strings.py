# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from backends.llm.chat.stop_strings import StopStrings

TEXT = st.text(alphabet="ab<", max_size=12)


def before_first(text: str, stops: list[str]) -> str:
    """The text before the stop string that is complete first; of several there the longest."""
    for end in range(1, len(text) + 1):
        found = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if found:
            return text[: end - max(map(len, found))]
    return text


@given(pieces=st.lists(TEXT, max_size=6), stops=st.lists(TEXT, max_size=3))
def test_however_a_text_is_cut_it_ends_before_the_first_stop_string(pieces, stops):
    reader = StopStrings(stops)
    told = "".join(map(reader.feed, pieces))
    told += "" if reader.is_stopped else reader.end()
    assert told == before_first("".join(pieces), stops)


def test_what_may_become_a_stop_string_is_held_back_and_comes_when_it_does_not():
    reader = StopStrings(["<end>"])
    assert reader.feed("ab<e") == "ab"
    assert reader.feed("x<") == "<ex"
    assert reader.end() == "<"


def test_without_stop_strings_all_comes_at_once():
    reader = StopStrings(["", ""])
    assert reader.feed("abc") == "abc"
    assert not reader.is_stopped
