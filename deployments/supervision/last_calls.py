# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Turns newcomers away from a listening socket that is about to close.

Between the last accept and the close the kernel would still connect clients, who send a request and
get a reset for an answer. With this filter it drops their first packet; the client's kernel repeats
it a second later, when another process listens at the port or nobody does, which is refused.
Handshakes under way are completed, which takes them as long as a packet there and back.
"""

import ctypes
import socket
import struct
import sys
from typing import Final

# Of <asm-generic/socket.h>; Python's socket module does not have it.
_SO_ATTACH_FILTER: Final = 26
# Classic BPF, of <linux/bpf_common.h>; a listening socket's filter sees the TCP header.
_LOAD_BYTE: Final = 0x30
_JUMP_IF_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_FLAGS_OFFSET: Final = 13
_SYN: Final = 0x02
_DROP: Final = 0
_KEEP: Final = 0xFFFFFFFF
_PROGRAM: Final = (
    (_LOAD_BYTE, 0, 0, _FLAGS_OFFSET),
    (_JUMP_IF_ANY_BIT, 0, 1, _SYN),
    (_RETURN, 0, 0, _DROP),
    (_RETURN, 0, 0, _KEEP),
)


def turn_newcomers_away(listening: socket.socket) -> None:
    """Drop the first packet of every connection from now on; elsewhere than on Linux do nothing.

    Raises:
        OSError: The kernel does not allow the filter.
    """
    if sys.platform != "linux":
        return
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in _PROGRAM)
    kept = ctypes.create_string_buffer(code)
    program = struct.pack("HP", len(_PROGRAM), ctypes.addressof(kept))
    listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
