# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from backends.llm.openvino.text import GrowingText, grown_texts

TEXTS = st.text(alphabet=st.sampled_from("ab é中🙂\n"), max_size=120)


def decode(rows):
    """A token is a byte."""
    return [bytes(row).decode(errors="replace") for row in rows]


def told(texts, sizes):
    """What is told of texts that gain tokens at each step, as many as ``sizes`` says."""
    growing = [GrowingText() for _ in texts]
    left = [list(text.encode()) for text in texts]
    found = [""] * len(texts)
    step = 0
    while any(left):
        size = sizes[step % len(sizes)]
        step += 1
        rows = [at for at, ids in enumerate(left) if ids]
        for at in rows:
            growing[at].window += left[at][:size]
            left[at] = left[at][size:]
        new = grown_texts([(growing[at], not left[at]) for at in rows], decode)
        for at, text in zip(rows, new, strict=True):
            found[at] += text
            if not left[at]:
                assert found[at] == texts[at]
            assert texts[at].startswith(found[at])
    return found


@given(texts=st.lists(TEXTS, max_size=3), sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_text_told_token_by_token_is_the_text_and_never_a_part_of_a_character(texts, sizes):
    assert told(texts, sizes) == texts


def test_few_tokens_are_decoded_however_long_the_text_is():
    growing = GrowingText()
    longest = 0
    for _ in range(1000):
        growing.window.append(ord("a"))
        longest = max(longest, len(growing.window))
        assert grown_texts([(growing, False)], decode) == ["a"]
    assert longest < 60


def test_a_character_that_stays_cut_is_told_at_the_end():
    growing = GrowingText()
    growing.window += "a🙂".encode()[:3]
    assert grown_texts([(growing, False)], decode) == ["a"]
    assert grown_texts([(growing, True)], decode) == ["\ufffd"]
