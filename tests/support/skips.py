# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""A test that CI does not run is a test that nobody runs: there a skip has to be on a list."""

from collections.abc import Mapping

import pytest

# What CI may skip: the beginning of a test's node id, and why.
ALLOWED_SKIPS: dict[str, str] = {
    "tests/unit/scripts/test_gpu_check.py::": "says what happens without a GPU; CI may have one",
    "tests/integration/test_head_faults.py::": "heads that die take minutes: make test-all",
    "tests/integration/test_node_autoscaler.py::": "takes minutes; make test-all runs it",
    "tests/integration/test_nodes.py::test_a_node_whose_pod": "minutes; make test-all runs it",
    "tests/integration/test_nodes.py::test_a_pod_with": "minutes; make test-all runs it",
    "tests/integration/test_nodes.py::test_a_killed_node": "minutes; make test-all runs it",
    "tests/k8s/test_image.py::": "an image takes minutes; make test-all builds and runs it",
    "tests/k8s/": "validate.py, beside the checkout in CI, is not part of Manta",
    "tests/integration/test_upgrade.py::test_a_release_whose_instances_do_not": (
        "a release that fails and one that comes back take minutes; make test-all runs it"
    ),
    "tests/stores/test_ray_nodes.py::": "four nodes of Ray take minutes; make test-all runs it",
    "tests/integration/test_kuberay.py::": "three pods take minutes; make test-all runs it",
    "tests/unit/deployments/instance/test_adopted_sequences.py::test_a_sequence_begins_when": (
        "replaces a method of an object, which only the plain form has; make unit runs that"
    ),
    "tests/unit/backends/python/model_side/test_device_memory.py::test_without_a_driver": (
        "says what happens without a CUDA driver; CI may have one"
    ),
    "tests/integration/test_kserve.py::": "pods need root; says what is missing",
}


def is_ci(environ: Mapping[str, str]) -> bool:
    """Whether the tests run in CI."""
    return environ.get("CI", "").lower() in {"true", "1"}


def refuse_skip(
    report: pytest.TestReport | pytest.CollectReport,
    environ: Mapping[str, str],
    allowed: Mapping[str, str] = ALLOWED_SKIPS,
) -> None:
    """Make a skip in CI a failure, unless it is allowed."""
    if (
        not report.skipped
        or hasattr(report, "wasxfail")
        or not is_ci(environ)
        or report.nodeid.startswith(tuple(allowed))
    ):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = (
        f"{report.nodeid} is skipped in CI: {reason}. Install what it needs, or give the reason in"
        " ALLOWED_SKIPS of tests/support/skips.py."
    )
