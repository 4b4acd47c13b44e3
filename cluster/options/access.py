# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The options of who may ask; see `docs/access.md`."""

from dataclasses import dataclass
from typing import Final

from cluster.options import values
from cluster.options.flag import declared as _flag
from cluster.options.forking import ForkOptions

ACCESS: Final = "Access"


_LARGEST_MODE: Final = 0o777


def _mode(text: str) -> str:
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= _LARGEST_MODE:
        raise values.ValueRefusedError(
            f"invalid argument for --unix-socket-mode: got '{text}', expected permissions in octal"
            " digits, such as 0660"
        )
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions(ForkOptions):
    """A part of `cluster.options.table.ServerOptions`."""

    access_policy: str = _flag(
        "",
        ACCESS,
        "YAML file that says who may ask what, read on each node with an ingress and again when it"
        " changes; empty: everybody may ask everything.",
    )
    unix_socket_mode: str = _flag(
        "0660",
        ACCESS,
        "Octal permissions of the files of Unix sockets, which --http-address=unix:/<path> and the"
        " like make.",
        _mode,
    )
