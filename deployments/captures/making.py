# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the captures of a process from the file that ``--capture-config`` names."""

import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from backends.api.errors import InvalidArgumentError
from deployments.captures.capturing import Captures
from deployments.captures.rules import CaptureRules, read_rules
from deployments.captures.sampling import EvenSampler
from deployments.captures.stores import open_store
from deployments.captures.writing import CaptureWriter

_PHASES = 1 << 16


@dataclass(frozen=True, slots=True)
class RunningCaptures:
    """The captures of a process.

    Attributes:
        captures: What requests are shown to.
        writer: What writes them; to be closed at the end.
    """

    captures: Captures
    writer: CaptureWriter


def read_config(path: str) -> CaptureRules:
    """Read the file.

    Raises:
        InvalidArgumentError: It cannot be read or says something else; the message names file,
            place, what was given and what was expected.
    """
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidArgumentError(f"--capture-config: file '{path}': {error}") from None
    return read_rules(document, f"--capture-config: file '{path}'")


def make_captures(path: str, credential_headers: Iterable[str] = ()) -> RunningCaptures:
    """Return the captures that a file asks for.

    Args:
        path: Of the file.
        credential_headers: Names in lower case of headers that hold credentials, besides those that
            always do; their values are not kept where they are forwarded as parameters.

    Raises:
        InvalidArgumentError: As `read_config`.
    """
    rules = read_config(path).hiding(credential_headers)
    process = uuid.uuid4().hex[:12]
    writer = CaptureWriter(lambda: open_store(rules.store, rules.limits, process), rules.limits)
    phase = (int(process, 16) % _PHASES) / _PHASES
    return RunningCaptures(
        Captures(
            rules,
            writer,
            time.time,
            time.monotonic_ns,
            lambda: str(uuid.uuid4()),
            EvenSampler(phase),
        ),
        writer,
    )
