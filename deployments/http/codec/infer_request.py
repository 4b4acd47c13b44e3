# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The body of an HTTP infer request to `InferenceRequest`.

Theory of operation. There are four ways, each a fallback of the one before:

1. A client that sends the same kind of request again and again sends the same JSON header but for
   the id. A header whose inputs are all binary is decoded once into a `_Template`, found from then
   on by its bytes with the id cut out.
2. `msgspec` decodes the header into structs and refuses whatever Triton might complain about.
3. Where floats are written as NaN or Infinity, `bare_tokens` takes them out of the header first.
4. `json_parser` reads the header as RapidJSON would and `infer_header` walks it.

Tensors are views of the body in all of them. Shapes, sizes and names are checked against the model
by the core checks, not here.

Triton: server/src/http_server.cc ParseJsonTritonIO, ParseJsonTritonParams @e1db8a6
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from backends.api.datatypes import SIZE_BYTES
from backends.api.errors import InvalidArgumentError, TritonError
from backends.api.quoting import render_dims
from backends.api.request import (
    EMPTY,
    SEQUENCE_END,
    SEQUENCE_START,
    Extent,
    InferenceRequest,
    ParameterValue,
    Tensor,
    count_up_to,
)
from deployments.http.codec import input_limits, raw_input
from deployments.http.codec.bare_tokens import cut
from deployments.http.codec.infer_header import (
    INT64_MAX,
    Input,
    Output,
    OutputParameters,
    careful_id,
    careful_inputs,
    careful_outputs,
    careful_parameters,
    check_region_alone,
    check_sources,
    read_fast,
)
from deployments.http.codec.infer_spec import (
    DecodedInfer,
    OutputsSpec,
    RequestedModel,
    RequestedOutput,
)
from deployments.http.codec.json_data import tensor_bytes
from deployments.http.codec.json_parser import parse
from deployments.http.codec.json_text import find
from deployments.http.codec.request_parameters import correlation_id, custom_parameter, flag, number
from deployments.protocol.input_count import check_input_count

# Templates kept, and the largest header kept: a cluster serves some hundred kinds of requests, and
# a client that makes up new ones all the time must not cost memory.
_TEMPLATE_COUNT_LIMIT: Final = 1024
_TEMPLATE_HEADER_LIMIT_BYTES: Final = 4096

_RESERVED_PREFIX: Final = "triton_"

_LEADING_ID = re.compile(rb'\{\s*"id"\s*:\s*"([\x20\x21\x23-\x5b\x5d-\x7e]*)"\s*,(?=\s*")')


class _Template:
    """A decoded header whose tensors are all binary, without its id."""

    __slots__ = ("body_bytes", "outputs", "request", "tensors")

    def __init__(self, decoded: DecodedInfer) -> None:
        request = decoded.request
        self.outputs = decoded.outputs
        # The inputs stay out: they would keep the body of the first request alive.
        self.request = InferenceRequest(
            request.model_name,
            request.model_version,
            "",
            [],
            request.outputs,
            request.parameters,
            request.priority,
            request.timeout_us,
            request.correlation_id,
            request.flags,
        )
        self.tensors = [
            (each.name, each.datatype, each.shape, each.data.nbytes) for each in request.inputs
        ]
        self.body_bytes = sum(row[3] for row in self.tensors)


class InferDecoder:
    """Decodes the bodies of infer requests.

    Args:
        max_input_bytes: ``--http-max-input-size``.
    """

    __slots__ = ("_templates", "max_input_bytes")

    def __init__(self, max_input_bytes: int = input_limits.DEFAULT_MAX_INPUT_BYTES) -> None:
        self.max_input_bytes = max_input_bytes
        self._templates: dict[tuple[str, int, bytes], _Template] = {}

    def decode(
        self, body: memoryview, header_length: int | None, model: RequestedModel
    ) -> DecodedInfer:
        """Decode a body.

        Args:
            body: The whole body; tensors keep views of it.
            header_length: Bytes of JSON it begins with; None when all of it is; 0 when it is the
                data of the model's one input.
            model: The model asked.

        Raises:
            TritonError: Exactly as Triton answers; the message carries no request id unless Triton
                puts one.
        """
        size = body.nbytes if header_length is None else header_length
        if size == 0:
            return self._decode_raw(body, model)
        header = bytes(body[:size])
        if size > _TEMPLATE_HEADER_LIMIT_BYTES or size == body.nbytes:
            return self._decode(header, body, model)
        found = _LEADING_ID.match(header)
        if found:
            key = (model.name, model.version, header[found.end() :])
            request_id = found.group(1).decode("ascii")
        else:
            key = (model.name, model.version, header)
            request_id = ""
        template = self._templates.get(key)
        if template is not None and body.nbytes == size + template.body_bytes:
            return _fill(template, request_id, body, size)
        decoded = self._decode(header, body, model)
        if all(each.data is EMPTY or each.data.obj is body.obj for each in decoded.request.inputs):
            self._remember(key, decoded, request_id)
        return decoded

    def _remember(
        self, key: tuple[str, int, bytes], decoded: DecodedInfer, request_id: str
    ) -> None:
        request = decoded.request
        # A header without a leading id may hold one elsewhere; then it cannot be shared.
        if request.id != request_id or request.regions is not None:
            return
        if len(self._templates) >= _TEMPLATE_COUNT_LIMIT:
            del self._templates[next(iter(self._templates))]
        self._templates[key] = _Template(decoded)

    def _decode(self, header: bytes, body: memoryview, model: RequestedModel) -> DecodedInfer:
        if len(header) > self.max_input_bytes:
            raise InvalidArgumentError(
                input_limits.json_too_large(len(header), self.max_input_bytes)
            )
        assembly = _Assembly(model, body[len(header) :], self.max_input_bytes)
        try:
            fast = read_fast(header)
            check_input_count(len(fast.inputs), model.config, fast.id)
            return assembly.assemble(fast.id, fast.parameters, fast.inputs, fast.outputs)
        except (ValueError, RecursionError):
            # msgspec's errors and bad UTF-8 are ValueErrors: the careful way says what is wrong.
            pass
        cut_header = cut(header)
        if cut_header is not None:
            assembly = _Assembly(model, body[len(header) :], self.max_input_bytes)
            try:
                document = parse(cut_header.document)
                decoded = _assemble(assembly, document, cut_header.filled(careful_inputs(document)))
                if cut_header.is_used_up():
                    return decoded
            except (TritonError, ValueError, RecursionError):
                # Where in the whole document, or what else, is not known here.
                pass
        document = parse(header)
        assembly = _Assembly(model, body[len(header) :], self.max_input_bytes)
        return _assemble(assembly, document, careful_inputs(document))

    def _decode_raw(self, body: memoryview, model: RequestedModel) -> DecodedInfer:
        size = body.nbytes
        if size > self.max_input_bytes:
            raise InvalidArgumentError(input_limits.raw_too_large(size, self.max_input_bytes))
        tensor = raw_input.deduce(body, model)
        request = InferenceRequest(model.name, model.version, "", [tensor])
        return DecodedInfer(request, OutputsSpec(is_binary=True))


def _fill(template: _Template, request_id: str, body: memoryview, offset: int) -> DecodedInfer:
    inputs = []
    for name, datatype, shape, size in template.tensors:
        end = offset + size
        inputs.append(Tensor(name, datatype, shape, body[offset:end]))
        offset = end
    like = template.request
    return DecodedInfer(
        InferenceRequest(
            like.model_name,
            like.model_version,
            request_id,
            inputs,
            like.outputs,
            like.parameters,
            like.priority,
            like.timeout_us,
            like.correlation_id,
            like.flags,
        ),
        template.outputs,
    )


def _assemble(assembly: "_Assembly", document: object, inputs: Iterable[Input]) -> DecodedInfer:
    request_id = careful_id(document)
    given = find(document, "inputs")
    if isinstance(given, list):
        check_input_count(len(given), assembly.model.config, request_id)
    return assembly.assemble(
        request_id, careful_parameters(document), inputs, careful_outputs(document)
    )


class _Assembly:
    """Puts a request together from the parts of a header, in Triton's order of checks."""

    __slots__ = ("_is_binary", "_max_input_bytes", "_offset", "_request", "_tail", "model")

    def __init__(self, model: RequestedModel, tail: memoryview, max_input_bytes: int) -> None:
        self.model = model
        self._tail = tail
        self._offset = 0
        self._max_input_bytes = max_input_bytes
        self._is_binary = False
        self._request = InferenceRequest(model.name, model.version)

    def assemble(
        self,
        request_id: str,
        parameters: Mapping[str, object],
        inputs: Iterable[Input],
        outputs: Iterable[Output],
    ) -> DecodedInfer:
        request = self._request
        request.id = request_id
        if parameters:
            custom: dict[str, ParameterValue] = {}
            for key, value in parameters.items():
                self._parameter(key, value, custom)
            request.parameters = custom
        request.inputs = [self._tensor(each) for each in inputs]
        if self._offset < self._tail.nbytes:
            raise InvalidArgumentError(
                f"unexpected additional input data for model '{self.model.name}'"
            )
        by_name: dict[str, RequestedOutput] = {}
        names: list[str] = []
        for output in outputs:
            names.append(output.name)
            by_name[output.name] = _requested(output.parameters)
        request.outputs = names
        regions = {
            name: wanted.extent for name, wanted in by_name.items() if wanted.extent is not None
        }
        if regions or any(each.extent is not None for each in request.inputs):
            request.regions = regions
        return DecodedInfer(request, OutputsSpec(self._is_binary, by_name))

    def _parameter(self, key: str, value: object, custom: dict[str, ParameterValue]) -> None:
        request = self._request
        if key == "sequence_id":
            request.correlation_id = correlation_id(value)
        elif key == "sequence_start":
            request.flags |= SEQUENCE_START if flag(key, value) else 0
        elif key == "sequence_end":
            request.flags |= SEQUENCE_END if flag(key, value) else 0
        elif key == "priority":
            request.priority = number(key, value)
        elif key == "timeout":
            request.timeout_us = number(key, value)
        elif key == "binary_data_output":
            self._is_binary = flag(key, value)
        elif key.startswith(_RESERVED_PREFIX):
            raise InvalidArgumentError(
                "parameter keys starting with 'triton_' are reserved for Triton usage and should "
                "not be specified."
            )
        else:
            custom[key] = custom_parameter(key, value)

    def _tensor(self, given: Input) -> Tensor:
        parameters = given.parameters
        size = parameters.binary_data_size
        region = parameters.shared_memory_region
        has_data = given.data is not msgspec.UNSET or given.value is not msgspec.UNSET
        check_sources(
            has_data,
            size is not msgspec.UNSET,
            region is not msgspec.UNSET,
        )
        if size is not msgspec.UNSET:
            return Tensor(given.name, given.datatype, given.shape, self._take(given.name, size))
        if region is not msgspec.UNSET:
            extent = Extent(
                region, parameters.shared_memory_offset, parameters.shared_memory_byte_size
            )
            return Tensor(given.name, given.datatype, given.shape, EMPTY, extent)
        return Tensor(given.name, given.datatype, given.shape, self._json_bytes(given))

    def _take(self, name: str, size: int) -> memoryview:
        start = self._offset
        missing = size - (self._tail.nbytes - start)
        if missing > 0:
            raise InvalidArgumentError(
                f"unexpected size for input '{name}', expecting {missing} additional bytes for "
                f"model '{self.model.name}'"
            )
        self._offset = start + size
        return self._tail[start : start + size]

    def _json_bytes(self, given: Input) -> memoryview:
        count = self._element_count(given)
        if count == 0:
            return EMPTY
        data = given.data if given.data is not msgspec.UNSET else given.value
        return memoryview(tensor_bytes(given.name, given.datatype, count, data))

    def _element_count(self, given: Input) -> int:
        shape = given.shape
        if any(dim > INT64_MAX for dim in shape):
            raise InvalidArgumentError(
                f"invalid shape for input '{given.name}': shape {render_dims(shape)} contains one "
                f"or more invalid dimensions"
            )
        # To Triton a shape without dimensions has no elements, and the core checks refuse it.
        count = count_up_to(shape, INT64_MAX) if shape else 0
        if count is None:
            raise InvalidArgumentError(
                f"invalid shape for input '{given.name}': shape {render_dims(shape)} causes total "
                f"element count to exceed maximum size of {INT64_MAX}"
            )
        size = count * SIZE_BYTES.get(given.datatype, 0)
        if size > INT64_MAX:
            raise InvalidArgumentError(f"byte size overflow for input {given.name}")
        if size > self._max_input_bytes:
            raise InvalidArgumentError(
                f"JSON input '{given.name}' has a byte_size ({size} bytes) that exceeds the "
                f"maximum allowed value of {self._max_input_bytes} bytes. {input_limits.LIMIT_HINT}"
            )
        return count


def _requested(parameters: OutputParameters) -> RequestedOutput:
    region = parameters.shared_memory_region
    if region is not msgspec.UNSET:
        # Triton's own client sends "binary_data": false along with a region.
        check_region_alone(parameters.classification > 0, parameters.binary_data is True)
        extent = Extent(region, parameters.shared_memory_offset, parameters.shared_memory_byte_size)
        return RequestedOutput(extent=extent)
    is_binary = parameters.binary_data is True
    if is_binary and not parameters.classification:
        return _BINARY_OUTPUT
    return RequestedOutput(is_binary, parameters.classification)


_BINARY_OUTPUT: Final = RequestedOutput(is_binary=True)
