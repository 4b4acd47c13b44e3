# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The messages inside frames, their codecs, and the bounds of a lane."""

from dataclasses import dataclass
from typing import Final

import msgspec

from backends.api.errors import Phase
from backends.api.request import InferenceRequest, InferenceResponse
from deployments.contracts.protocols import Versions
from deployments.lane.frames import MAX_MESSAGE_BYTES, MAX_TAIL_BYTES
from deployments.lane.handshake import SPOKEN
from deployments.lane.keepalive import WITHOUT_HEARTBEAT_S
from deployments.settings.lane_settings import LaneSettings
from deployments.tracing.record import TraceReport


@dataclass(frozen=True, slots=True)
class LaneLimits:
    """Bounds of one lane.

    Attributes:
        threshold_bytes: Tensors of at least this size travel in slabs or tails.
        max_message_bytes: Longest message (headers and small tensors).
        max_tail_bytes: Longest tail.
        max_inflight_count: Requests that one client may have unanswered.
        max_unsent_bytes: A lane whose peer lets more than this pile up is closed. Large, because
            four answers of 250 MB waiting for a healthy reader are legitimate.
        high_water_bytes: Unsent bytes from which on `is_writable` is False.
        handshake_timeout_s: Time a peer has to prove itself and set up.
        peer_timeout_s: How long another node may acknowledge nothing.
        versions: Of the protocol, that this end speaks.
    """

    threshold_bytes: int = 65536
    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_tail_bytes: int = MAX_TAIL_BYTES
    max_inflight_count: int = 65536
    max_unsent_bytes: int = 1 << 30
    high_water_bytes: int = 4 << 20
    handshake_timeout_s: float = 5.0
    peer_timeout_s: float = WITHOUT_HEARTBEAT_S
    versions: Versions = SPOKEN


DEFAULT_LIMITS: Final = LaneLimits()


def limits_of(settings: LaneSettings) -> LaneLimits:
    """Return the bounds that the server's options ask for."""
    return LaneLimits(
        threshold_bytes=settings.slab_threshold_bytes, peer_timeout_s=peer_timeout_s(settings)
    )


def peer_timeout_s(settings: LaneSettings) -> float:
    """Return how long another node may acknowledge nothing, as the server's options ask for."""
    return settings.heartbeat_timeout_s or WITHOUT_HEARTBEAT_S


class Setup(msgspec.Struct, array_like=True):
    """The message of SETUP.

    Attributes:
        pid: Process whose slabs the sender writes; 0 when it offers none.
        probe_fd: Descriptor of the probe in that process.
        probe_token: What the probe contains.
        maps_yours: Whether the sender could read the receiver's probe.
        incarnation: The instance's incarnation; empty from a client.
        page_fd: Descriptor in that process of the page that says what an instance executes; see
            `deployments.lane.crash_report`. -1 when there is none, or from a client.
        lane_number: What the instance calls the lane on that page.
        crash_log: Where the instance's process writes its stack when it crashes.
    """

    pid: int = 0
    probe_fd: int = -1
    probe_token: bytes = b""
    maps_yours: bool = False
    incarnation: str = ""
    page_fd: int = -1
    lane_number: int = 0
    crash_log: str = ""


class CallMessage(msgspec.Struct, array_like=True):
    """The message of CALL."""

    method: str
    payload: memoryview


class ErrorMessage(msgspec.Struct, array_like=True):
    """The message of ERROR and CALL_ERROR: a TRITONSERVER code, a text and a phase."""

    code: str
    message: str
    phase: Phase = Phase.UNSPECIFIED


class UnsendableError(Exception):
    """A request or response that a lane cannot carry."""


encode: Final = msgspec.msgpack.Encoder().encode
decode_setup: Final = msgspec.msgpack.Decoder(Setup).decode
decode_call: Final = msgspec.msgpack.Decoder(CallMessage).decode
decode_error: Final = msgspec.msgpack.Decoder(ErrorMessage).decode
decode_request: Final = msgspec.msgpack.Decoder(InferenceRequest).decode
decode_report: Final = msgspec.msgpack.Decoder(TraceReport).decode
decode_response: Final = msgspec.msgpack.Decoder(InferenceResponse).decode
