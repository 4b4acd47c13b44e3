# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What clients ask, and how they know the answer. A question's number is in all of its values."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tests.chaos.models import CALLER, CHAIN, REPEAT, SIMPLE, SUMS
from tests.chaos.records import BLS, ENSEMBLE, OK, SEQUENCE, SHARED, STREAM, UNARY

_WIDTH: Final = 16
# Over the threshold from which on tensors travel in slabs.
_LARGE_WIDTH: Final = 40_000
_LARGE_EACH: Final = 8
_LENGTHS: Final = (6, 9, 14)
_NUMBERS_PER_CLIENT: Final = 1 << 20
_MOST_RESPONSES: Final = 5

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Question:
    """A request and its answer.

    Attributes:
        model: The model that is asked.
        number: Which question it is; no two have the same.
        inputs: Name -> INT32 or INT64 array.
        expected: The responses in their order, each as name -> array.
        parameters: Parameters of the request.
        sequence: Correlation id; 0 for none.
    """

    model: str
    number: int
    inputs: Arrays
    expected: tuple[Arrays, ...]
    parameters: Mapping[str, int | bool] = field(default_factory=dict)
    sequence: int = 0


class Adding:
    """Questions for the sum of two numbers.

    Args:
        model: Who is asked.
        client: The client's place among all.
        times: How often the right number goes into the sum.
        has_large: Whether each eighth question is a large one.
    """

    is_midway = False

    def __init__(self, model: str, client: int, *, times: int = 1, has_large: bool = False) -> None:
        self._model = model
        self._times = times
        self._has_large = has_large
        self._numbers = _numbers(client)

    def next(self) -> Question:
        """Return the next question."""
        number = next(self._numbers)
        is_large = self._has_large and number % _LARGE_EACH == 0
        left = np.full((1, _LARGE_WIDTH if is_large else _WIDTH), number, np.int32)
        left[0, 0] = -number
        right = np.full_like(left, number % 1000)
        total = left + self._times * right
        return Question(self._model, number, {"LEFT": left, "RIGHT": right}, ({"SUM": total},))

    def settle(self, kind: str) -> None:
        """Take what became of the last question."""


class Repeating:
    """Questions with several responses each."""

    is_midway = False

    def __init__(self, client: int) -> None:
        self._numbers = _numbers(client)

    def next(self) -> Question:
        """Return the next question."""
        number = next(self._numbers)
        count = number % (_MOST_RESPONSES + 1)
        inputs = {"VALUE": np.array([number], np.int32), "COUNT": np.array([count], np.int32)}
        rows = tuple({"ROW": np.array([number, place], np.int32)} for place in range(count))
        return Question(REPEAT, number, inputs, rows)

    def settle(self, kind: str) -> None:
        """Take what became of the last question."""


class Summing:
    """Questions of sequences: the sum of all values of a sequence so far.

    A sequence of which a question failed is given up; the next question begins another one.
    """

    def __init__(self, client: int) -> None:
        self._numbers = _numbers(client)
        self._sequence = 0
        self._place = 0
        self._sum = 0

    @property
    def is_midway(self) -> bool:
        """Whether a sequence has begun and not ended."""
        return self._place > 0

    def next(self) -> Question:
        """Return the next question."""
        number = next(self._numbers)
        if self._place == 0:
            # The number of its first question: nobody else's sequence has it.
            self._sequence, self._sum = number, 0
        self._sum += number
        is_last = self._place + 1 == _LENGTHS[self._sequence % len(_LENGTHS)]
        question = Question(
            SUMS,
            number,
            {"VALUE": np.array([[number]], np.int64)},
            ({"ROW": np.array([[self._sum, self._sequence]], np.int64)},),
            {
                "sequence_id": self._sequence,
                "sequence_start": self._place == 0,
                "sequence_end": is_last,
            },
            self._sequence,
        )
        self._place = 0 if is_last else self._place + 1
        return question

    def settle(self, kind: str) -> None:
        """Take what became of the last question."""
        if kind != OK:
            self._place = 0


Questions = Adding | Repeating | Summing


def _numbers(client: int) -> Iterator[int]:
    return itertools.count(client * _NUMBERS_PER_CLIENT + 1)


_QUESTIONS: Final[Mapping[str, Callable[[int, bool], Questions]]] = {
    UNARY: lambda client, has_large: Adding(SIMPLE, client, has_large=has_large),
    ENSEMBLE: lambda client, _: Adding(CHAIN, client, times=2),
    BLS: lambda client, _: Adding(CALLER, client),
    SHARED: lambda client, _: Adding(SIMPLE, client),
    STREAM: lambda client, _: Repeating(client),
    SEQUENCE: lambda client, _: Summing(client),
}


def questions_of(traffic: str, client: int, *, has_large: bool) -> Questions:
    """Return the questions of a client.

    Args:
        traffic: What it asks for.
        client: Its place among all, below 1,000.
        has_large: Whether some may have tensors that travel in slabs.
    """
    return _QUESTIONS[traffic](client, has_large)


# Model -> what clients ask of it, themselves or through another model. Only what is tied to an
# instance sees the end of one.
TRAFFICS: Final[Mapping[str, frozenset[str]]] = {
    SIMPLE: frozenset({UNARY, ENSEMBLE, BLS, SHARED}),
    CALLER: frozenset({BLS}),
    REPEAT: frozenset({STREAM}),
    SUMS: frozenset({SEQUENCE}),
}
