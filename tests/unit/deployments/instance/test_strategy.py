# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""On which node Ray starts an instance."""

from dataclasses import replace

from backends.api.model_config import ModelConfig
from deployments.instance.actor import _strategy
from deployments.instance.spec import DeviceAssignment, InstanceSpec

SPEC = InstanceSpec("m/1#0@1", 1, "m", 1, 0, "m_0_0", ModelConfig("m"), False, "/m")


def test_an_instance_without_a_device_is_placed_by_ray() -> None:
    assert _strategy(SPEC) == "DEFAULT"


def test_an_instance_with_a_device_is_on_its_node_or_nowhere() -> None:
    tied = _strategy(replace(SPEC, device=DeviceAssignment("ab" * 28, "GPU-1", 0)))
    assert (tied.node_id, tied.soft) == ("ab" * 28, False)
