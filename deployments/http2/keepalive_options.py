# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The ``--grpc-keepalive-*`` flags and their kin as values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

NS_PER_S: Final = 1_000_000_000
_NS_PER_MS: Final = 1_000_000
# What gRPC takes for no limit.
_INFINITE_MS: Final = (1 << 31) - 1
_FINEST_NS: Final = 20 * _NS_PER_MS


@dataclass(frozen=True, slots=True)
class KeepaliveOptions:
    """When peers are pinged, may ping and have to go.

    Attributes:
        time_ns: Silence of the peer after which it is pinged; None for never.
        timeout_ns: Silence after that PING which ends the connection.
        permit_without_calls: Whether connections without calls are pinged, and may ping.
        max_pings_without_data: PINGs we send between two DATA frames or requests; 0 for any number.
        min_recv_ping_interval_ns: How far PINGs of the peer must be apart while we send no data.
        max_ping_strikes: PINGs that come sooner, before the connection ends; 0 for any number.
        max_age_ns: Age at which the peer is asked to go, give or take a tenth; None for never.
        max_age_grace_ns: What its calls get to end; None for any time.
    """

    time_ns: int | None = 7200 * NS_PER_S
    timeout_ns: int = 20 * NS_PER_S
    permit_without_calls: bool = False
    max_pings_without_data: int = 2
    min_recv_ping_interval_ns: int = 300 * NS_PER_S
    max_ping_strikes: int = 2
    max_age_ns: int | None = None
    max_age_grace_ns: int | None = None

    @property
    def resolution_ns(self) -> int:
        """How often a connection has to look at the clock: a second, or a quarter of a time."""
        times = (self.time_ns, self.timeout_ns, self.max_age_ns, self.max_age_grace_ns)
        return min(NS_PER_S, *(max(time // 4, _FINEST_NS) for time in times if time))


def _limited_ns(ms: int) -> int | None:
    return None if ms >= _INFINITE_MS else max(1, ms) * _NS_PER_MS


def _optional_ns(ms: int) -> int | None:
    return _limited_ns(ms) if ms > 0 else None


def _non_negative(number: int) -> int:
    return max(0, number)


# Flag without --grpc-, field, and how the field's value is made of the flag's.
_FLAGS: Final[tuple[tuple[str, str, Callable[[int], int | None]], ...]] = (
    ("keepalive-time", "time_ns", _limited_ns),
    ("keepalive-timeout", "timeout_ns", lambda ms: max(1, ms) * _NS_PER_MS),
    ("keepalive-permit-without-calls", "permit_without_calls", bool),
    ("http2-max-pings-without-data", "max_pings_without_data", _non_negative),
    (
        "http2-min-recv-ping-interval-without-data",
        "min_recv_ping_interval_ns",
        lambda ms: _non_negative(ms) * _NS_PER_MS,
    ),
    ("http2-max-ping-strikes", "max_ping_strikes", _non_negative),
    ("max-connection-age", "max_age_ns", _optional_ns),
    ("max-connection-age-grace", "max_age_grace_ns", _optional_ns),
)


def options_from_flags(values: Mapping[str, int]) -> KeepaliveOptions:
    """Make options of flags' values.

    Args:
        values: By flag without ``--grpc-``, times in milliseconds; what is missing keeps its
            default.
    """
    given = {field: convert(values[flag]) for flag, field, convert in _FLAGS if flag in values}
    return KeepaliveOptions(**given)  # type: ignore[arg-type]
