# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is captured: the file of ``--capture-config``, read strictly. Pure.

The first rule whose patterns have the model's name decides; a model that no rule has is not
captured.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from backends.api.errors import InvalidArgumentError
from deployments.protocol.forwarded_headers import CREDENTIALS

_MODELS_LIMIT: Final = 4096
_TOP: Final = frozenset({"store", "rotate", "limits", "captures"})
_RULE: Final = frozenset({"models", "fraction", "parts", "outcomes", "redact"})
_REDACTED: Final = frozenset({"inputs", "outputs", "parameters", "ids"})


class Part(StrEnum):
    """A half of an inference."""

    REQUEST = "request"
    RESPONSE = "response"


class Outcomes(StrEnum):
    """Which requests are kept, by how they ended."""

    ALL = "all"
    ANSWERED = "answered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Redaction:
    """What is left out of a record; patterns as of a shell, `fnmatch`'s.

    Attributes:
        inputs: Of names of inputs.
        outputs: Of names of outputs.
        parameters: Of names of parameters, of requests and of responses.
        has_ids: Whether request ids and correlation ids stay.
        credentials: Names in lower case of parameters that are forwarded headers with credentials.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    has_ids: bool = True
    credentials: frozenset[str] = frozenset(name.decode() for name in CREDENTIALS)

    @property
    def hides_values(self) -> bool:
        """Whether any value is left out, so that a message of an error could give it away."""
        return bool(self.inputs or self.outputs or self.parameters) or not self.has_ids


@dataclass(frozen=True, slots=True)
class CaptureRule:
    """What is captured of some models.

    Attributes:
        models: Patterns of names.
        fraction: Of their requests, above 0 and up to 1.
        parts: What is kept of each.
        outcomes: Which of them are kept.
        redaction: What is left out.
    """

    models: tuple[str, ...]
    fraction: float = 1.0
    parts: frozenset[Part] = frozenset(Part)
    outcomes: Outcomes = Outcomes.ALL
    redaction: Redaction = Redaction()


@dataclass(frozen=True, slots=True)
class CaptureLimits:
    """Bounds.

    Attributes:
        queue_records: Records that wait to be written; further ones are dropped.
        queue_bytes: What these may hold.
        tensor_bytes: Larger tensors are named and not kept.
        record_bytes: Of all tensors of one request and its responses.
        rotate_bytes: A file of a store ends at this size,
        rotate_s: or at this age.
    """

    queue_records: int = 1000
    queue_bytes: int = 64 << 20
    tensor_bytes: int = 1 << 16
    record_bytes: int = 1 << 20
    rotate_bytes: int = 8 << 20
    rotate_s: float = 60.0


@dataclass(frozen=True)
class CaptureRules:
    """What the file says.

    Attributes:
        store: A folder, a URL of fsspec, or that of an HTTP receiver of CloudEvents.
        rules: In their order.
        limits: Bounds.
    """

    store: str
    rules: tuple[CaptureRule, ...]
    limits: CaptureLimits = CaptureLimits()
    _found: dict[str, CaptureRule | None] = field(default_factory=dict, compare=False, repr=False)

    def hiding(self, headers: Iterable[str]) -> "CaptureRules":
        """Return the rules with further headers, in lower case, that hold credentials."""
        names = frozenset(headers)
        rules = [
            replace(
                rule,
                redaction=replace(rule.redaction, credentials=rule.redaction.credentials | names),
            )
            for rule in self.rules
        ]
        return CaptureRules(self.store, tuple(rules), self.limits)

    def rule_of(self, model: str) -> CaptureRule | None:
        """Return the rule of a model; None when it is not captured."""
        try:
            return self._found[model]
        except KeyError:
            pass
        found = next((x for x in self.rules if matches(model, x.models)), None)
        if len(self._found) >= _MODELS_LIMIT:
            self._found.clear()
        self._found[model] = found
        return found


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns has a name."""
    return any(fnmatchcase(name, each) for each in patterns)


def read_rules(document: object) -> CaptureRules:
    """Read the file's content, as YAML gives it.

    Raises:
        InvalidArgumentError: The message says where, what was given and what was expected.
    """
    top = _mapping(document, "the document", _TOP)
    rotate = _mapping(top.get("rotate", {}), "rotate", frozenset({"bytes", "seconds"}))
    limits = _mapping(
        top.get("limits", {}),
        "limits",
        frozenset({"queue_records", "queue_bytes", "tensor_bytes", "record_bytes"}),
    )
    default = CaptureLimits()
    rows = top.get("captures")
    if not isinstance(rows, list) or not rows:
        raise _refusal("captures", rows, "a list of rules, each with 'models'")
    return CaptureRules(
        _text(top.get("store"), "store"),
        tuple(_rule(row, f"captures[{at}]") for at, row in enumerate(rows)),
        CaptureLimits(
            **{
                name: _count(limits.get(name, getattr(default, name)), f"limits.{name}")
                for name in ("queue_records", "queue_bytes", "tensor_bytes", "record_bytes")
            },
            rotate_bytes=_count(rotate.get("bytes", default.rotate_bytes), "rotate.bytes"),
            rotate_s=_positive(rotate.get("seconds", default.rotate_s), "rotate.seconds"),
        ),
    )


def _rule(row: object, at: str) -> CaptureRule:
    given = _mapping(row, at, _RULE)
    fraction = _positive(given.get("fraction", 1.0), f"{at}.fraction")
    if fraction > 1:
        raise _refusal(f"{at}.fraction", fraction, "a number above 0 and up to 1")
    parts = _texts(given.get("parts", list(Part)), f"{at}.parts")
    if not parts or not set(parts) <= set(Part):
        raise _refusal(f"{at}.parts", list(parts), f"some of {', '.join(Part)}")
    outcomes = given.get("outcomes", Outcomes.ALL)
    if not isinstance(outcomes, str) or outcomes not in set(Outcomes):
        raise _refusal(f"{at}.outcomes", outcomes, f"one of {', '.join(Outcomes)}")
    hidden = _mapping(given.get("redact", {}), f"{at}.redact", _REDACTED)
    hides_ids = hidden.get("ids", False)
    if not isinstance(hides_ids, bool):
        raise _refusal(f"{at}.redact.ids", hides_ids, "true or false")
    models = _texts(given.get("models"), f"{at}.models")
    if not models:
        raise _refusal(f"{at}.models", given.get("models"), "a list of names or patterns")
    return CaptureRule(
        models,
        fraction,
        frozenset(map(Part, parts)),
        Outcomes(outcomes),
        Redaction(
            _texts(hidden.get("inputs", []), f"{at}.redact.inputs"),
            _texts(hidden.get("outputs", []), f"{at}.redact.outputs"),
            _texts(hidden.get("parameters", []), f"{at}.redact.parameters"),
            has_ids=not hides_ids,
        ),
    )


def _mapping(value: object, at: str, known: frozenset[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _refusal(at, value, f"a mapping with some of {', '.join(sorted(known))}")
    unknown = sorted(str(key) for key in value if key not in known)
    if unknown:
        raise _refusal(at, unknown[0], f"no other keys than {', '.join(sorted(known))}")
    return value


def _texts(value: object, at: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _refusal(at, value, "a list of strings")
    return tuple(value)


def _text(value: object, at: str) -> str:
    if not isinstance(value, str) or not value:
        raise _refusal(at, value, "a folder or a URL")
    return value


def _count(value: object, at: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _refusal(at, value, "a whole number above 0")
    return value


def _positive(value: object, at: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise _refusal(at, value, "a number above 0")
    return float(value)


def _refusal(at: str, given: object, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{at}: got {given!r}, expected {expected}")
