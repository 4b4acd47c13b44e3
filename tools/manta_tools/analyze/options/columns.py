# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The columns of results.

Triton: model_analyzer/model_analyzer/config/input/config_defaults.py @63a0fec
"""

from typing import Final

# Columns that are no metrics.
COLUMNS: Final = (
    "model_name", "batch_size", "concurrency", "request_rate", "model_config_path",
    "instance_group", "max_batch_size", "satisfies_constraints", "gpu_uuid",
)  # fmt: skip
INFERENCE_FIELDS: Final = (
    "model_name", "batch_size", "concurrency", "model_config_path", "instance_group",
    "max_batch_size", "satisfies_constraints", "perf_throughput", "perf_latency_p99",
)  # fmt: skip
GPU_FIELDS: Final = (
    "model_name", "gpu_uuid", "batch_size", "concurrency", "model_config_path", "instance_group",
    "satisfies_constraints", "gpu_used_memory", "gpu_utilization", "gpu_power_usage",
)  # fmt: skip
SERVER_FIELDS: Final = (
    "model_name", "gpu_uuid", "gpu_used_memory", "gpu_utilization", "gpu_power_usage",
)  # fmt: skip
