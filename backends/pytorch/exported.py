# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Programs that `torch.export` has made.

Triton cannot serve them. A config may name their tensors as in an AOTInductor package, as in the
model, or as in TorchScript.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.export.passes import move_to_device_pass
from torch.utils import _pytree as pytree

from backends.api.backend import LoadContext
from backends.api.errors import InvalidArgumentError, UnsupportedError
from backends.framework.signature import Signature, TensorInfo
from backends.framework.validation import Rules, check_input_count, validate
from backends.pytorch.call_spec import (
    argument_ways,
    names_by_place,
    result_ways,
    top_level_keys,
)
from backends.pytorch.datatypes import DATATYPE, SUPPORTED
from backends.pytorch.naming import in_order, input_places, output_places
from backends.pytorch.program import Program, Results, device_of, load_failure
from backends.pytorch.script import check_datatypes
from backends.pytorch.settings import Settings
from backends.pytorch.shape_guards import Bounds, ShapeGuards
from backends.pytorch.weights import share_weights

_RULES = Rules(SUPPORTED - {"BYTES"})
_LIFTED = frozenset({InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR})
_OPEN = Bounds()
# Instead of the name of a dimension.
COMPUTED = ""


@dataclass(frozen=True, slots=True)
class _Argument:
    """One argument: a tensor, or a constant that the export has fixed."""

    info: TensorInfo
    dims: tuple[int | str, ...] = ()
    constant: object = None

    @property
    def is_tensor(self) -> bool:
        return self.info.is_known


@dataclass(frozen=True, slots=True)
class Interface:
    """What an exported program takes and gives.

    Attributes:
        signature: Its tensors, by names of the model where it has some.
        argument_names: What a config may call each tensor that it takes.
        result_names: What it may call each result.
        shapes: Dimensions of each tensor that it takes; those that vary have names, and
            COMPUTED is one that follows from others.
        bounds: What a dimension of a name may be.
        flat_arguments: What is passed, where it is no tensor; None elsewhere.
    """

    signature: Signature
    argument_names: Mapping[str, int]
    result_names: Mapping[str, int]
    shapes: Sequence[Sequence[int | str]]
    bounds: Mapping[str, Bounds]
    flat_arguments: Sequence[_Argument]


def read_program(context: LoadContext, path: str) -> Any:
    """Read an exported program.

    Raises:
        InternalError: PyTorch cannot read it.
    """
    try:
        return torch.export.load(path)
    except Exception as error:
        raise load_failure(context, error) from error


def load_exported(context: LoadContext, path: str, settings: Settings) -> Program:
    """Load an exported program onto the instance's device.

    Raises:
        InternalError: PyTorch cannot load it, or a datatype is one that it lacks.
        InvalidArgumentError: Config and program contradict each other.
        UnavailableError: Its GPU cannot be used.
        UnsupportedError: It takes or gives what is no tensor.
    """
    config = context.config
    device = device_of(context)
    program = read_program(context, path)
    if device.type != "cpu":
        program = move_to_device_pass(program, device)
    if settings.shares_weights:
        share_weights(context, path, _tensors(program))
    interface = read_interface(program, config.name)
    check_datatypes(config, takes_strings=False)
    check_input_count(config, interface.signature, exact=True)
    inputs = input_places(config, interface.argument_names, len(interface.shapes), names_all=True)
    outputs = output_places(config, interface.result_names)
    signature = _renamed(interface.signature, inputs, outputs)
    validate(config, signature, _RULES)
    names = tuple(in_order(inputs))
    if settings.compile_options is None and _is_plain(program, interface):
        guards = ShapeGuards(config.name, names, interface.shapes, interface.bounds)
        call = _direct(program, interface, guards)
        return Program(call, names, outputs, device, signature, _may_write(program))
    call = _by_module(program, interface, config.name, settings.compile_options)
    return Program(call, names, outputs, device, signature, mutates=True)


def read_interface(program: Any, model: str) -> Interface:
    """Read what a `torch.export.ExportedProgram` takes and gives.

    Args:
        program: The program.
        model: Name of the model, for errors.

    Raises:
        UnsupportedError: A tensor has a datatype that V2 lacks.
    """
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    names = _argument_names(program)
    arguments = [
        _argument(spec.arg, name, values, model)
        for spec, name in zip(_user_inputs(program), names, strict=True)
    ]
    aliases = names_by_place(argument_ways(program.call_spec.in_spec), "INPUT")
    aliases |= {spec.arg.name: place for place, spec in enumerate(_user_inputs(program))}
    aliases |= {name: place for place, name in enumerate(names)}
    fed = [place for place, argument in enumerate(arguments) if argument.is_tensor]
    results = _result_infos(program, values, model)
    shapes = [arguments[place].dims for place in fed]
    bounds = _bounds(program)
    return Interface(
        Signature(
            tuple(arguments[place].info for place in fed), results, _most_items(shapes, bounds)
        ),
        {name: fed.index(place) for name, place in aliases.items() if place in fed},
        names_by_place(result_ways(program.call_spec.out_spec), "OUTPUT")
        | top_level_keys(program.call_spec.out_spec),
        shapes,
        bounds,
        arguments,
    )


def _user_inputs(program: Any) -> list[Any]:
    specs = program.graph_signature.input_specs
    return [spec for spec in specs if spec.kind is InputKind.USER_INPUT]


def _user_outputs(program: Any) -> list[Any]:
    specs = program.graph_signature.output_specs
    return [spec for spec in specs if spec.kind is OutputKind.USER_OUTPUT]


def _argument_names(program: Any) -> list[str]:
    """Return the name of each argument of forward, or of what is in it."""
    signature = program.module_call_graph[0].signature
    of_forward = (signature and signature.forward_arg_names) or []
    names = []
    for way, spec in zip(
        argument_ways(program.call_spec.in_spec), _user_inputs(program), strict=True
    ):
        root, _, rest = way.removesuffix("]").partition("[")
        if "[" in rest:
            names.append(spec.arg.name)
        elif root == "KWARGS":
            names.append(rest)
        else:
            place = int(rest)
            names.append(of_forward[place] if place < len(of_forward) else spec.arg.name)
    return names


def _argument(arg: Any, name: str, values: Mapping[str, Any], model: str) -> _Argument:
    if isinstance(arg, ConstantArgument):
        return _Argument(TensorInfo(name), constant=arg.value)
    value = values[arg.name]
    if not isinstance(value, torch.Tensor):
        raise UnsupportedError(
            f"argument '{name}' of model '{model}' varies and is no tensor; export it with a "
            "tensor, or with a fixed value"
        )
    return _Argument(_info(name, value, model), tuple(map(_dimension, value.shape)))


def _result_infos(program: Any, values: Mapping[str, Any], model: str) -> tuple[TensorInfo, ...]:
    keys = {place: key for key, place in top_level_keys(program.call_spec.out_spec).items()}
    infos = []
    for place, spec in enumerate(_user_outputs(program)):
        name = keys.get(place, f"OUTPUT__{place}")
        value = values.get(spec.arg.name)
        is_tensor = isinstance(value, torch.Tensor)
        infos.append(_info(name, value, model) if is_tensor else TensorInfo(name))
    return tuple(infos)


def _info(name: str, value: Any, model: str) -> TensorInfo:
    datatype = DATATYPE.get(value.dtype)
    if datatype is None:
        raise UnsupportedError(
            f"tensor '{name}' of model '{model}' is of {value.dtype}, which V2 lacks; supported "
            f"are {', '.join(map(str, DATATYPE))}"
        )
    shape = tuple(dim if isinstance(dim, int) else -1 for dim in value.shape)
    return TensorInfo(name, datatype, shape)


def _dimension(dim: Any) -> int | str:
    if isinstance(dim, int):
        return dim
    return str(dim.node.expr) if dim.node.expr.is_Symbol else COMPUTED


def _bounds(program: Any) -> dict[str, Bounds]:
    return {
        str(symbol): Bounds(_finite(constraint.lower), _finite(constraint.upper))
        for symbol, constraint in program.range_constraints.items()
    }


def _finite(bound: Any) -> int | None:
    return int(bound) if getattr(bound, "is_Integer", isinstance(bound, int)) else None


def _most_items(shapes: Sequence[Sequence[int | str]], bounds: Mapping[str, Bounds]) -> int | None:
    first = {dims[0] if dims else None for dims in shapes}
    if len(first) != 1:
        return None
    name = first.pop()
    return bounds.get(name, _OPEN).most if isinstance(name, str) else None


def _renamed(
    signature: Signature, inputs: Mapping[str, int], outputs: Mapping[str, int]
) -> Signature:
    """Return the signature under the names of a config."""
    made = signature.outputs
    return Signature(
        tuple(_named(name, signature.inputs[place]) for name, place in inputs.items()),
        tuple(
            _named(name, made[place]) if place < len(made) else TensorInfo(name)
            for name, place in outputs.items()
        ),
        signature.most_items,
    )


def _named(name: str, info: TensorInfo) -> TensorInfo:
    return TensorInfo(name, info.datatype, info.shape)


def _tensors(program: Any) -> dict[str, torch.Tensor]:
    named = {**program.state_dict, **program.constants}
    return {name: value for name, value in named.items() if isinstance(value, torch.Tensor)}


def _is_plain(program: Any, interface: Interface) -> bool:
    """Whether all that a program gives is results, and no dimension is computed from others."""
    signature = program.graph_signature
    is_lifted = [spec.kind in _LIFTED for spec in signature.input_specs]
    return (
        all(spec.kind in {*_LIFTED, InputKind.USER_INPUT} for spec in signature.input_specs)
        and all(spec.kind is OutputKind.USER_OUTPUT for spec in signature.output_specs)
        # Weights come first.
        and is_lifted == sorted(is_lifted, reverse=True)
        and COMPUTED not in {dim for dims in interface.shapes for dim in dims}
    )


def _may_write(program: Any) -> bool:
    """Whether an operation of a program writes to a tensor that is there already."""
    schemas = [getattr(node.target, "_schema", None) for node in program.graph.nodes]
    return any(schema is not None and schema.is_mutable for schema in schemas)


def _direct(program: Any, interface: Interface, guards: ShapeGuards) -> Callable[..., Results]:
    """Return a call of the program's graph.

    That is what ``program.module()`` calls in the end, at a fraction of the cost.
    """
    tensors = _tensors(program)
    specs = program.graph_signature.input_specs
    lifted = [tensors[spec.target] for spec in specs if spec.kind in _LIFTED]
    run = program.graph_module.forward
    fill = _filler(interface.flat_arguments)

    def call(*tensors: torch.Tensor) -> Results:
        guards.check(tensors)
        made: Results = run(*lifted, *fill(tensors))
        return made

    return call


def _filler(
    arguments: Sequence[_Argument],
) -> Callable[[Sequence[torch.Tensor]], Sequence[object]]:
    """Return what puts constants between tensors."""
    if all(argument.is_tensor for argument in arguments):
        return lambda tensors: tensors

    def fill(tensors: Sequence[torch.Tensor]) -> Sequence[object]:
        given = iter(tensors)
        return [next(given) if argument.is_tensor else argument.constant for argument in arguments]

    return fill


def _by_module(
    program: Any, interface: Interface, model: str, options: Mapping[str, Any] | None
) -> Callable[..., Results]:
    module = program.module()
    if options is not None:
        module = torch.compile(module, **options)
    fill = _filler(interface.flat_arguments)
    spec = program.call_spec.in_spec

    def call(*tensors: torch.Tensor) -> Results:
        arguments, keywords = pytree.tree_unflatten(list(fill(tensors)), spec)
        try:
            made = module(*arguments, **keywords)
        except AssertionError as error:
            if not str(error).startswith("Guard failed: "):
                raise
            raise InvalidArgumentError(
                f"{error}: inputs of model '{model}' have shapes that its exported program was not "
                "made for"
            ) from error
        leaves: list[Any] = pytree.tree_leaves(made)
        return leaves

    return call
