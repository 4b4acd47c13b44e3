# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is captured: the file of ``--capture-config``, read strictly. Pure.

The first rule whose patterns have the model's name decides; a model that no rule has is not
captured.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, ClassVar, Final

from msgspec import Meta, structs

from deployments.protocol.forwarded_headers import CREDENTIALS
from deployments.settings import documents
from deployments.settings.documents import Section, several

_MODELS_LIMIT: Final = 4096


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


_DEFAULT: Final = CaptureLimits()
_Count = Annotated[int, Meta(ge=1)]
_Texts = str | tuple[str, ...]
_Part = Annotated[Part, Meta(title="part")]


class _Rotate(Section, frozen=True):
    bytes: _Count = _DEFAULT.rotate_bytes
    seconds: Annotated[float, Meta(gt=0)] = _DEFAULT.rotate_s


class _Limits(Section, frozen=True):
    queue_records: _Count = _DEFAULT.queue_records
    queue_bytes: _Count = _DEFAULT.queue_bytes
    tensor_bytes: _Count = _DEFAULT.tensor_bytes
    record_bytes: _Count = _DEFAULT.record_bytes


class _Redact(Section, frozen=True):
    any_texts: ClassVar[frozenset[str]] = frozenset(("inputs", "outputs", "parameters"))

    inputs: _Texts = ()
    outputs: _Texts = ()
    parameters: _Texts = ()
    ids: bool = False


class _Rule(Section, frozen=True):
    any_texts: ClassVar[frozenset[str]] = frozenset(("models",))

    models: str | Annotated[tuple[str, ...], Meta(min_length=1)]
    fraction: Annotated[float, Meta(gt=0, le=1)] = 1.0
    parts: _Part | Annotated[tuple[_Part, ...], Meta(min_length=1)] = tuple(Part)
    outcomes: Annotated[Outcomes, Meta(title="outcome")] = Outcomes.ALL
    redact: _Redact = _Redact()

    def rule(self) -> CaptureRule:
        hidden = self.redact
        return CaptureRule(
            several(self.models),
            self.fraction,
            frozenset(map(Part, several(self.parts))),
            self.outcomes,
            Redaction(
                several(hidden.inputs),
                several(hidden.outputs),
                several(hidden.parameters),
                has_ids=not hidden.ids,
            ),
        )


class _Document(Section, frozen=True):
    any_texts: ClassVar[frozenset[str]] = frozenset(("store",))

    store: Annotated[str, Meta(min_length=1, description="a folder or a URL")]
    captures: Annotated[tuple[_Rule, ...], Meta(min_length=1)]
    rotate: _Rotate = _Rotate()
    limits: _Limits = _Limits()


def read_rules(document: object, name: str = "the document") -> CaptureRules:
    """Read the file's content, as YAML gives it.

    Args:
        document: The content.
        name: What errors call it.

    Raises:
        InvalidArgumentError: The message says where, what was given and what was expected.
    """
    given = documents.Part(document, "", name).read(_Document)
    limits = CaptureLimits(
        **structs.asdict(given.limits),
        rotate_bytes=given.rotate.bytes,
        rotate_s=given.rotate.seconds,
    )
    return CaptureRules(given.store, tuple(each.rule() for each in given.captures), limits)
