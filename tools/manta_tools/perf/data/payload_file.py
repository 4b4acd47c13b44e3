# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Bodies for an endpoint that takes JSON: ``{"data": [{"payload": [{...}]}, ...]}``.

An entry may also say when it is due: ``"timestamp": [250]``, in milliseconds.

Triton: perf_analyzer/src/data_loader.cc, model_parser.cc InitOpenAI @263c5f6
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from manta_tools.perf.data.document import read_document
from manta_tools.perf.data.model import Model, Tensor
from manta_tools.perf.data.rows import Content, DataSet, Row

PAYLOAD: Final = "payload"
_TENSOR: Final = Tensor(PAYLOAD, "JSON", (1,))


def read_payloads(paths: Sequence[Path]) -> DataSet:
    """Read the bodies of files: one stream of a step for each.

    Raises:
        InvalidArgumentError: A file cannot be read, or is not such JSON.
    """
    entries = [
        (entry, path, index)
        for path in paths
        for index, entry in enumerate(read_document(path)["data"])
    ]
    rows = [_row(*each) for each in entries]
    if not rows:
        raise InvalidArgumentError(f"{paths[0]}: the data has no payloads; give at least one")
    due_ms = [_due_ms(*each) for each in entries]
    known = tuple(each for each in due_ms if each is not None)
    return DataSet((tuple(rows),), is_read=True, due_ms=known if len(known) == len(rows) else ())


def endpoint_model(name: str, data: DataSet) -> Model:
    """Return the model behind an endpoint, which says nothing of itself.

    It counts as decoupled when a payload asks for a stream.
    """
    bodies = [json.loads(row.inputs[PAYLOAD].raw) for stream in data.streams for row in stream]
    streams = any(isinstance(body, dict) and body.get("stream") is True for body in bodies)
    return Model(name, "", (_TENSOR,), (), is_decoupled=streams)


def _due_ms(entry: Any, path: Path, index: int) -> int | None:
    given = entry.get("timestamp")
    if given is None:
        return None
    if not (
        isinstance(given, list) and len(given) == 1 and type(given[0]) is int and given[0] >= 0
    ):
        raise InvalidArgumentError(
            f"{path}: entry {index} of the data has the timestamp {given}, expected one whole "
            "number of milliseconds, like [250]"
        )
    found: int = given[0]
    return found


def _row(entry: Any, path: Path, index: int) -> Row:
    bodies = entry.get(PAYLOAD) if isinstance(entry, dict) else None
    if not isinstance(bodies, list) or len(bodies) != 1:
        raise InvalidArgumentError(
            f"{path}: entry {index} of the data has no 'payload' with one body; expected "
            '{"payload": [{...}]}'
        )
    raw = json.dumps(bodies[0], separators=(",", ":")).encode()
    return Row({PAYLOAD: Content("JSON", (1,), raw)})
