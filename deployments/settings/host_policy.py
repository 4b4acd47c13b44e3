# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Binds this process to the cores and the memory that ``--host-policy`` names.

Triton: core/src/numa_utils.cc SetNumaConfigOnThread @73aad7c
"""

import ctypes
import os
import platform
from collections.abc import Mapping
from pathlib import Path

from backends.api.errors import InternalError, InvalidArgumentError

CPU_CORES = "cpu-cores"
NUMA_NODE = "numa-node"
SETTINGS = (NUMA_NODE, CPU_CORES)
# Not a value of Triton's: the NUMA node of the instance's GPU, whatever machine that is in.
AUTO = "auto"

_MPOL_BIND = 2
# The numbers of Linux's set_mempolicy, which the C library has no function for.
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
_MOST_NODES = 1024
_BITS_PER_WORD = 64
_MOST_CORES = 1 << 16
_NUMA_NODES = Path("/sys/devices/system/node")


def apply_host_policy(policy: Mapping[str, str]) -> frozenset[int]:
    """Bind every thread this process has, and those they start later.

    Args:
        policy: Settings by name, of `SETTINGS`.

    Returns:
        The cores the process is bound to; empty when the policy names none.

    Raises:
        InvalidArgumentError: A setting cannot be read.
        InternalError: The system refuses it; the message says why.
    """
    cores = read_cores(policy[CPU_CORES]) if CPU_CORES in policy else frozenset()
    node = _read_integer(NUMA_NODE, policy[NUMA_NODE]) if NUMA_NODE in policy else None
    if cores:
        _bind_to_cores(cores)
    if node is not None:
        _bind_memory(node)
    return cores


def resolved(
    policy: Mapping[str, str], numa_node: int | None, numa_nodes: Path = _NUMA_NODES
) -> Mapping[str, str]:
    """Return a policy with the NUMA node that ``numa-node=auto`` stands for, and its cores.

    Cores that the policy names stay; else they are those of the node that this process may use.

    Args:
        policy: Settings by name, of `SETTINGS`.
        numa_node: To which the instance's GPU is attached; None without one, or when that is not
            known. Then nothing is bound to a node.
        numa_nodes: Where the kernel tells of them.
    """
    if policy.get(NUMA_NODE) != AUTO:
        return policy
    rest = {name: value for name, value in policy.items() if name != NUMA_NODE}
    if numa_node is None:
        return rest
    return {**_cores_of(numa_nodes / f"node{numa_node}"), **rest, NUMA_NODE: str(numa_node)}


def _cores_of(numa_node: Path) -> Mapping[str, str]:
    try:
        listed = (numa_node / "cpulist").read_text().strip()
    except OSError:
        return {}
    # The kernel writes a range of one as a number.
    ranges = [part if "-" in part else f"{part}-{part}" for part in listed.split(",") if part]
    usable = os.sched_getaffinity(0)
    cores = read_cores(",".join(ranges)) & usable if ranges else frozenset()
    return {CPU_CORES: ",".join(f"{core}-{core}" for core in sorted(cores))} if cores else {}


def read_cores(text: str) -> frozenset[int]:
    """Read ``<lower>-<upper>[,<lower>-<upper>...]``.

    Raises:
        InvalidArgumentError: The text has another form, or names no core.
    """
    cores: set[int] = set()
    for part in text.split(","):
        lower_text, dash, upper_text = part.partition("-")
        if not dash:
            raise InvalidArgumentError(
                f"host policy setting '{CPU_CORES}' format is "
                f"'<lower_cpu_core_id>-<upper_cpu_core_id>'. Got {part}"
            )
        lower, upper = (_read_integer(CPU_CORES, each) for each in (lower_text, upper_text))
        if not lower <= upper < _MOST_CORES:
            raise InvalidArgumentError(
                f"host policy setting '{CPU_CORES}' needs a lower core, then an upper one that is "
                f"not below it and below {_MOST_CORES}. Got {part}"
            )
        cores.update(range(lower, upper + 1))
    return frozenset(cores)


def _read_integer(setting: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(_MOST_CORES)):
        raise InvalidArgumentError(f"Parsing '{setting}' value: Can't parse '{text}' to integer")
    return int(text)


def _bind_to_cores(cores: frozenset[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        try:
            os.sched_setaffinity(int(thread.name), cores)
        except ProcessLookupError:
            # It has ended since.
            continue
        except OSError as error:
            raise InternalError(f"Unable to set NUMA thread affinity: {error.strerror}") from error


def _bind_memory(node: int) -> None:
    # The policy is the calling thread's, and of those that it starts: the one that loads the model.
    number = _SET_MEMPOLICY.get(platform.machine())
    if number is None or not 0 <= node < _MOST_NODES:
        why = f"node {node} on {platform.machine()}"
        raise InternalError(f"Unable to set NUMA memory policy: {why}")
    mask = (ctypes.c_uint64 * (_MOST_NODES // _BITS_PER_WORD))()
    mask[node // _BITS_PER_WORD] = 1 << (node % _BITS_PER_WORD)
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (ctypes.c_long(_MPOL_BIND), mask, ctypes.c_ulong(_MOST_NODES + 1))
    if libc.syscall(ctypes.c_long(number), *arguments) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise InternalError(f"Unable to set NUMA memory policy: {reason}")
