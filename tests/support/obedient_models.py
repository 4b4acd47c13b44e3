# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Models that run the code they are sent, or what a file holds when they start and end."""

OBEDIENT = """
import ctypes, os, pathlib, re, resource, signal, sys, time
import numpy as np
import triton_python_backend_utils as pb_utils


def text(value):
    return pb_utils.InferenceResponse(
        [pb_utils.Tensor("SAYS", np.array([str(value)], dtype=np.object_))])


def call(model, code):
    found = pb_utils.InferenceRequest(
        model_name=model, requested_output_names=["SAYS"],
        inputs=[pb_utils.Tensor("CODE", np.array([code], dtype=np.object_))]).exec()
    return found.error().message() if found.has_error() else "answered"


class TritonPythonModel:
    def initialize(self, args):
        # The model's own folder, which a server's repository may only have a link to.
        self.folder = pathlib.Path(args["model_repository"]).resolve().parent.parent
        self.name = args["model_name"]
        self.run("at_start")

    def run(self, when):
        path = self.folder / f"{self.name}.{when}"
        if path.exists():
            exec(path.read_text(), {**globals(), "folder": self.folder})

    def execute(self, requests):
        responses = []
        for request in requests:
            code = pb_utils.get_input_tensor_by_name(request, "CODE").as_numpy()[0].decode()
            scope = {**globals(), "folder": self.folder, "request": request, "said": "done"}
            exec(code, scope)
            responses.append(text(scope["said"]))
        return responses if self.name != "streams" else None

    def finalize(self):
        self.run("at_end")
"""
CONFIG = """
name: "{name}" backend: "python"
input {{ name: "CODE" data_type: TYPE_STRING dims: [ 1 ] }}
output {{ name: "SAYS" data_type: TYPE_STRING dims: [ 1 ] }}
"""
MODELS = ("obeys", "streams", "calls", "waits", "loops", "starts")
