# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""One error class per TRITONSERVER error code, and the two tables that give them wire statuses.

Messages are built before the error is raised and travel as the only positional argument, so every
error survives pickling, and a trip over a lane as code, message and phase.

Triton: server/src/http_server.cc, server/src/grpc/grpc_utils.cc @e1db8a6
"""

from enum import IntEnum
from typing import ClassVar


class Phase(IntEnum):
    """When Triton meets an error of a request; the content type of its HTTP answer tells.

    Triton: server/src/http_server.cc HTTPAPIServer::HandleInfer @e1db8a6
    """

    # Wherever the error is raised.
    UNSPECIFIED = 0
    # Before the request is queued.
    ENQUEUE = 1
    # When the request is put into a batch.
    BATCH = 2


class TritonError(Exception):
    """An error with a TRITONSERVER code.

    Args:
        message: What was given, what was expected and what to do, on one line.
        phase: When Triton meets the error, where that is not when it is raised.
        retry_after_s: After how many seconds trying again is worth while; 0.0 says nothing. It does
            not travel over a lane.

    Attributes:
        phase: The same.
        retry_after_s: The same.
    """

    code: ClassVar[str] = "Unknown"

    def __init__(
        self,
        message: str = "",
        phase: Phase = Phase.UNSPECIFIED,
        retry_after_s: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.phase = phase
        self.retry_after_s = retry_after_s

    @property
    def message(self) -> str:
        """The text a client sees."""
        return str(self.args[0])

    def as_string(self) -> str:
        """Render as Triton logs and nests errors: ``<Code>: <message>``."""
        return f"{self.code}: {self.message}"


class UnknownError(TritonError):
    """TRITONSERVER_ERROR_UNKNOWN: an error that has no better code."""

    code = "Unknown"


class InternalError(TritonError):
    """TRITONSERVER_ERROR_INTERNAL: the server or the model's code failed."""

    code = "Internal"


class NotFoundError(TritonError):
    """TRITONSERVER_ERROR_NOT_FOUND: no model, version or region has that name."""

    code = "Not found"


class InvalidArgumentError(TritonError):
    """TRITONSERVER_ERROR_INVALID_ARG: the request or the config is wrong."""

    code = "Invalid argument"


class UnavailableError(TritonError):
    """TRITONSERVER_ERROR_UNAVAILABLE: nothing can take the request now; a retry may succeed."""

    code = "Unavailable"


class UnsupportedError(TritonError):
    """TRITONSERVER_ERROR_UNSUPPORTED: the model or the server cannot do this."""

    code = "Unsupported"


class ImportedAlreadyError(UnavailableError):
    """A process has imported other versions of packages than its model brings.

    One that starts with those packages can load the model.
    """


class AlreadyExistsError(TritonError):
    """TRITONSERVER_ERROR_ALREADY_EXISTS: something else has that name."""

    code = "Already exists"


class RequestCancelledError(TritonError):
    """TRITONSERVER_ERROR_CANCELLED: the client cancelled the request."""

    code = "Cancelled"


class ResourceExhaustedError(TritonError):
    """A limit of the server or a quota of the tenant is reached; not in Triton."""

    code = "Resource exhausted"


class UnauthenticatedError(TritonError):
    """The request has no valid credentials; not in Triton."""

    code = "Unauthenticated"


class PermissionDeniedError(TritonError):
    """The caller may not do this; not in Triton."""

    code = "Permission denied"


ERROR_BY_CODE: dict[str, type[TritonError]] = {
    cls.code: cls
    for cls in (
        UnknownError,
        InternalError,
        NotFoundError,
        InvalidArgumentError,
        UnavailableError,
        UnsupportedError,
        AlreadyExistsError,
        RequestCancelledError,
        ResourceExhaustedError,
        UnauthenticatedError,
        PermissionDeniedError,
    )
}

HTTP_STATUS: dict[str, int] = {
    "Internal": 500,
    "Not found": 404,
    "Unavailable": 503,
    "Unsupported": 501,
    "Unknown": 400,
    "Invalid argument": 400,
    "Already exists": 400,
    "Cancelled": 400,
    "Resource exhausted": 429,
    "Unauthenticated": 401,
    "Permission denied": 403,
}

# Numbers of grpc.StatusCode, so that codecs need no grpc import.
GRPC_STATUS: dict[str, int] = {
    "Cancelled": 1,
    "Unknown": 2,
    "Invalid argument": 3,
    "Not found": 5,
    "Already exists": 6,
    "Permission denied": 7,
    "Resource exhausted": 8,
    "Unsupported": 12,
    "Internal": 13,
    "Unavailable": 14,
    "Unauthenticated": 16,
}


def error_from_code(code: str, message: str, phase: Phase = Phase.UNSPECIFIED) -> TritonError:
    """Rebuild the error that ``(error.code, error.message, error.phase)`` describes."""
    return ERROR_BY_CODE.get(code, UnknownError)(message, phase)
