# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from deployments.supervision.usable_memory import FALLBACK_BYTES, usable_memory_bytes

GIB = 1 << 30
MEMINFO = {"proc/meminfo": f"MemFree: 1 kB\nMemTotal: {16 * GIB // 1024} kB\n"}
V1 = "4:cpu,cpuacct:/pod\n3:memory:/pod\n"
V1_UNLIMITED = "9223372036854771712\n"


def _machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "expected_bytes"),
    [
        ({}, FALLBACK_BYTES),
        (MEMINFO, 16 * GIB),
        # A container with a cgroup namespace of its own sees itself at the root.
        (
            MEMINFO | {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{2 * GIB}\n"},
            2 * GIB,
        ),
        (
            MEMINFO | {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"},
            16 * GIB,
        ),
        # The lowest limit counts, whichever ancestor has it.
        (
            MEMINFO
            | {
                "proc/self/cgroup": "0::/pods/one\n",
                "sys/fs/cgroup/pods/one/memory.max": "max\n",
                "sys/fs/cgroup/pods/memory.max": f"{3 * GIB}\n",
            },
            3 * GIB,
        ),
        # The path is the host's, and the container sees only its own cgroup.
        (
            MEMINFO
            | {"proc/self/cgroup": "0::/pods/one\n", "sys/fs/cgroup/memory.max": f"{GIB}\n"},
            GIB,
        ),
        (
            MEMINFO
            | {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/memory/pod/memory.limit_in_bytes": f"{5 * GIB}\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": V1_UNLIMITED,
            },
            5 * GIB,
        ),
        (
            MEMINFO
            | {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/memory/memory.limit_in_bytes": V1_UNLIMITED,
            },
            16 * GIB,
        ),
    ],
)
def test_the_lowest_limit_is_what_may_be_used(
    tmp_path: Path, files: dict[str, str], expected_bytes: int
) -> None:
    assert usable_memory_bytes(_machine(tmp_path, files)) == expected_bytes


def test_this_machine_tells() -> None:
    assert usable_memory_bytes() > 1 << 20
