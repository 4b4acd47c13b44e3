# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A test that CI does not run is a test that nobody runs: there a skip has to be on a list."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.gates import REASON


@dataclass(frozen=True)
class AllowedSkip:
    """What CI may skip.

    Attributes:
        test: The beginning of node ids.
        reason: The beginning of what the skip says; one that says something else is not allowed.
        why: Why CI may do without it.
    """

    test: str
    reason: str
    why: str


_ALL_HAS_IT = "takes minutes; make test-all runs it"
_INTEGRATION = "tests/integration"
ALLOWED_SKIPS = (
    AllowedSkip(
        "tests/unit/scripts/test_gpu_check.py::test_providers_that_are_not_there",
        "this onnxruntime has providers of GPUs",
        "says what happens without a GPU; CI may have one",
    ),
    AllowedSkip(
        "tests/unit/scripts/test_gpu_check.py::test_without_a_driver",
        "this machine has a GPU",
        "says what happens without a GPU; CI may have one",
    ),
    AllowedSkip(
        "tests/unit/backends/python/model_side/test_device_memory.py::test_without_a_driver",
        "this machine has a CUDA driver",
        "says what happens without a CUDA driver; CI may have one",
    ),
    AllowedSkip(
        "tests/unit/deployments/instance/test_adopted_sequences.py::test_a_sequence_begins_when",
        "replaces a method of an object, which has none then",
        "only the plain form has such a method; make unit runs that",
    ),
    AllowedSkip(
        "tests/unit/cluster/fork_server/test_differences.py::test_another_namespace",
        "this kernel lets nobody make a namespace",
        "containers may not make one",
    ),
    AllowedSkip("tests/unit/cluster/fork_server/test_forked.py::test_torch", REASON, _ALL_HAS_IT),
    AllowedSkip(
        f"{_INTEGRATION}/test_fork_server.py::test_clients_that_are_killed", REASON, _ALL_HAS_IT
    ),
    AllowedSkip(f"{_INTEGRATION}/test_head_faults.py::", REASON, _ALL_HAS_IT),
    AllowedSkip(f"{_INTEGRATION}/test_node_autoscaler.py::", REASON, _ALL_HAS_IT),
    *(
        AllowedSkip(f"{_INTEGRATION}/test_nodes.py::{test}", REASON, _ALL_HAS_IT)
        for test in ("test_a_node_whose_pod", "test_a_pod_with", "test_a_killed_node")
    ),
    AllowedSkip(
        f"{_INTEGRATION}/test_upgrade.py::test_a_release_whose_instances_do_not",
        REASON,
        _ALL_HAS_IT,
    ),
    AllowedSkip(f"{_INTEGRATION}/test_kuberay.py::", REASON, _ALL_HAS_IT),
    AllowedSkip(f"{_INTEGRATION}/test_raylet_kills.py::", REASON, _ALL_HAS_IT),
    AllowedSkip(
        f"{_INTEGRATION}/test_kserve.py::", "pods need root", "CI need not be root for pods"
    ),
    AllowedSkip("tests/stores/test_ray_nodes.py::", REASON, _ALL_HAS_IT),
    AllowedSkip("tests/k8s/test_image.py::", "minutes; make test-all runs it", _ALL_HAS_IT),
)


def is_ci(environ: Mapping[str, str]) -> bool:
    """Whether the tests run in CI."""
    return environ.get("CI", "").lower() in {"true", "1"}


def refuse_skip(
    report: pytest.TestReport | pytest.CollectReport,
    environ: Mapping[str, str],
    allowed: Iterable[AllowedSkip] = ALLOWED_SKIPS,
) -> None:
    """Make a skip in CI a failure, unless it is allowed."""
    if not report.skipped or hasattr(report, "wasxfail") or not is_ci(environ):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    said = reason.removeprefix("Skipped: ")
    if any(report.nodeid.startswith(row.test) and said.startswith(row.reason) for row in allowed):
        return
    report.outcome = "failed"
    report.longrepr = (
        f"{report.nodeid} is skipped in CI: {reason}. Install what it needs, or give the test and"
        " the reason in ALLOWED_SKIPS of tests/support/skips.py."
    )


def unmatched(
    entries: Iterable[str], collected: Iterable[str], arguments: Iterable[str]
) -> list[str]:
    """Find entries that no test matches any more.

    Args:
        entries: Beginnings of node ids.
        collected: Node ids of all tests that were found, before any was deselected.
        arguments: What pytest was asked for, relative to the root: an entry is judged where a
            folder was asked for that its file is in, not where single files are run.
    """
    folders = [Path(each) for each in arguments if "::" not in each and not each.endswith(".py")]
    ids = list(collected)
    return [
        entry
        for entry in entries
        if any(folder in Path(entry.partition("::")[0]).parents for folder in folders)
        and not any(each.startswith(entry) for each in ids)
    ]
