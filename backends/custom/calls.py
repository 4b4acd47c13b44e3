# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The shim's functions, and what it calls here.

Everything is called without Python's lock. Libraries reach Python by four callbacks, from threads
of their own too: these never raise, are never freed, and are taken back before Python ends.
"""

import atexit
import ctypes
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Protocol

import numpy as np

from backends.api.backend import ExecuteRequest
from backends.api.errors import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    RequestCancelledError,
    TritonError,
    UnavailableError,
    UnknownError,
    UnsupportedError,
)
from backends.custom import shim_library
from backends.custom.records import EventRecord, LargeTensor, decode_events

logger = logging.getLogger(__name__)

# In the order of TRITONSERVER_Error_Code.
ERRORS: Final[tuple[type[TritonError], ...]] = (
    UnknownError,
    InternalError,
    NotFoundError,
    InvalidArgumentError,
    UnavailableError,
    UnsupportedError,
    AlreadyExistsError,
    RequestCancelledError,
)
# In the order of TRITONSERVER_LogLevel.
_LEVELS: Final = (logging.INFO, logging.WARNING, logging.ERROR, logging.DEBUG)

_Handle = ctypes.c_void_p
_Made = ctypes.POINTER(ctypes.c_void_p)
_Record = (ctypes.c_char_p, ctypes.c_size_t)
_LogFunction = ctypes.CFUNCTYPE(
    None, ctypes.c_int32, ctypes.c_char_p, ctypes.c_int32, ctypes.c_char_p
)
_CancelledFunction = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64)
_DeliverFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)
_ConfigFunction = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
)

# Result and arguments of each function in shim/host.cc.
_SIGNATURES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "manta_text": (ctypes.c_void_p, (ctypes.POINTER(ctypes.c_size_t),)),
    "manta_put_text": (None, _Record),
    "manta_free": (None, (_Handle,)),
    "manta_set_callbacks": (
        None,
        (_LogFunction, _CancelledFunction, _DeliverFunction, _ConfigFunction),
    ),
    "manta_set_log_mask": (None, (ctypes.c_uint32,)),
    "manta_open_backend": (ctypes.c_int32, (*_Record, _Made)),
    "manta_close_backend": (ctypes.c_int32, (_Handle,)),
    "manta_open_model": (ctypes.c_int32, (_Handle, *_Record, _Made)),
    "manta_complete_model": (ctypes.c_int32, (_Handle, *_Record)),
    "manta_close_model": (ctypes.c_int32, (_Handle,)),
    "manta_open_instance": (ctypes.c_int32, (_Handle, *_Record, _Made)),
    "manta_close_instance": (ctypes.c_int32, (_Handle,)),
    "manta_has_ready": (ctypes.c_int32, (_Handle,)),
    "manta_ready": (ctypes.c_int32, (_Handle,)),
    "manta_execute": (ctypes.c_int32, (_Handle, *_Record)),
    "manta_metrics": (None, ()),
}


class Given(Protocol):
    """A request that a library was given."""

    @property
    def request(self) -> ExecuteRequest:
        """The request."""

    def answer(self, event: EventRecord) -> None:
        """Pass on what the library answered."""


@dataclass(slots=True)
class Process:
    """What callbacks find in this process.

    Attributes:
        open: Requests that a library was given, by number.
        deliver: Takes an answer to a request of a decoupled model.
        set_config: Takes the JSON with which a library completes its model's config, and returns
            the JSON of the complete one.
    """

    open: dict[int, "Given"] = field(default_factory=dict)
    deliver: Callable[[EventRecord], None] = lambda _: None
    set_config: Callable[[bytes], bytes] = lambda text: text


PROCESS: Final = Process()


@cache
def library() -> ctypes.CDLL:
    """Return the shim, loaded so that backend libraries find it.

    Raises:
        UnavailableError: It is not compiled, and cannot be here.
        InternalError: Its compilation fails.
    """
    loaded = ctypes.CDLL(str(shim_library.path()), mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    loaded.manta_set_callbacks(*_CALLBACKS)
    atexit.register(
        loaded.manta_set_callbacks,
        _LogFunction(),
        _CancelledFunction(),
        _DeliverFunction(),
        _ConfigFunction(),
    )
    return loaded


def said() -> bytes:
    """Return the text that the last call of this thread has left."""
    size = ctypes.c_size_t()
    base = library().manta_text(ctypes.byref(size))
    return ctypes.string_at(base, size.value)


def require(code: int, context: str = "") -> None:
    """Raise the error that a function returned, if it did.

    Args:
        code: What it returned.
        context: What to put before the error's text.

    Raises:
        TritonError: With the library's code and text.
    """
    if code:
        raise error_of(code - 1, context + said().decode(errors="replace"))


def error_of(code: int, text: str) -> TritonError:
    """Return the error that has a TRITONSERVER_Error_Code."""
    return (ERRORS[code] if 0 <= code < len(ERRORS) else UnknownError)(text)


def opened(function: Any, *arguments: Any, context: str = "") -> int:
    """Call a function that makes a handle, and return that.

    Raises:
        TritonError: As the library has it.
    """
    handle = ctypes.c_void_p()
    require(function(*arguments, ctypes.byref(handle)), context)
    return handle.value or 0


def pass_log_level() -> None:
    """Tell the shim which levels are logged."""
    mask = sum(logger.isEnabledFor(level) << bit for bit, level in enumerate(_LEVELS))
    library().manta_set_log_mask(mask)


class _Block:
    """Memory of the shim's, freed when nothing looks at it any more."""

    __slots__ = ("__array_interface__", "_address", "_free")

    def __init__(self, address: int, size: int) -> None:
        self._address = address
        # Kept, as names of modules may be gone when Python ends.
        self._free = library().manta_free
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (size,),
            "data": (address, False),
        }

    def __del__(self) -> None:
        self._free(self._address)


def view(large: LargeTensor) -> memoryview:
    """Return the bytes of a large tensor that the shim gave away."""
    _, size, address = large
    return np.asarray(_Block(address, size)).data


def address_of(data: memoryview) -> int:
    """Return where a tensor's bytes lie; they stay there as long as something refers to them."""
    found: int = np.frombuffer(data, dtype=np.uint8).__array_interface__["data"][0]
    return found


def _log(level: int, file: bytes, line: int, text: bytes) -> None:
    try:
        record = logger.makeRecord(
            logger.name,
            _LEVELS[level],
            file.decode(errors="replace"),
            line,
            "%s",
            (text.decode(errors="replace"),),
            None,
        )
        logger.handle(record)
    except Exception:
        logger.exception("a backend library's line cannot be logged")


def _is_cancelled(number: int) -> int:
    given = PROCESS.open.get(number)
    try:
        return int(given is not None and given.request.is_cancelled)
    except Exception:
        logger.exception("whether a request is cancelled cannot be told")
        return 0


def _deliver(base: int, size: int) -> None:
    try:
        for event in decode_events(ctypes.string_at(base, size)):
            PROCESS.deliver(event)
    except Exception:
        logger.exception("an answer of a backend library cannot be sent")


def _set_config(_: int, base: int, size: int) -> int:
    try:
        code, text = 0, PROCESS.set_config(ctypes.string_at(base, size))
    except TritonError as error:
        kind = next((each for each in ERRORS if isinstance(error, each)), InternalError)
        code, text = ERRORS.index(kind) + 1, error.message.encode()
    except Exception as error:
        code, text = ERRORS.index(InternalError) + 1, repr(error).encode()
    library().manta_put_text(text, len(text))
    return code


# Kept for good: a thread of a library's may be about to call one.
_CALLBACKS: Final = (
    _LogFunction(_log),
    _CancelledFunction(_is_cancelled),
    _DeliverFunction(_deliver),
    _ConfigFunction(_set_config),
)
