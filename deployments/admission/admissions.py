# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The gates of all model versions that one process serves. Pure."""

from collections.abc import Callable, Collection

from backends.api.model_config import ModelConfig
from deployments.admission.gate import AdmissionGate
from deployments.admission.places import Places
from deployments.admission.rules import AdmissionDefaults, rules_of

_Key = tuple[str, int]


class Admissions:
    """Makes and keeps gates.

    Args:
        clock_ns: Nanoseconds of a clock that only goes forward.
        defaults: The server's options.

    Attributes:
        clock_ns: The same.
        places: The ingress's places; None where any number of requests may be under way.
    """

    __slots__ = ("_defaults", "_gates", "clock_ns", "places")

    def __init__(
        self, clock_ns: Callable[[], int], defaults: AdmissionDefaults | None = None
    ) -> None:
        self.clock_ns = clock_ns
        self._defaults = defaults
        count = 0 if defaults is None else defaults.max_requests
        self.places = Places(count) if count else None
        self._gates: dict[_Key, AdmissionGate] = {}

    def gate_of(self, key: _Key, config: ModelConfig) -> AdmissionGate | None:
        """Return the gate of a version, which is the one of before where its rules are the same.

        Without the server's options there is none: requests of models to models have passed the
        gate of the model that the client asked.

        Args:
            key: The model's key and the version.
            config: The version's config.
        """
        rules = None if self._defaults is None else rules_of(config, self._defaults)
        gate = self._gates.pop(key, None)
        if rules is None:
            return None
        if gate is None or gate.rules != rules:
            gate = AdmissionGate(config.name, rules, self.clock_ns(), self.places)
        self._gates[key] = gate
        return gate

    def keep(self, keys: Collection[_Key]) -> None:
        """Forget the gates of other versions than these."""
        for key in [each for each in self._gates if each not in keys]:
            del self._gates[key]

    def gates(self) -> dict[_Key, AdmissionGate]:
        """Return the gates there are."""
        return dict(self._gates)
