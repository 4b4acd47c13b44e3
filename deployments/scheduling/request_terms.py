# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What schedulers want of a request that is there, and not only its ticket."""

from mypy_extensions import mypyc_attr

from backends.api.request import InferenceRequest


@mypyc_attr(allow_interpreted_subclasses=True)
class RequestTerms:
    """Implements most of `deployments.scheduling.scheduler.SequencedItem` by the request.

    Attributes:
        request: The request.
    """

    __slots__ = ()

    request: InferenceRequest

    @property
    def request_id(self) -> str:
        """The client's id."""
        return self.request.id

    @property
    def timeout_us(self) -> int:
        """Queue timeout the client asked for."""
        return self.request.timeout_us

    @property
    def priority(self) -> int:
        """Level the client asked for."""
        return self.request.priority

    @property
    def tenant(self) -> str:
        """Whom it counts for."""
        return self.request.tenant

    @property
    def weight(self) -> float:
        """Its tenant's share beside others'."""
        return self.request.weight

    @property
    def correlation_id(self) -> int | str:
        """Of its sequence."""
        return self.request.correlation_id

    @correlation_id.setter
    def correlation_id(self, correlation_id: int | str) -> None:
        self._belong_to(correlation_id)

    def _belong_to(self, correlation_id: int | str) -> None:
        self.request.correlation_id = correlation_id

    @property
    def flags(self) -> int:
        """Whether it starts or ends its sequence."""
        return self.request.flags

    @flags.setter
    def flags(self, flags: int) -> None:
        self.request.flags = flags
