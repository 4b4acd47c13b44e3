# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Which requests may share a batch.

Most models have fixed shapes: the ingress has checked them, so any two requests fit and nothing is
computed per request. Otherwise a request gets a signature, and only equal ones are batched.

Triton: core/src/scheduler_utils.cc RequiredEqualInputs @73aad7c
"""

from collections.abc import Callable

from backends.api.model_config import ModelConfig
from backends.api.request import InferenceRequest, Tensor
from deployments.scheduling.shape_buckets import ShapeBuckets

Signature = Callable[[InferenceRequest], object]


def signature_of(config: ModelConfig, buckets: ShapeBuckets | None = None) -> Signature | None:
    """Return the function that computes a request's signature, or None when none is needed.

    The signature holds the shapes ``[*dims]`` of variable-size inputs that are not ragged, the
    bytes of shape tensors and, when an input is optional, the names of all inputs.

    Args:
        config: The model's complete config.
        buckets: What inputs are padded to before they are batched.
    """
    variable = {x.name for x in config.input if -1 in x.dims and not x.allow_ragged_batch}
    by_value = {x.name for x in config.input if x.is_shape_tensor}
    has_optional = any(x.optional for x in config.input)
    if not (variable or by_value or has_optional):
        return None
    shape_of = _own_shape if buckets is None else buckets.shape_of
    if buckets is None and len(config.input) == 1 and not by_value and not has_optional:
        return _only_shape

    def signature(request: InferenceRequest) -> object:
        parts = []
        for tensor in request.inputs:
            name = tensor.name
            if name in by_value:
                parts.append((name, tensor.shape, bytes(tensor.data)))
            elif name in variable:
                parts.append((name, shape_of(tensor)[1:], b""))
            elif has_optional:
                parts.append((name, (), b""))
        parts.sort()
        return tuple(parts)

    return signature


def _own_shape(tensor: Tensor) -> tuple[int, ...]:
    return tensor.shape


def _only_shape(request: InferenceRequest) -> object:
    inputs = request.inputs
    return inputs[0].shape[1:] if inputs else None
