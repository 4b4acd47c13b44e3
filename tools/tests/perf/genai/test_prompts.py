# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.api.errors import InvalidArgumentError
from manta_tools.perf.genai.prompts import BLOCK_TOKENS, Amount, PromptMaker
from manta_tools.perf.genai.tokenizing import ApproximateTokenizer, read_tokenizer
from tests.support.tokenizer_files import write_tokenizer

TOKENIZER = ApproximateTokenizer()
MAKER = PromptMaker(TOKENIZER, 7)


@given(st.integers(1, 3000))
def test_a_prompt_has_as_many_tokens_as_are_wanted(tokens):
    assert len(TOKENIZER.encode(MAKER.prompt(tokens))) == tokens


def test_a_prompt_may_be_longer_than_the_corpus():
    assert abs(len(TOKENIZER.encode(MAKER.prompt(60_000))) - 60_000) <= 3


def test_a_tokenizers_file_makes_prompts_of_nearly_as_many_tokens(tmp_path):
    tokenizer = read_tokenizer(str(write_tokenizer(tmp_path)))
    maker = PromptMaker(tokenizer, 1)
    for tokens in (10, 100, 550):
        assert abs(len(tokenizer.encode(maker.prompt(tokens))) - tokens) <= 2


def test_the_same_seed_makes_the_same_prompts_and_prefixes():
    def made(seed):
        maker = PromptMaker(TOKENIZER, seed)
        maker.make_prefixes(3, 10)
        return [maker.with_prefix(maker.prompt(20)) for _ in range(20)]

    assert made(1) == made(1) != made(2)


def test_prompts_share_as_many_prefixes_as_are_asked_for():
    maker = PromptMaker(TOKENIZER, 1)
    maker.make_prefixes(3, 10)
    prompts = [maker.with_prefix(maker.prompt(20)) for _ in range(60)]
    starts = {tuple(TOKENIZER.encode(prompt)[:10]) for prompt in prompts}
    assert len(starts) == 3
    # The space between belongs to the word after it.
    assert {len(TOKENIZER.encode(prompt)) for prompt in prompts} <= {30, 31}


def test_without_prefixes_a_prompt_stays_as_it_is():
    assert PromptMaker(TOKENIZER, 1).with_prefix("hello") == "hello"


def test_blocks_of_the_same_id_are_the_same_text():
    maker = PromptMaker(TOKENIZER, 1)
    first = maker.of_blocks(2 * BLOCK_TOKENS + 5, [46, 47, 48])
    second = maker.of_blocks(2 * BLOCK_TOKENS + 7, [46, 47, 99])
    shared = TOKENIZER.encode(first)[: 2 * BLOCK_TOKENS - 4]
    assert TOKENIZER.encode(second)[: len(shared)] == shared
    assert abs(len(TOKENIZER.encode(first)) - 2 * BLOCK_TOKENS - 5) <= 3
    assert first[-20:] != second[-20:]


@pytest.mark.parametrize("tokens", [BLOCK_TOKENS, 2 * BLOCK_TOKENS + 1])
def test_blocks_that_do_not_make_the_length_are_refused(tokens):
    with pytest.raises(InvalidArgumentError, match="2 hash_ids; a hash_id stands for 512 tokens"):
        PromptMaker(TOKENIZER, 1).of_blocks(tokens, [1, 2])


@given(st.integers(1, 500), st.integers(0, 300), st.integers())
def test_an_amount_is_never_below_its_least(mean, stddev, seed):
    assert Amount(mean, stddev).draw(random.Random(seed), 1) >= 1
    assert Amount(mean).draw(random.Random(seed), 1) == mean


def test_amounts_have_their_mean_and_deviation():
    draws = random.Random(1)
    drawn = [Amount(100, 10).draw(draws, 1) for _ in range(4000)]
    mean = sum(drawn) / len(drawn)
    deviation = (sum((each - mean) ** 2 for each in drawn) / len(drawn)) ** 0.5
    assert abs(mean - 100) < 1
    assert abs(deviation - 10) < 1
