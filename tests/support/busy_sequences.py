# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Busy clients whose requests are sequences, each of which the model counts.

The numbers of a client's requests tell the sequence and the place in it. A sequence with a request
that failed is given up; the client goes on with the next one.
"""

import json
from typing import Final

import numpy as np
from tritonclient.grpc import service_pb2

from tests.support.busy_clients import BusyClients

LENGTH: Final = 32


def _parameters(number: int) -> dict[str, int | bool]:
    sequence, place = divmod(number, LENGTH)
    return {
        "sequence_id": sequence + 1,
        "sequence_start": place == 0,
        "sequence_end": place == LENGTH - 1,
    }


class BusySequences(BusyClients):
    """Closed-loop load of sequences to a model of `tests.faults.models.write_sequence_model`."""

    def _first(self, number: int) -> int:
        return super()._first(number) - 1

    def _skip(self, number: int) -> int:
        return (number // LENGTH + 1) * LENGTH - 1

    def _http_body(self, number: int) -> str:
        return json.dumps(
            {
                "id": str(number),
                "parameters": _parameters(number),
                "inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1, 1], "data": [0]}],
            }
        )

    def _expected(self, number: int) -> list[int]:
        return [number % LENGTH + 1]

    def _grpc_request(self, number: int) -> service_pb2.ModelInferRequest:
        request = service_pb2.ModelInferRequest(model_name=self._model, id=str(number))
        for name, value in _parameters(number).items():
            field = "bool_param" if isinstance(value, bool) else "int64_param"
            setattr(request.parameters[name], field, value)
        request.inputs.add(name="INPUT0", datatype="INT32", shape=[1, 1])
        request.raw_input_contents.append(np.zeros(1, np.int32).tobytes())
        return request
