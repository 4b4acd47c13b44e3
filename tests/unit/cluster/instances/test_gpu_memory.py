# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
from cluster.instances.device_leases import MOST_MODELS, GpuMemory

MB = 1 << 20


def test_what_was_measured_first_and_at_most_is_kept() -> None:
    rows: dict[str, list[int]] = {}
    changes: list[int] = []
    memory = GpuMemory(rows, lambda: changes.append(1))
    assert memory.peak_bytes("d") == 0
    for bytes_now in (100 * MB, 50 * MB, 300 * MB, 300 * MB + 1):
        memory.measured("d", bytes_now)
    assert rows == {"d": [100 * MB, 300 * MB]}
    assert memory.peak_bytes("d") == 300 * MB
    assert len(changes) == 2


def test_the_oldest_models_are_forgotten() -> None:
    rows: dict[str, list[int]] = {}
    memory = GpuMemory(rows)
    for number in range(MOST_MODELS + 3):
        memory.measured(str(number), MB)
    assert len(rows) == MOST_MODELS
    assert memory.peak_bytes("2") == 0
    assert memory.peak_bytes(str(MOST_MODELS + 2)) == MB
