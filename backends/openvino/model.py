# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a model and makes it what the config says it is.

Triton: openvino_backend/src/openvino.cc ModelState::ReadModel, ValidateConfigureModel,
ConfigureOpenvinoCore
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import openvino
from openvino import PartialShape
from openvino.preprocess import PrePostProcessor

from backends.api.backend import LoadContext
from backends.api.errors import InternalError, InvalidArgumentError, UnavailableError
from backends.api.model_config import ModelInput, ModelOutput
from backends.openvino.cache import cache_properties
from backends.openvino.failure import doing
from backends.openvino.inference import Run, run_of
from backends.openvino.properties import CPU, device_of, is_yes, properties
from backends.openvino.signature import element_of, port_name

MODEL_FILE = "model.xml"
_EXTENSION = "CPU_EXTENSION_PATH"
_RESHAPE = "RESHAPE_IO_LAYERS"


@cache
def _core() -> Any:
    """Return this process's OpenVINO, which is never freed.

    A CPU plugin gives the thread that makes it a stack for signals, and when it is freed out of
    turn the thread is left with one that is gone: the next signal ends the process.
    """
    return openvino.Core()


class Reader:
    """Reads and compiles one model.

    Args:
        context: What is loaded.
        path: The model's file or directory.

    Raises:
        UnavailableError: There is no such file.
        InternalError: OpenVINO cannot read it, or not load an extension for it.
    """

    def __init__(self, context: LoadContext, path: str) -> None:
        self._context = context
        self.path = path
        self._where = f"model '{context.config.name}', '{path}'"
        if not Path(path).exists():
            raise UnavailableError(f"unable to find '{path}' for model '{context.config.name}'")
        self._core = _core()
        extension = context.config.parameters.get(_EXTENSION, "")
        if extension:
            with doing("loading custom CPU extensions", f"{self._where}, '{extension}'"):
                self._core.add_extension(extension)
        with doing("reading model", self._where):
            self.model: Any = self._core.read_model(path)

    def configure(self) -> None:
        """Give the model the datatypes and shapes of the config, as far as it lets itself.

        Datatypes of the config are what clients send: they are converted, as in Triton. A batch
        dimension that is fixed is made dynamic, unless that fixes or breaks an output.

        Raises:
            InternalError: It cannot have what the config asks for.
            InvalidArgumentError: The dims to reshape it to are none.
        """
        self._convert()
        if is_yes(self._context, _RESHAPE):
            self._reshape()
        if self._context.config.max_batch_size > 0:
            _free_batch(self.model)

    def compiled(self) -> tuple[Any, Run]:
        """Return the model compiled for the instance's device, and what runs its requests.

        Raises:
            UnavailableError: The device is not there.
            InvalidArgumentError: A parameter or the instance's kind is wrong.
            InternalError: OpenVINO cannot compile the model.
        """
        device = device_of(self._context)
        wanted = properties(self._context, device)
        with cache_properties(self.path, device) as cache:
            try:
                with doing("loading model", f"{self._where}, device {device}"):
                    compiled = self._core.compile_model(self.model, device, wanted | cache)
            except InternalError as error:
                self._refuse_missing(device, error)
                raise
        return compiled, run_of(device, wanted)

    def _refuse_missing(self, device: str, error: InternalError) -> None:
        own = device.partition(":")[0].partition(".")[0]
        available = self._core.available_devices
        plain = {each.partition(".")[0] for each in available}
        if device == CPU or ":" in device or own in plain:
            return
        raise UnavailableError(
            f"model '{self._context.config.name}' has parameter TARGET_DEVICE '{device}', but this "
            f"node has the devices {', '.join(available)}: {error.message}"
        ) from error

    def _convert(self) -> None:
        config = self._context.config
        inputs = _differing(config.input, self.model.inputs)
        outputs = _differing(config.output, self.model.outputs)
        if not inputs and not outputs:
            return
        names = [port.get_names() for port in self.model.outputs]
        with doing("converting datatypes", self._where):
            steps = PrePostProcessor(self.model)
            for index, element in inputs:
                steps.input(index).tensor().set_element_type(element)
            for index, element in outputs:
                steps.output(index).tensor().set_element_type(element)
            self.model = steps.build()
            # The conversion that is put behind an output takes its place, without its names.
            for port, own in zip(self.model.outputs, names, strict=True):
                port.set_names(own)

    def _reshape(self) -> None:
        config = self._context.config
        batch = [-1] if config.max_batch_size > 0 else []
        shapes = {}
        for given in config.input:
            dims = given.dims if given.reshape is None else given.reshape
            if any(dim == 0 or dim < -1 for dim in dims):
                raise InvalidArgumentError(
                    "openvino backend does not support dimensions values other than `-1` or "
                    f"positive integers: input '{given.name}' of model '{config.name}' has "
                    f"{list(dims)}"
                )
            shapes[given.name] = PartialShape([*batch, *dims])
        known = {port_name(port, shapes): port for port in self.model.inputs}
        with doing("reshaping inputs", self._where):
            self.model.reshape(
                {known[name]: shape for name, shape in shapes.items() if name in known}
            )


def _differing(
    entries: Sequence[ModelInput | ModelOutput], ports: Sequence[Any]
) -> list[tuple[int, Any]]:
    """Return index and element type of each tensor that the config wants as another type."""
    wanted = {entry.name: element_of(entry.datatype) for entry in entries}
    found = []
    for index, port in enumerate(ports):
        element = wanted.get(port_name(port, wanted))
        if element is not None and element != port.get_element_type().get_type_name():
            found.append((index, getattr(openvino.Type, element)))
    return found


def _first_dims(ports: Sequence[Any]) -> list[Any] | None:
    """Return the first dimension of each tensor; None where one has or tells none."""
    shapes = [port.get_partial_shape() for port in ports]
    if any(shape.rank.is_dynamic or shape.rank.get_length() == 0 for shape in shapes):
        return None
    return [shape[0] for shape in shapes]


def _free_batch(model: Any) -> None:
    before = _first_dims([*model.inputs, *model.outputs])
    if before is None or all(dim.is_dynamic for dim in before):
        return
    fixed = {port: PartialShape(port.get_partial_shape()) for port in model.inputs}
    free = {port: PartialShape([-1, *list(shape)[1:]]) for port, shape in fixed.items()}
    try:
        model.reshape(free)
        after = _first_dims(model.outputs)
        if after is not None and all(dim.is_dynamic for dim in after):
            return
    except RuntimeError:
        # An operation needs the fixed size.
        pass
    model.reshape(fixed)


def fixed_batch(model: Any) -> int:
    """Return the batch size that all tensors of a model have; 0 when it is dynamic or not one."""
    dims = _first_dims([*model.inputs, *model.outputs])
    if not dims or any(dim.is_dynamic for dim in dims):
        return 0
    sizes = {int(dim.get_length()) for dim in dims}
    return sizes.pop() if len(sizes) == 1 else 0
