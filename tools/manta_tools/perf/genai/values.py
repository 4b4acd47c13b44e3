# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""From the text of one option to its value; a refusal is argparse's."""

import json
import math
from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from manta_tools.perf.genai.dataset import PAYLOAD_PREFIX

ENDPOINT_TYPES: Final = ("kserve", "chat", "completions", "generate")


def least(minimum: int) -> Callable[[str], int]:
    """Return a parser of whole numbers from a minimum on."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ArgumentTypeError(f"got '{text}', expected a whole number") from None
        if number < minimum:
            raise ArgumentTypeError(f"got {number}, expected a number from {minimum} on")
        return number

    return parse


def positive(text: str) -> float:
    """Read a finite number above 0."""
    try:
        number = float(text)
    except ValueError:
        raise ArgumentTypeError(f"got '{text}', expected a number") from None
    if not (math.isfinite(number) and number > 0):
        raise ArgumentTypeError(f"got {text}, expected a number above 0")
    return number


def word(*allowed: str) -> Callable[[str], str]:
    """Return a parser of one of some words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ArgumentTypeError(f"got '{text}', expected one of {', '.join(allowed)}")
        return text

    return parse


def endpoint_type(text: str) -> str:
    """Read ``--endpoint-type``."""
    if text not in ENDPOINT_TYPES:
        raise ArgumentTypeError(
            f"got '{text}', and only language models are measured here: "
            f"{', '.join(ENDPOINT_TYPES)}; for others give bodies to manta perf --service-kind "
            "openai"
        )
    return text


def objective(allowed: Sequence[str]) -> Callable[[str], tuple[str, float]]:
    """Return a parser of ``metric:value``."""

    def parse(text: str) -> tuple[str, float]:
        name, colon, limit = text.partition(":")
        try:
            number = float(limit)
        except ValueError:
            number = math.nan
        if not colon or name not in allowed or not number >= 0:
            raise ArgumentTypeError(
                f"got '{text}', expected <metric>:<number from 0 on> with a metric of "
                f"{', '.join(allowed)}"
            )
        return name, number

    return parse


def extra_inputs(text: str) -> tuple[tuple[str, Any], ...]:
    """Read ``--extra-inputs``: ``name:value``, ``name`` for true, or a JSON object."""
    if text.lstrip().startswith("{"):
        try:
            return tuple(json.loads(text).items())
        except ValueError as error:
            raise ArgumentTypeError(f"got '{text}', which is no JSON: {error}") from None
    name, colon, value = text.partition(":")
    if not name or (colon and not value):
        raise ArgumentTypeError(f"got '{text}', expected <name>:<value> or a JSON object")
    return ((name, _value(value) if colon else True),)


def _value(text: str) -> Any:
    """Read a number, true, false or null; everything else is a text."""
    lowered = text.lower()
    try:
        number = json.loads(lowered)
    except ValueError:
        return text
    return number if isinstance(number, bool | int | float) or number is None else text


def input_file(text: str) -> str:
    """Read ``--input-file``."""
    if text.startswith("synthetic:"):
        raise ArgumentTypeError(
            f"got '{text}', and made-up files are for rankings; leave --input-file out for made-up "
            "prompts"
        )
    path = Path(text.removeprefix(PAYLOAD_PREFIX))
    if not path.is_file() and not (path.is_dir() and not text.startswith(PAYLOAD_PREFIX)):
        raise ArgumentTypeError(f"'{text}' is not a valid file or directory")
    return text


def file_name(text: str) -> str:
    """Read ``--profile-export-file``: a name without folders."""
    if Path(text).name != text:
        raise ArgumentTypeError(f"got '{text}', expected a name; give its folder as --artifact-dir")
    return text
