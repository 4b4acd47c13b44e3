# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""POSIX shared-memory objects of clients: held open from registration on, opened by instances.

A registration means the object that had the name then, as in Triton, which maps it at once. Clients
may unlink or replace it while it is registered, so the ingress that registers it keeps it open, and
whoever maps it later opens what that ingress holds when the name no longer leads there.

Triton: server/src/shared_memory_manager.cc RegisterSystemSharedMemory @e1db8a6
"""

import mmap
import os
import re
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from backends.api.errors import InternalError, InvalidArgumentError, TritonError
from deployments.settings.server_settings import Region

_DIRECTORY: Final = "/dev/shm/"  # noqa: S108 - where POSIX shared memory is
_KEY: Final = re.compile(r"/?[^/\x00]{1,254}")
_RESERVED_PREFIX: Final = "triton_python_backend_shm_region_"
# No key has it.
_SEPARATOR: Final = "\x00"
_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC


class HeldObjects:
    """The objects this process has registered, held open until they are forgotten."""

    def __init__(self) -> None:
        self._descriptors: dict[str, int] = {}
        self._pending: set[str] = set()

    def hold(self, region: Region) -> Region:
        """Open the object of a region to be registered; return the region with its source.

        Until `settle` is called it is kept whatever `release_others` says.

        Raises:
            InvalidArgumentError: The key is no name of an object, or the region is not within it.
            InternalError: The object cannot be opened.
        """
        _check_key(region)
        descriptor = _opened(_DIRECTORY + region.key.removeprefix("/"), region.key)
        try:
            status = os.fstat(descriptor)
            _check_bounds(region, status.st_size)
        except BaseException:
            os.close(descriptor)
            raise
        identity = f"{status.st_dev}:{status.st_ino}"
        holder = f"/proc/{os.getpid()}/fd/{descriptor}"
        source = _SEPARATOR.join((region.key, identity, holder))
        self._descriptors[source] = descriptor
        self._pending.add(source)
        return replace(region, source=source)

    def settle(self, source: str, *, is_registered: bool) -> None:
        """Say how the registration of a held object ended."""
        self._pending.discard(source)
        if not is_registered:
            os.close(self._descriptors.pop(source))

    def release_others(self, sources: Collection[str]) -> None:
        """Close the objects whose regions are gone."""
        for source in self._descriptors.keys() - self._pending - set(sources):
            os.close(self._descriptors.pop(source))


def open_source(source: str) -> int:
    """Return a descriptor of the object a registration meant.

    Args:
        source: `Region.source`, made by `HeldObjects.hold`.

    Raises:
        InternalError: It is gone: unlinked or replaced, and its holder has ended.
    """
    key, _, rest = source.partition(_SEPARATOR)
    identity, _, holder = rest.partition(_SEPARATOR)
    for path, flags in ((_DIRECTORY + key.removeprefix("/"), os.O_NOFOLLOW), (holder, 0)):
        try:
            descriptor = os.open(path, _FLAGS | flags)
        except (OSError, ValueError):
            continue
        status = os.fstat(descriptor)
        if f"{status.st_dev}:{status.st_ino}" == identity:
            return descriptor
        os.close(descriptor)
    raise cannot_open(source)


def key_of(source: str) -> str:
    """Return the client's name of the object."""
    return source.partition(_SEPARATOR)[0]


def cannot_open(source: str) -> TritonError:
    """Return the error of an object that is not there."""
    return InternalError(f"Unable to open shared memory region: '{key_of(source)}'")


def _check_key(region: Region) -> None:
    name = region.key.lstrip("/")
    refusal = f"cannot register shared memory region '{region.name}'"
    if name.startswith(_RESERVED_PREFIX):
        raise InvalidArgumentError(
            f"{refusal} with key '{region.key}' as the key contains the reserved prefix "
            f"'{_RESERVED_PREFIX}'"
        )
    if _KEY.fullmatch(region.key) is None or name in (".", "..", ""):
        raise InvalidArgumentError(f"{refusal} - invalid shm key '{region.key}'")


def _opened(path: str, key: str) -> int:
    try:
        return os.open(path, _FLAGS | os.O_NOFOLLOW)
    except OSError:
        raise cannot_open(key) from None


def _check_bounds(region: Region, object_bytes: int) -> None:
    failed = f"failed to register shared memory region '{region.name}'"
    if region.offset + region.size_bytes > object_bytes:
        raise InvalidArgumentError(f"{failed}: invalid args")
    if region.size_bytes == 0 or region.offset % mmap.PAGESIZE:
        # Triton maps the region by itself, and a mapping begins with a whole page.
        raise InvalidArgumentError(f"{failed}: unable to process address spaceInvalid argument")
