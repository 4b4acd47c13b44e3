# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The rollout of a model: what a user asks for, what routers need of it, what is told about it.

Pure data. `Rollout` is the body of the API (`deployments.rollouts.reading` reads it strictly,
`deployments.rollouts.rendering` writes it). `Traffic` is the small part that travels in the routing
table; `deployments.rollouts.choice` chooses by it. `Status` is what the controller tells.

Weights are basis points, 10,000 for all requests. The first arm is the stable one: what has no
other place goes there.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from backends.api.evolving import evolves

TOTAL_WEIGHT: Final = 10_000
STABLE: Final = "stable"

MOST_ARMS: Final = 8
MOST_RULES: Final = 32
MOST_CONDITIONS: Final = 8
MOST_VALUES: Final = 32
MOST_STEPS: Final = 32
MOST_METRICS: Final = 8
MOST_NAME_CHARS: Final = 128
MOST_VALUE_CHARS: Final = 256
MOST_DURATION_S: Final = 30 * 86_400.0
# Decisions that a status tells; older ones are in the log only.
MOST_DECISIONS: Final = 64


class Kind(StrEnum):
    """How a new version reaches users."""

    CANARY = "canary"
    SHADOW = "shadow"
    AB = "ab"
    BLUE_GREEN = "blue_green"
    RAMP = "ramp"


class Phase(StrEnum):
    """Where in its life a rollout is; the table of changes is in `cluster.rollout.state`."""

    CREATED = "created"
    PROGRESSING = "progressing"
    PAUSED = "paused"
    PROMOTING = "promoting"
    ROLLING_BACK = "rolling_back"
    PROMOTED = "promoted"
    ROLLED_BACK = "rolled_back"
    ENDED = "ended"
    SUPERSEDED = "superseded"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing happens to the rollout any more."""
        return self in TERMINAL


TERMINAL: Final = frozenset((Phase.PROMOTED, Phase.ROLLED_BACK, Phase.ENDED, Phase.SUPERSEDED))


class Source(StrEnum):
    """Where in a request a value is found."""

    # An HTTP header or a key of gRPC metadata; names are compared in lower case.
    HEADER = "header"
    # A custom parameter of the request.
    PARAMETER = "parameter"
    TENANT = "tenant"
    # The correlation id. Sequences stick to their arm in any case.
    SEQUENCE = "sequence"


class How(StrEnum):
    """How a condition compares."""

    EXACT = "exact"
    PREFIX = "prefix"
    # ``*`` is any text, ``?`` any one character; there are no regular expressions.
    GLOB = "glob"
    PRESENT = "present"


@dataclass(frozen=True, slots=True)
class Arm:
    """A version that answers a share of the requests.

    Attributes:
        name: Unique in the rollout, a label of metrics.
        version: Of the model.
        weight: Basis points; those of all arms are 10,000 together.
    """

    name: str
    version: int
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that must hold of a request.

    Attributes:
        source: Where the value is looked for.
        name: Of the header, in lower case, or of the parameter; empty for tenant and sequence.
        how: How the value is compared.
        values: One of which must agree; none for `How.PRESENT`.
    """

    source: Source
    name: str = ""
    how: How = How.EXACT
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """Requests for which all conditions hold go to an arm, whatever the weights."""

    arm: str
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Sticky:
    """Requests with the same key go to the same arm while weights do not change.

    Attributes:
        source: Where the key is found; a request without one goes by weight.
        name: Of the header, in lower case, or of the parameter.
    """

    source: Source
    name: str = ""


@dataclass(frozen=True, slots=True)
class Shadow:
    """A version that gets copies of requests; nobody is sent its answers.

    Attributes:
        version: Which.
        weight: Basis points of the requests that are copied.
        rtol: Of floating outputs: ``|shadow - answer| <= atol + rtol * |answer|``.
        atol: See ``rtol``. Other datatypes have to be equal.
        mismatches_per_minute: Descriptions of mismatches that each ingress writes to the file; all
            are counted.
        max_pending: Copies that wait or are under way in one ingress; more are not sent, and
            counted as skipped.
    """

    version: int
    weight: int = TOTAL_WEIGHT
    rtol: float = 1e-3
    atol: float = 1e-5
    mismatches_per_minute: int = 60
    max_pending: int = 256


@dataclass(frozen=True, slots=True)
class Traffic:
    """What routers need of a rollout.

    Attributes:
        revision: Grows with each change of the rollout's weights.
        salt: Of the hash of sticky keys; two rollouts share users differently.
        arms: The stable one first; with weights in force.
        rules: Asked in order, before weights.
        sticky: The key, if any.
        shadow: Who gets copies, if anybody.
    """

    revision: int
    salt: str
    arms: tuple[Arm, ...]
    rules: tuple[Rule, ...] = ()
    sticky: Sticky | None = None
    shadow: Shadow | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a canary.

    Attributes:
        weight: Of the candidate, basis points.
        hold_s: The step lasts so long at least.
        min_samples: Requests that the candidate has to answer in the step before anything is
            decided about it.
    """

    weight: int
    hold_s: float = 300.0
    min_samples: int = 500


@dataclass(frozen=True, slots=True)
class RampPoint:
    """What a ramp has reached at an instant; between two points the weight is interpolated.

    Attributes:
        at_s: Seconds since the rollout began.
        weight: Of the candidate, basis points.
    """

    at_s: float
    weight: int


class MetricKind(StrEnum):
    """What an analysis can compare."""

    ERRORS = "errors"
    P50 = "p50"
    P95 = "p95"
    P99 = "p99"
    # The 95th percentile of the time in the queue.
    QUEUE = "queue"
    # A counter of the model's own, by request.
    CUSTOM = "custom"


class AtTimeout(StrEnum):
    """What becomes of a rollout whose analysis has not come to a result in time."""

    PROMOTE = "promote"
    ROLL_BACK = "roll_back"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class Metric:
    """One comparison of the candidate with the stable arm.

    Attributes:
        kind: What is compared.
        tolerance: How much worse is still harmless: of errors and of a custom counter the
            difference of their shares (0.01 is one request in a hundred), of latencies and of the
            queue the part by which the time may be longer (0.1 is 10 %).
        floor_us: A latency that is longer by less than this is harmless.
        family: Of a custom counter, its name on the metrics page.
        is_good: Whether what a custom counter counts is good, so that fewer is worse.
    """

    kind: MetricKind
    tolerance: float
    floor_us: int = 0
    family: str = ""
    is_good: bool = False

    @property
    def label(self) -> str:
        """How the metric is called in decisions."""
        return self.family if self.kind is MetricKind.CUSTOM else self.kind.value


DEFAULT_METRICS: Final = (
    Metric(MetricKind.ERRORS, 0.01),
    Metric(MetricKind.P50, 0.1),
    Metric(MetricKind.P95, 0.1),
    Metric(MetricKind.P99, 0.25),
)


@dataclass(frozen=True, slots=True)
class Analysis:
    """How a candidate is judged.

    Attributes:
        metrics: What is compared.
        period_s: How often counters are read.
        error_rate: How often a good candidate may be rolled back, and how often a bad one promoted.
        timeout_s: After so many seconds without a result `at_timeout` is done.
        at_timeout: What that is.
    """

    metrics: tuple[Metric, ...] = DEFAULT_METRICS
    period_s: float = 10.0
    error_rate: float = 0.005
    timeout_s: float = 3600.0
    at_timeout: AtTimeout = AtTimeout.ROLL_BACK


@dataclass(frozen=True, slots=True)
class Rollout:
    """What a user asks for.

    Attributes:
        kind: How the new version reaches users.
        arms: The stable one first; of all kinds but `Kind.AB` the second is the candidate, whose
            weight follows from the kind. A shadow has the stable arm only.
        rules: Who goes to an arm whatever the weights.
        sticky: The key of users, if any.
        salt: Of the hash; the controller takes the rollout's id where it is empty.
        steps: Of a canary.
        points: Of a ramp.
        analysis: How the candidate is judged; None trusts it.
        shadow: Of a shadow.
        warm_s: Of blue/green: how long the candidate has to be ready before the switch.
        keep_s: Of blue/green: how long the way back stays open after the switch.
    """

    kind: Kind
    arms: tuple[Arm, ...]
    rules: tuple[Rule, ...] = ()
    sticky: Sticky | None = None
    salt: str = ""
    steps: tuple[Step, ...] = ()
    points: tuple[RampPoint, ...] = ()
    analysis: Analysis | None = None
    shadow: Shadow | None = None
    warm_s: float = 10.0
    keep_s: float = 600.0

    @property
    def versions(self) -> tuple[int, ...]:
        """All versions that take part; the stable one first."""
        extra = () if self.shadow is None else (self.shadow.version,)
        return (*(arm.version for arm in self.arms), *extra)


@dataclass(frozen=True, slots=True)
class Decision:
    """What was done, when and why.

    Attributes:
        at_s: Seconds since the epoch.
        action: In one word: ``start``, ``step``, ``promote``, ``roll_back``, ``pause`` ...
        reason: A sentence with the numbers.
        weights: By arm, basis points, from then on.
    """

    at_s: float
    action: str
    reason: str
    weights: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status:
    """Where a rollout is.

    Attributes:
        phase: Of its life.
        step: Of a canary, from 0; -1 before the first.
        arms: With the weights in force.
        reason: Of the last decision.
        started_s: When it was created, seconds since the epoch.
        changed_s: When the phase or the step changed last.
        evidence: By metric, a sentence about what is known so far.
        history: The last decisions, the newest last.
    """

    phase: Phase
    step: int
    arms: tuple[Arm, ...]
    reason: str = ""
    started_s: float = 0.0
    changed_s: float = 0.0
    evidence: dict[str, str] = field(default_factory=dict)
    history: tuple[Decision, ...] = ()


evolves(Arm, Condition, Rule, Sticky, Shadow, Traffic, Step, RampPoint, Metric, Analysis, Rollout)
evolves(Decision, Status)
