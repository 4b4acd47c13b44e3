# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Errors that models raise or send, and the text Triton makes of an exception.

Triton: python_backend/src/pb_error.h, pybind11's rendering of a Python exception
"""

import enum
from pathlib import Path
from types import TracebackType
from typing import Any

from backends.api.errors import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    RequestCancelledError,
    UnavailableError,
    UnknownError,
    UnsupportedError,
)
from backends.api.errors import TritonError as ApiError


class NumberedEnum(enum.Enum):
    """An enum whose members can be taken for their numbers, as those of pybind11 can."""

    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__


class ErrorCode(NumberedEnum):
    """Codes of `TritonError`, with Triton's numbers."""

    UNKNOWN = 0
    INTERNAL = 1
    NOT_FOUND = 2
    INVALID_ARG = 3
    UNAVAILABLE = 4
    UNSUPPORTED = 5
    ALREADY_EXISTS = 6
    CANCELLED = 7


_API_ERROR: dict[ErrorCode, type[ApiError]] = {
    ErrorCode.UNKNOWN: UnknownError,
    ErrorCode.INTERNAL: InternalError,
    ErrorCode.NOT_FOUND: NotFoundError,
    ErrorCode.INVALID_ARG: InvalidArgumentError,
    ErrorCode.UNAVAILABLE: UnavailableError,
    ErrorCode.UNSUPPORTED: UnsupportedError,
    ErrorCode.ALREADY_EXISTS: AlreadyExistsError,
    ErrorCode.CANCELLED: RequestCancelledError,
}


class TritonError:
    """An error a model puts into a response. It is no exception and cannot be raised."""

    __module__ = "c_python_backend_utils"
    __slots__ = ("_code", "_message")

    UNKNOWN = ErrorCode.UNKNOWN
    INTERNAL = ErrorCode.INTERNAL
    NOT_FOUND = ErrorCode.NOT_FOUND
    INVALID_ARG = ErrorCode.INVALID_ARG
    UNAVAILABLE = ErrorCode.UNAVAILABLE
    UNSUPPORTED = ErrorCode.UNSUPPORTED
    ALREADY_EXISTS = ErrorCode.ALREADY_EXISTS
    CANCELLED = ErrorCode.CANCELLED

    def __init__(self, message: Any, code: Any = ErrorCode.INTERNAL) -> None:
        if not isinstance(message, str) or not isinstance(code, ErrorCode):
            raise TypeError(
                "TritonError takes a str and one of its codes, such as TritonError.NOT_FOUND; got "
                f"{type(message).__name__} and {type(code).__name__}"
            )
        self._message: str = message
        self._code: ErrorCode = code

    def message(self) -> str:
        """Return the text."""
        return self._message

    def code(self) -> ErrorCode:
        """Return the code."""
        return self._code


class TritonModelException(Exception):  # noqa: N818 - Triton's name
    """What pb_utils raises, and models may raise in initialize, execute and finalize."""

    __module__ = "c_python_backend_utils"


def to_api_error(error: TritonError) -> ApiError:
    """Return the error the server knows."""
    return _API_ERROR[error.code()](error.message())


_CODE_OF_API_ERROR = {api_error: code for code, api_error in _API_ERROR.items()}


def from_api_error(error: ApiError) -> TritonError:
    """Return the error a model sees."""
    return TritonError(error.message, _CODE_OF_API_ERROR.get(type(error), ErrorCode.UNKNOWN))


# Frames of pb_utils and of what calls the model are no news to its author; Triton has none.
# Compiled, they have the path that their source had from the root.
_OWN = (f"{Path(__file__).parents[1]}/", "/".join(__name__.split(".")[:-2]) + "/")
_CALLERS = (
    f"{Path(enum.__file__).parent}/asyncio/",
    "<frozen importlib",
)


_MISSING = (
    "; list its package in a requirements.txt beside model.py, or name an environment that has it"
    " with parameter EXECUTION_ENV_PATH or runtime_env"
)


def describe(error: BaseException) -> str:
    """Render an exception: type, message and the model's frames, innermost first."""
    text = f"{type(error).__name__}: {str(error) or '<EMPTY MESSAGE>'}"
    if isinstance(error, ModuleNotFoundError):
        text += _MISSING
    frames = _frames(error.__traceback__)
    return f"{text}\n\nAt:\n{''.join(reversed(frames))}" if frames else text


def _frames(traceback: TracebackType | None) -> list[str]:
    frames: list[str] = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        is_own = code.co_filename.startswith(_OWN)
        if not is_own and (frames or not code.co_filename.startswith(_CALLERS)):
            frames.append(f"  {code.co_filename}({traceback.tb_lineno}): {code.co_name}\n")
        traceback = traceback.tb_next
    return frames
