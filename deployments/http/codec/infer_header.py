# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The JSON header of an infer request, read fast or carefully.

`read_fast` refuses whatever Triton might complain about. The ``careful`` functions walk the header
in Triton's order, so that the first mistake Triton sees is the one that is reported; inputs and
outputs are generators because Triton checks each one fully before it looks at the next.

Triton: server/src/http_server.cc ParseJsonTritonIO @e1db8a6
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import msgspec

from backends.api.errors import InternalError, InvalidArgumentError
from backends.api.request import ParameterValue
from deployments.http.codec.json_text import (
    as_array,
    as_bool,
    as_string,
    as_uint,
    find,
    labelled,
    member,
)

INT64_MAX: Final = 2**63 - 1
_Uint63 = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]


class InputParameters(msgspec.Struct, frozen=True):
    """Parameters of an input."""

    binary_data_size: _Uint63 | msgspec.UnsetType = msgspec.UNSET
    shared_memory_region: str | msgspec.UnsetType = msgspec.UNSET
    shared_memory_offset: _Uint63 = 0
    shared_memory_byte_size: _Uint63 = 0


class Input(msgspec.Struct):
    """One input; ``value`` holds data that were read carefully, ``data`` undecoded ones."""

    name: str
    shape: tuple[_Uint63, ...]
    datatype: str
    parameters: InputParameters = InputParameters()
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    value: object = msgspec.UNSET


class OutputParameters(msgspec.Struct, frozen=True):
    """Parameters of a requested output."""

    binary_data: bool | msgspec.UnsetType = msgspec.UNSET
    classification: _Uint63 = 0
    shared_memory_region: str | msgspec.UnsetType = msgspec.UNSET
    shared_memory_offset: _Uint63 = 0
    shared_memory_byte_size: _Uint63 = 0


class Output(msgspec.Struct):
    """One requested output."""

    name: str
    parameters: OutputParameters = OutputParameters()


class Header(msgspec.Struct):
    """The whole header."""

    inputs: list[Input]
    id: str = ""
    parameters: dict[str, ParameterValue] = {}
    outputs: list[Output] = []


_DECODER: Final = msgspec.json.Decoder(Header)


def read_fast(header: bytes) -> Header:
    """Decode a header that is as it should be.

    Raises:
        ValueError, RecursionError: It is not, or its decoder cannot tell.
    """
    # RapidJSON takes the first of two equal keys, msgspec the last.
    if header.count(b'"inputs"') != 1:
        raise ValueError("not exactly one 'inputs'")
    return _DECODER.decode(header)


def check_sources(has_data: bool, has_binary: bool, has_region: bool) -> None:
    """Refuse an input that names not exactly one source of its data.

    Raises:
        InvalidArgumentError: As Triton words it.
    """
    if has_data + has_binary + has_region == 1:
        return
    named = (
        (has_data, " 'data'"),
        (has_binary, " 'binary_data_size'"),
        (has_region, " 'shared_memory_region'"),
    )
    given = "".join(text for is_set, text in named if is_set)
    raise InvalidArgumentError(
        "Input must set only one of the following fields: 'data', 'binary_data_size' in "
        "'parameters', 'shared_memory_region' in 'parameters'. But "
        + (f"set{given}" if given else "no field is set")
    )


def check_region_alone(has_classes: bool, has_binary: bool) -> None:
    """Refuse what cannot go with an output in shared memory.

    Raises:
        InvalidArgumentError: As Triton words it.
    """
    for is_set, other in ((has_classes, "classification"), (has_binary, "binary_data")):
        if is_set:
            raise InvalidArgumentError(
                f"Output can't set both 'shared_memory_region' and '{other}'"
            )


def careful_id(document: object) -> str:
    """Return the request id, empty when there is none.

    Raises:
        InternalError: It is no string.
    """
    value = find(document, "id")
    if value is msgspec.UNSET:
        return ""
    with labelled("Unable to parse 'id'"):
        return as_string(value)


def careful_parameters(document: object) -> Mapping[str, object]:
    """Return the request parameters, unchecked.

    Raises:
        InternalError: They are no object.
    """
    value = find(document, "parameters")
    if value is msgspec.UNSET:
        return {}
    if not isinstance(value, dict):
        raise InternalError("failed to get request params.: attempt to get members for non-object")
    return value


def careful_inputs(document: object) -> Iterator[Input]:
    """Yield the inputs.

    Raises:
        TritonError: The first mistake.
    """
    with labelled("Unable to parse 'inputs'"):
        inputs = as_array(member(document, "inputs"))
    for given in inputs:
        parameters = find(given, "parameters")
        data = find(given, "data")
        check_sources(
            data is not msgspec.UNSET,
            find(parameters, "binary_data_size") is not msgspec.UNSET,
            find(parameters, "shared_memory_region") is not msgspec.UNSET,
        )
        yield Input(
            name=_careful_string(given, "name"),
            datatype=_careful_string(given, "datatype"),
            shape=_careful_shape(given),
            parameters=_careful_input_parameters(parameters),
            value=data,
        )


def _careful_input_parameters(parameters: object) -> InputParameters:
    size = _careful_uint(parameters, "binary_data_size")
    region, offset, region_bytes = _careful_region(parameters)
    return InputParameters(size, region, offset, region_bytes)


def careful_outputs(document: object) -> Iterator[Output]:
    """Yield the requested outputs.

    Raises:
        TritonError: The first mistake.
    """
    value = find(document, "outputs")
    if value is msgspec.UNSET:
        return
    with labelled("Unable to parse 'outputs'"):
        outputs = as_array(value)
    for given in outputs:
        name = _careful_string(given, "name")
        parameters = find(given, "parameters")
        count = find(parameters, "classification")
        with labelled("Unable to set 'classification'"):
            class_count = 0 if count is msgspec.UNSET else as_uint(count)
        region = _careful_region(parameters)
        binary = find(parameters, "binary_data")
        is_binary: bool | msgspec.UnsetType = msgspec.UNSET
        if binary is not msgspec.UNSET:
            with labelled("Unable to parse 'binary_data'"):
                is_binary = as_bool(binary)
        yield Output(name, OutputParameters(is_binary, class_count, *region))


def _careful_string(given: object, key: str) -> str:
    with labelled(f"Unable to parse '{key}'"):
        return as_string(member(given, key))


def _careful_shape(given: object) -> tuple[int, ...]:
    with labelled("Unable to parse 'shape'"):
        return tuple(as_uint(dim) for dim in as_array(member(given, "shape")))


def _careful_uint(parameters: object, key: str) -> int | msgspec.UnsetType:
    value = find(parameters, key)
    if value is msgspec.UNSET:
        return msgspec.UNSET
    with labelled(f"Unable to parse '{key}'"):
        return as_uint(value)


def _careful_region(parameters: object) -> tuple[str | msgspec.UnsetType, int, int]:
    region = find(parameters, "shared_memory_region")
    name: str | msgspec.UnsetType = msgspec.UNSET
    if region is not msgspec.UNSET:
        with labelled("Unable to parse 'shared_memory_region'"):
            name = as_string(region)
    # Looked at even where they have no effect, which is without a region.
    offset = _careful_uint(parameters, "shared_memory_offset")
    size = _careful_uint(parameters, "shared_memory_byte_size")
    return name, offset or 0, size or 0
