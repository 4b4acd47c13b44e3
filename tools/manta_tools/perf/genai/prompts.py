# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Prompts of wanted lengths, and prefixes that several of them share.

Triton: perf_analyzer/genai-perf/genai_perf/inputs/retrievers/synthetic_prompt_generator.py
SyntheticPromptGenerator @263c5f6
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from manta_tools.perf.genai.corpus import corpus
from manta_tools.perf.genai.tokenizing import Tokenizer

_CORPUS_WORDS: Final = 20_000
# Tokens of the part of a prompt that one of `hash_ids` stands for.
BLOCK_TOKENS: Final = 512


@dataclass(frozen=True, slots=True)
class Amount:
    """A normal distribution, of tokens, turns or milliseconds."""

    mean: float
    stddev: float = 0.0

    def draw(self, draws: random.Random, least: int) -> int:
        """Return a whole number, not below the least."""
        return max(round(draws.gauss(self.mean, self.stddev)), least)


class PromptMaker:
    """Makes prompts; the same seed makes the same ones in the same order."""

    def __init__(self, tokenizer: Tokenizer, seed: int) -> None:
        """Make a maker.

        Args:
            tokenizer: Counts the prompts' tokens.
            seed: Of the text and of what is drawn.
        """
        self._tokenizer, self._seed = tokenizer, seed
        self.draws = random.Random(f"prompts {seed}")  # noqa: S311 - the same load, no secret
        self._prefixes: tuple[str, ...] = ()
        self._blocks: dict[int, Sequence[Any]] = {}

    @cached_property
    def _tokens(self) -> Sequence[Any]:
        return self._tokenizer.encode(corpus(_CORPUS_WORDS, self._seed))

    def prompt(self, tokens: int) -> str:
        """Return a prompt of so many tokens; of some tokenizers it may have one more or less."""
        return self._tokenizer.decode(self._slice(tokens)).strip()

    def make_prefixes(self, count: int, tokens: int) -> None:
        """Make the prefixes that `with_prefix` chooses among."""
        self._prefixes = tuple(self.prompt(tokens) for _ in range(count))

    def with_prefix(self, prompt: str) -> str:
        """Return a prompt after one of the prefixes, drawn; as it is where there are none."""
        if not self._prefixes:
            return prompt
        return f"{self.draws.choice(self._prefixes)} {prompt}"

    def of_blocks(self, tokens: int, hash_ids: Sequence[int]) -> str:
        """Return a prompt of blocks, each the same wherever its id comes.

        Args:
            tokens: Of the prompt.
            hash_ids: Of its blocks of 512 tokens; the last one may be shorter.

        Raises:
            InvalidArgumentError: So many blocks do not make so many tokens.
        """
        last = tokens - (len(hash_ids) - 1) * BLOCK_TOKENS
        if not 0 < last <= BLOCK_TOKENS:
            raise InvalidArgumentError(
                f"an entry has the input_length {tokens} and {len(hash_ids)} hash_ids; a hash_id "
                f"stands for {BLOCK_TOKENS} tokens, the last one for 1 to {BLOCK_TOKENS}"
            )
        found: list[Any] = []
        for each in hash_ids:
            if each not in self._blocks:
                self._blocks[each] = self._slice(BLOCK_TOKENS)
            found += self._blocks[each]
        return self._tokenizer.decode(found[:tokens]).strip()

    def _slice(self, tokens: int) -> list[Any]:
        known = self._tokens
        start = self.draws.randrange(len(known))
        return [known[(start + index) % len(known)] for index in range(tokens)]
