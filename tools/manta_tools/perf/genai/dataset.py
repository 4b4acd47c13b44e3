# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What a run asks: prompts made up or read, alone or as turns of sessions.

Triton: perf_analyzer/genai-perf/genai_perf/inputs/retrievers/synthetic_data_retriever.py,
file_input_retriever.py, payload_input_retriever.py @263c5f6
"""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from manta_tools.perf.genai.prompts import Amount, PromptMaker

PAYLOAD_PREFIX: Final = "payload:"
# What of a line is not sent as it is.
_OWN_KEYS: Final = frozenset(
    {
        "text",
        "text_input",
        "hash_ids",
        "input_length",
        "output_length",
        "timestamp",
        "delay",
        "session_id",
    }
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One request.

    Attributes:
        text: The prompt.
        max_tokens: Most tokens of the answer; None for the server's own limit.
        session_id: Whose turn it is; empty when of no session.
        delay_ms: From its answer to the session's next turn.
        due_ms: When it is to be sent, since the start; None where nothing says so.
        more: Further fields of its body.
    """

    text: str
    max_tokens: int | None = None
    session_id: str = ""
    delay_ms: int = 0
    due_ms: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is asked for.

    Attributes:
        entries: How many prompts are made up.
        input_tokens: Of a prompt, without its prefix.
        output_tokens: Most tokens of an answer; None for the server's own limit.
        prefixes: How many prefixes there are.
        prefix_tokens: Of a prefix.
        sessions: How many sessions are made up; 0 for single requests.
        turns: Of a session.
        delay_ms: Between two turns.
        delay_ratio: By what delays of a file are multiplied.
    """

    entries: int = 100
    input_tokens: Amount = Amount(550)
    output_tokens: Amount | None = None
    prefixes: int = 0
    prefix_tokens: int = 100
    sessions: int = 0
    turns: Amount = Amount(1)
    delay_ms: Amount = Amount(0)
    delay_ratio: float = 1.0


def make_turns(recipe: Recipe, maker: PromptMaker, input_file: str = "") -> tuple[Turn, ...]:
    """Return all requests of a run; turns of one session are in their order.

    Args:
        recipe: What is asked for.
        maker: Makes prompts.
        input_file: A file or directory of prompts, or ``payload:FILE``; empty for made-up ones.

    Raises:
        InvalidArgumentError: A file cannot be read, or a line of it is none of such an object.
    """
    if input_file.startswith(PAYLOAD_PREFIX):
        path = Path(input_file.removeprefix(PAYLOAD_PREFIX))
        turns = [_of_payload(line, where, recipe, maker) for line, where in _lines([path])]
    else:
        maker.make_prefixes(recipe.prefixes, recipe.prefix_tokens)
        if input_file:
            turns = list(_of_texts(input_file, maker))
        elif recipe.sessions:
            turns = [turn for _ in range(recipe.sessions) for turn in _session(recipe, maker)]
        else:
            turns = [Turn(maker.with_prefix(_prompt(recipe, maker))) for _ in range(recipe.entries)]
    if not turns:
        raise InvalidArgumentError(f"--input-file {input_file} has no prompts; give at least one")
    return tuple(_with_limit(turn, recipe, maker) for turn in turns)


def sessions_of(turns: Sequence[Turn]) -> tuple[tuple[int, ...], ...]:
    """Return the indices of each session's turns, in the order in which sessions begin.

    Raises:
        InvalidArgumentError: A turn is of no session.
    """
    found: dict[str, list[int]] = {}
    for index, turn in enumerate(turns):
        if not turn.session_id:
            raise InvalidArgumentError(
                f"--session-concurrency takes turns of sessions, and entry {index} has no "
                "session_id; give --num-sessions, or --input-file payload:FILE with session_id"
            )
        found.setdefault(turn.session_id, []).append(index)
    return tuple(map(tuple, found.values()))


def _prompt(recipe: Recipe, maker: PromptMaker) -> str:
    return maker.prompt(recipe.input_tokens.draw(maker.draws, 1))


def _session(recipe: Recipe, maker: PromptMaker) -> Iterator[Turn]:
    count = recipe.turns.draw(maker.draws, 1)
    session_id = str(uuid.UUID(int=maker.draws.getrandbits(128), version=4))
    for index in range(count):
        text = _prompt(recipe, maker)
        is_last = index == count - 1
        yield Turn(
            text if index else maker.with_prefix(text),
            session_id=session_id,
            delay_ms=0 if is_last else recipe.delay_ms.draw(maker.draws, 0),
        )


def _with_limit(turn: Turn, recipe: Recipe, maker: PromptMaker) -> Turn:
    if turn.max_tokens is not None or recipe.output_tokens is None:
        return turn
    return replace(turn, max_tokens=recipe.output_tokens.draw(maker.draws, 1))


def _of_texts(input_file: str, maker: PromptMaker) -> Iterator[Turn]:
    path = Path(input_file)
    paths = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not paths:
        raise InvalidArgumentError(f"--input-file {path}: the directory has no *.jsonl")
    for line, where in _lines(paths):
        text = _text(line, where)
        if text is None:
            raise InvalidArgumentError(f'{where} has no prompt; expected {{"text": "..."}}')
        yield Turn(maker.with_prefix(text))


def _of_payload(line: Mapping[str, Any], where: str, recipe: Recipe, maker: PromptMaker) -> Turn:
    text = _text(line, where)
    length = _whole(line, "input_length", where)
    if text is None and line.get("hash_ids"):
        if length is None:
            raise InvalidArgumentError(f"{where} has hash_ids, which need an input_length")
        text = maker.of_blocks(length, line["hash_ids"])
    elif text is None:
        text = _prompt(recipe, maker) if length is None else maker.prompt(length)
    delay_ms = _whole(line, "delay", where) or 0
    return Turn(
        text,
        _whole(line, "output_length", where),
        str(line.get("session_id", "")),
        int(delay_ms * recipe.delay_ratio),
        _whole(line, "timestamp", where),
        {name: value for name, value in line.items() if name not in _OWN_KEYS},
    )


def _text(line: Mapping[str, Any], where: str) -> str | None:
    given = [line[name] for name in ("text", "text_input") if line.get(name)]
    if len(given) > 1:
        raise InvalidArgumentError(f"{where} has both 'text' and 'text_input'; give one")
    if given and not isinstance(given[0], str):
        raise InvalidArgumentError(f"{where} has the prompt {given[0]!r}, expected a string")
    return given[0].strip() if given else None


def _whole(line: Mapping[str, Any], name: str, where: str) -> int | None:
    given = line.get(name)
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or given < 0:
        raise InvalidArgumentError(f"{where} has the {name} {given!r}, expected a number from 0 on")
    return int(given)


def _lines(paths: Sequence[Path]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the objects of files, a line each, and where they stand."""
    for path in paths:
        try:
            texts = path.read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidArgumentError(f"--input-file {path} cannot be read: {error}") from None
        for number, text in enumerate(texts, start=1):
            if not text.strip():
                continue
            where = f"{path}: line {number}"
            try:
                line = json.loads(text)
            except ValueError as error:
                raise InvalidArgumentError(f"{where} is no JSON: {error}") from None
            if not isinstance(line, dict):
                raise InvalidArgumentError(f"{where} is no object; expected {{...}}")
            yield line, where
