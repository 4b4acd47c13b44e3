# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a config agrees with what its model's file tells.

What a signature leaves open is not checked. The pieces are public, for frameworks that check in
another order.

Triton: backend/src/backend_common.cc CheckAllowedModelInput, CheckAllowedModelOutput;
onnxruntime_backend/src/onnxruntime.cc ModelInstanceState::ValidateInputs, ValidateOutputs;
onnxruntime_backend/src/onnxruntime_utils.cc CompareDimsSupported; tensorflow_backend has the same
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from backends.api.datatypes import DATATYPES
from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.model_config import ModelConfig, ModelInput, ModelOutput
from backends.framework.signature import Signature, TensorInfo, fed_by_scheduler

_Entry = ModelInput | ModelOutput


@dataclass(frozen=True, slots=True)
class Rules:
    """What a framework asks of a config.

    Attributes:
        datatypes: V2 names of what its tensors may hold.
        needs_every_input: Whether each of the model's inputs must be fed; else a config may leave
            some out.
        allows_optional: Whether inputs may be optional when the model batches.
        names_first: Whether an unknown input is told before how many there are.
    """

    datatypes: Collection[str]
    needs_every_input: bool = True
    allows_optional: bool = False
    names_first: bool = False


def validate(config: ModelConfig, signature: Signature, rules: Rules) -> None:
    """Check that a complete config describes the model.

    Raises:
        InvalidArgumentError: Number, names, datatypes or shapes of tensors differ.
        InternalError: A datatype in the config is one the framework lacks.
    """
    if rules.names_first:
        for given in config.input:
            find(given.name, signature.inputs, "input")
    check_input_count(config, signature, exact=rules.needs_every_input)
    for given in config.input:
        info = find(given.name, signature.inputs, "input")
        check_datatype(config, given, info, "input", rules.datatypes)
        if given.optional and config.max_batch_size != 0 and not rules.allows_optional:
            raise InvalidArgumentError(
                f"unable to load model '{config.name}', optional input '{given.name}' is not "
                "supported for models that support batching"
            )
        if given.allow_ragged_batch:
            check_ragged(config, given, info)
        else:
            check_dims(config, given, info, exact=False)
    split_otherwise = {name for output in config.batch_output for name in output.target_names}
    for output in config.output:
        info = find(output.name, signature.outputs, "output")
        check_datatype(config, output, info, "output", rules.datatypes)
        if output.name not in split_otherwise:
            check_dims(config, output, info, exact=True)


def check_input_count(config: ModelConfig, signature: Signature, *, exact: bool) -> None:
    """Check that a config feeds each of the model's inputs; unless ``exact``, no more than those.

    Raises:
        InvalidArgumentError: It does not.
    """
    fed = len(config.input) + len(fed_by_scheduler(config))
    provided = len(signature.inputs)
    if fed == provided or (fed < provided and not exact):
        return
    raise InvalidArgumentError(
        f"unable to load model '{config.name}', configuration expects {fed} inputs, model "
        f"provides {'' if exact else 'at most '}{provided}"
    )


def find(name: str, infos: Iterable[TensorInfo], direction: str) -> TensorInfo:
    """Return the model's tensor of a name that the config has.

    Args:
        name: The name.
        infos: The model's inputs, or its outputs.
        direction: ``input`` or ``output``, for the message.

    Raises:
        InvalidArgumentError: There is none.
    """
    by_name = {info.name: info for info in infos}
    if name not in by_name:
        raise InvalidArgumentError(
            f"unexpected inference {direction} '{name}', allowed {direction}s are: "
            f"{', '.join(sorted(by_name))}"
        )
    return by_name[name]


def check_datatype(
    config: ModelConfig,
    entry: _Entry,
    info: TensorInfo,
    direction: str,
    supported: Collection[str],
) -> None:
    """Check that the framework has a datatype, and that it is the model's.

    Raises:
        InternalError: The framework lacks it.
        InvalidArgumentError: It is not the model's.
    """
    configured = config_name(entry.datatype)
    if entry.datatype not in supported:
        raise InternalError(
            f"unsupported datatype {configured} for {direction} '{entry.name}' for model "
            f"'{config.name}'"
        )
    if info.datatype is not None and entry.datatype != info.datatype:
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', configuration expects datatype {configured} "
            f"for {direction} '{entry.name}', model provides TYPE_{info.datatype}"
        )


def config_name(datatype: str) -> str:
    """Return the name of a V2 datatype in config.pbtxt; ``TYPE_INVALID`` when it is empty."""
    return DATATYPES[datatype].config_name if datatype else "TYPE_INVALID"


def check_ragged(config: ModelConfig, given: ModelInput, info: TensorInfo) -> None:
    """Check that the model takes a ragged input flat.

    Raises:
        InvalidArgumentError: It does not.
    """
    if info.shape is not None and info.shape != (-1,):
        raise InvalidArgumentError(
            f"unable to load model '{config.name}', configuration expects model provides input "
            f"with shape [-1]  for ragged input '{given.name}', model provides "
            f"{shape_text(info.shape)}"
        )


def check_dims(config: ModelConfig, entry: _Entry, info: TensorInfo, *, exact: bool) -> None:
    """Check the dims of an input or output; unless ``exact``, what varies may be fixed in configs.

    Raises:
        InvalidArgumentError: They are not the model's.
    """
    if info.shape is None:
        return
    dims = entry.dims if entry.reshape is None else entry.reshape
    where = f"model '{config.name}', tensor '{entry.name}': "
    if info.is_scalar:
        if any(dim != 1 for dim in dims):
            raise InvalidArgumentError(
                f"unable to load model '{config.name}', scalar tensor '{entry.name}', should only "
                "provide 1 in the model configuration when the model doesn't support batching. "
                f"Model configuration provided: {shape_text(dims)}."
            )
        return
    batched = config.max_batch_size > 0
    if batched and info.shape[0] != -1:
        raise InvalidArgumentError(
            f"{where}for the model to support batching the shape should have at least 1 dimension "
            "and the first dimension must be -1; but shape expected by the model is "
            f"{shape_text(info.shape)}"
        )
    configured = (-1, *dims) if batched else dims
    if not shapes_agree(info.shape, configured, exact=exact):
        explained = (
            "an initial batch dimension because max_batch_size > 0 followed by the explicit "
            f"tensor shape, making complete shape {shape_text(configured)}"
            if batched
            else f"shape {shape_text(configured)}"
        )
        raise InvalidArgumentError(
            f"{where}the model expects {len(info.shape)} dimensions (shape "
            f"{shape_text(info.shape)}) but the model configuration specifies {len(configured)} "
            f"dimensions ({explained})"
        )


def shapes_agree(model: Sequence[int], configured: Sequence[int], *, exact: bool) -> bool:
    """Whether a configured shape is the model's; unless ``exact``, the model's -1 takes any."""
    return len(model) == len(configured) and all(
        given == expected or (expected == -1 and not exact)
        for expected, given in zip(model, configured, strict=True)
    )


def shape_text(shape: Sequence[int]) -> str:
    """Write a shape as Triton does: ``[-1,3]``."""
    return f"[{','.join(map(str, shape))}]"
