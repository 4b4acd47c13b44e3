# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What is searched of a model when nobody says: which fields its config allows to change.

Triton: model_analyzer/model_analyzer/config/generate/automatic_model_config_generator.py @63a0fec
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from backends.api.model_config import ModelConfig
from backends.config.autoscaling import is_autoscaled
from manta_tools.analyze.records import Value
from manta_tools.analyze.space.dimensions import Dimension, of_values
from manta_tools.analyze.space.product import INSTANCES, MAX_BATCH_SIZE, Served

QUEUE_DELAY: Final = "dynamic_batching.max_queue_delay_microseconds"
DYNAMIC_BATCHING: Final = "dynamic_batching"
GPU_FRACTION: Final = "parameters.ray_num_gpus"
KIND: Final = "instance_group.kind"

# The parameter that sets the threads of an operation, by backend.
THREADS: Final[dict[str, str]] = {
    "onnxruntime": "parameters.intra_op_thread_count",
    "openvino": "parameters.INFERENCE_NUM_THREADS",
    "pytorch": "parameters.INTRA_OP_THREAD_COUNT",
    "tensorflow": "parameters.TF_NUM_INTRA_THREADS",
    "fil": "parameters.cpu_nthread",
}


@dataclass(frozen=True, slots=True)
class Domains:
    """The values of each field that may change; an empty one leaves its field as it is.

    Attributes:
        instances: Instances of each group.
        max_batch_sizes: Largest batches.
        queue_delays_us: How long a request may wait for a batch.
        threads: Threads of an operation.
        gpu_fractions: Which part of a GPU an instance reserves.
    """

    instances: tuple[int, ...] = ()
    max_batch_sizes: tuple[int, ...] = ()
    queue_delays_us: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    gpu_fractions: tuple[float, ...] = ()


def served(config: ModelConfig, composing: tuple[str, ...] = ()) -> Served:
    """Return what a config says; an ensemble knows the models that it calls itself."""
    return Served(
        max_batch_size=config.max_batch_size,
        instances=sum(max(1, group.count) for group in config.instance_group) or 1,
        groups=len(config.instance_group) or 1,
        composing=tuple(dict.fromkeys(step.model_name for step in config.ensemble_steps))
        or composing,
        is_ensemble=config.has_ensemble_scheduling,
    )


def dimensions(
    config: ModelConfig, domains: Domains, *, is_cpu_only: bool = False
) -> tuple[Dimension, ...]:
    """Return what of a model is searched.

    An ensemble has nothing of its own. The instances of a model that is autoscaled are the
    autoscaler's. A model without batches keeps having none, and one with a sequence batcher keeps
    that; any other one that has batches has a dynamic batcher.
    """
    if config.has_ensemble_scheduling:
        return ()
    rows = list(_values(config, domains, is_cpu_only=is_cpu_only))
    return tuple(of_values(config.name, field, values) for field, values in rows if values)


def notes(config: ModelConfig, domains: Domains) -> Iterator[str]:
    """Yield what was to be searched, and why it is not."""
    if config.has_ensemble_scheduling:
        return
    if domains.instances and is_autoscaled(config):
        yield (
            f"model '{config.name}' is autoscaled: its instances are not searched; remove "
            "'autoscaling.max_instances' from its parameters to have them searched"
        )
    if domains.threads and config.backend not in THREADS:
        yield (
            f"model '{config.name}' has backend '{config.backend}', whose threads are not searched;"
            f" they are those of {', '.join(THREADS)}"
        )


def _values(
    config: ModelConfig, domains: Domains, *, is_cpu_only: bool
) -> Iterator[tuple[str, tuple[Value, ...]]]:
    if is_cpu_only:
        yield KIND, ("KIND_CPU",)
    if not is_autoscaled(config):
        yield INSTANCES, domains.instances
    if config.max_batch_size > 0:
        yield MAX_BATCH_SIZE, domains.max_batch_sizes
        if not config.has_sequence_batching:
            if domains.queue_delays_us:
                yield QUEUE_DELAY, domains.queue_delays_us
            elif config.dynamic_batching is None and domains.max_batch_sizes:
                yield DYNAMIC_BATCHING, (True,)
    if config.backend in THREADS:
        yield THREADS[config.backend], domains.threads
    if not is_cpu_only and all(group.kind != "KIND_CPU" for group in config.instance_group):
        yield GPU_FRACTION, domains.gpu_fractions
