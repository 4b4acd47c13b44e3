# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Two vectors in, their sum and their difference out."""

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The model, as the Python backend asks for it."""

    def execute(self, requests):
        """Answer each request with the sum and the difference, FP32 [batch, 4] each."""
        return [pb_utils.InferenceResponse(self._outputs(request)) for request in requests]

    @staticmethod
    def _outputs(request):
        left, right = (
            pb_utils.get_input_tensor_by_name(request, name).as_numpy()
            for name in ("INPUT0", "INPUT1")
        )
        return [pb_utils.Tensor("OUTPUT0", left + right), pb_utils.Tensor("OUTPUT1", left - right)]
