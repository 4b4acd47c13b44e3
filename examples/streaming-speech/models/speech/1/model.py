# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Recognizes a telephone's tones in chunks of audio: each new one is a partial response."""

import numpy as np
import triton_python_backend_utils as pb_utils

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "", "zero", "")
LOW, HIGH = (697, 770, 852, 941), (1209, 1336, 1477)
LOUD = 0.1
TIMES = np.arange(400) / 8000
WAVES = np.exp(-2j * np.pi * np.outer((*LOW, *HIGH), TIMES))


def value(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()[0]


def response(text, is_final):
    outputs = [
        pb_utils.Tensor("TEXT", np.array([[text.encode()]], np.object_)),
        pb_utils.Tensor("IS_FINAL", np.array([[is_final]])),
    ]
    return pb_utils.InferenceResponse(outputs)


def recognize(audio):
    """Return the word of 50 ms of audio at 8 kHz; empty for silence."""
    strengths = np.abs(WAVES @ audio) / len(audio)
    row, column = int(strengths[:4].argmax()), int(strengths[4:].argmax())
    is_loud = min(strengths[row], strengths[4 + column]) > LOUD
    return WORDS[3 * row + column] if is_loud else ""


class TritonPythonModel:
    def initialize(self, args):
        # What each sequence has said so far, silences included.
        self.heard = {}

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            # The place of a caller without a chunk in this batch is not ready.
            if value(request, "READY")[0]:
                self.listen(request, sender)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def listen(self, request, sender):
        sequence = int(value(request, "CORRID")[0])
        if value(request, "START")[0]:
            self.heard[sequence] = [""]
        heard, word = self.heard[sequence], recognize(value(request, "AUDIO"))
        if word != heard[-1]:
            heard.append(word)
            if word:
                sender.send(response(word, False))
        if value(request, "END")[0]:
            words = [each for each in self.heard.pop(sequence) if each]
            sender.send(response(" ".join(words), True))
