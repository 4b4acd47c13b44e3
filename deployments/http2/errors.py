# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 error codes (RFC 9113 section 7) and the two ways a peer can be wrong."""

from enum import IntEnum


class ErrorCode(IntEnum):
    """The codes of RST_STREAM and GOAWAY."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class ConnectionViolation(Exception):  # noqa: N818 - the peer's error, not ours
    """The peer broke the protocol in a way that ends the connection.

    Args:
        code: Goes into the GOAWAY frame.
        message: What was given and what was expected; goes into GOAWAY as debug data.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


class MalformedRequestError(Exception):
    """The headers of a request break RFC 9113 section 8: its stream is reset.

    Args:
        message: What is wrong with them.
    """
