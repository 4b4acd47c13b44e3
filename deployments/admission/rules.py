# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What the server's options and a model's parameters say of admission."""

from dataclasses import dataclass, replace
from typing import Final

from backends.api.model_config import DynamicBatching, ModelConfig
from backends.config.admission import ModelAdmission, read_admission

_NS_PER_US: Final = 1000
# Each step down in a model's priority leaves this part of the ingress's places to those above.
_PART_PER_STEP: Final = 0.1
_LEAST_PART: Final = 0.5


@dataclass(frozen=True, slots=True)
class AdmissionDefaults:
    """What the server's options say, for models that say nothing else.

    Attributes:
        is_on: Whether models are admitted adaptively.
        target_queue_us: Mean queue time that is kept under overload; 0 is what the model takes for
            a request that does not wait.
        burst_us: Queue time up to which nothing is refused, at least; 20 executions if that is
            more.
        max_requests: Requests under way in one ingress, of all models; 0 for any number.
    """

    is_on: bool = False
    target_queue_us: int = 0
    burst_us: int = 100_000
    max_requests: int = 0


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """The rules of one model version.

    Attributes:
        is_adaptive: Whether its queue time decides; if not, only the ingress's places do.
        target_queue_ns: Mean queue time that is kept; 0 is what a request takes that does not wait.
        burst_ns: Queue time up to which nothing is refused, at least.
        delay_ns: How long the batcher lets requests wait on purpose.
        level_count: Priority levels; 1 is the highest.
        default_level: Of requests that name none.
        priority: Of the model among others; 1 is the highest.
        is_decoupled: Whether the first of many responses tells how long a request waited.
        counts_timeout: Whether the ``timeout`` that a request asks for counts.
    """

    is_adaptive: bool = True
    target_queue_ns: int = 0
    burst_ns: int = 100_000_000
    delay_ns: int = 0
    level_count: int = 1
    default_level: int = 1
    priority: int = 1
    is_decoupled: bool = False
    counts_timeout: bool = False

    @property
    def part_of_places(self) -> float:
        """Return the part of the ingress's places up to which the model's requests get one."""
        return max(_LEAST_PART, 1.0 - _PART_PER_STEP * (self.priority - 1))


def rules_of(config: ModelConfig, defaults: AdmissionDefaults) -> AdmissionRules | None:
    """Return the rules of a model; None where nothing of it is ever refused here.

    Raises:
        InvalidArgumentError: A parameter of the model is wrong.
    """
    given = read_admission(config) or ModelAdmission()
    is_adaptive = defaults.is_on if given.is_on is None else given.is_on
    if not (is_adaptive or defaults.max_requests):
        return None
    target_us = given.target_queue_us
    burst_us = given.burst_us
    rules = AdmissionRules(
        is_adaptive=is_adaptive,
        target_queue_ns=_NS_PER_US * (defaults.target_queue_us if target_us is None else target_us),
        burst_ns=_NS_PER_US * (defaults.burst_us if burst_us is None else burst_us),
        priority=given.priority,
        is_decoupled=config.decoupled,
    )
    return _batched(rules, config.dynamic_batching)


def _batched(rules: AdmissionRules, batching: DynamicBatching | None) -> AdmissionRules:
    if batching is None:
        return rules
    return replace(
        rules,
        delay_ns=_NS_PER_US * batching.max_queue_delay_us,
        level_count=max(1, batching.priority_levels),
        default_level=max(1, batching.default_priority_level),
        counts_timeout=batching.default_queue_policy.allow_timeout_override,
    )
