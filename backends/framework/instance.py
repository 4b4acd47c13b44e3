# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""An instance of a model whose whole work is a function from arrays to arrays.

Triton: onnxruntime_backend/src/onnxruntime.cc ModelInstanceState::ProcessRequests; the other
backends of frameworks have the same
"""

import time
from abc import abstractmethod
from collections.abc import Sequence

from backends.api.backend import ExecuteBatch, ExecuteRequest, LoadContext, ModelInstance
from backends.api.errors import InternalError, TritonError
from backends.api.request import InferenceResponse
from backends.framework.inputs import Array, Feed, InputRules
from backends.framework.outputs import OutputRules
from backends.framework.signature import Signature

_NOTHING_KNOWN = Signature((), ())


class TensorInstance(ModelInstance):
    """Joins the requests of a batch, has the model run, and answers each request.

    A subclass has `run`, and whatever of `failure` and ``close`` it needs.

    Args:
        context: What is loaded; its config is complete.
        signature: What the model's file tells; used for which tensors are scalars.
        decodes_strings: Whether `run` gets ``str`` for elements of string inputs, else ``bytes``.
        writable_inputs: Whether `run` may write into what it gets, which then is a copy.
    """

    def __init__(
        self,
        context: LoadContext,
        signature: Signature = _NOTHING_KNOWN,
        *,
        decodes_strings: bool = False,
        writable_inputs: bool = False,
    ) -> None:
        config = context.config
        self._name = config.name
        self._version = str(context.version)
        self._batches = config.max_batch_size > 0
        self._inputs = InputRules(
            config,
            scalars={info.name for info in signature.inputs if info.is_scalar},
            decodes_strings=decodes_strings,
            writable=writable_inputs,
        )
        self._outputs = OutputRules(
            config, scalars={info.name for info in signature.outputs if info.is_scalar}
        )

    @abstractmethod
    def run(self, feed: Feed, outputs: list[str]) -> Sequence[Array]:
        """Run the model once.

        Args:
            feed: By name an array of the input's datatype, of shape ``[batch, *dims]`` when the
                model batches, ``[elements]`` when the input is ragged, else ``[*dims]``. Batch
                inputs, controls and states of sequences are among them. BYTES are object arrays,
                BF16 is ``ml_dtypes.bfloat16``. They may be read-only views of a request's memory,
                which goes with the request: nothing that is returned or kept may share it, unless
                the instance asked for ``writable_inputs``.
            outputs: Names of the outputs to compute, in the order of the config.

        Returns:
            An array for each of ``outputs``, which nothing writes to any more.

        Raises:
            TritonError: As it is, it fails the batch.
            Exception: Goes through `failure`.
        """

    def failure(self, error: Exception, where: str) -> TritonError:
        """Return what to answer when `run` has raised something else than a TritonError.

        Args:
            error: What it raised.
            where: The model, and its inputs with their shapes.
        """
        return InternalError(f"{error} ({where})")

    def execute(self, batch: ExecuteBatch) -> None:
        """Run the batch as one, or request by request when the model does not batch.

        A batch that fails is run again request by request, so that a request fails only itself.
        """
        if self._batches and len(batch.requests) > 1:
            try:
                self._run_together(batch)
            except TritonError:
                batch.compute_input_end_ns = 0
            else:
                return
        for request in batch.requests:
            try:
                self._run_alone(batch, request)
            except TritonError as error:
                request.fail(error)

    def _run_alone(self, batch: ExecuteBatch, execute_request: ExecuteRequest) -> None:
        request = execute_request.request
        (inputs,) = self._inputs.in_one_order([request])
        feed = self._inputs.alone(inputs)
        names = self._outputs.asked_for([request])
        arrays = self._run(batch, names, feed)
        if self._batches and inputs:
            self._outputs.check_batch(names, arrays, inputs[0].shape[0])
        outputs = self._outputs.alone(names, arrays, inputs)
        execute_request.respond(InferenceResponse(self._name, self._version, request.id, outputs))

    def _run_together(self, batch: ExecuteBatch) -> None:
        requests = [execute_request.request for execute_request in batch.requests]
        inputs = self._inputs.in_one_order(requests)
        total = sum(tensors[0].shape[0] for tensors in inputs)
        feed = self._inputs.together(inputs, total)
        names = self._outputs.asked_for(requests)
        arrays = self._run(batch, names, feed)
        self._outputs.check_batch(names, arrays, total)
        split = self._outputs.of_each(names, arrays, inputs, requests)
        for execute_request, outputs in zip(batch.requests, split, strict=True):
            execute_request.respond(
                InferenceResponse(self._name, self._version, execute_request.request.id, outputs)
            )

    def _run(self, batch: ExecuteBatch, names: list[str], feed: Feed) -> Sequence[Array]:
        # Of several runs for one batch, the first tells when inputs were there and the last when
        # outputs were.
        if not batch.compute_input_end_ns:
            batch.compute_input_end_ns = time.monotonic_ns()
        try:
            arrays = self.run(feed, names)
        except TritonError:
            raise
        except Exception as error:
            shapes = ", ".join(f"'{name}' {list(array.shape)}" for name, array in feed.items())
            raise self.failure(error, f"model '{self._name}', inputs {shapes}") from error
        batch.compute_output_start_ns = time.monotonic_ns()
        return arrays
