# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Two callers speak at the same time, in chunks of 50 ms over one stream of gRPC."""

import queue
import sys

import numpy as np
import tritonclient.grpc as triton

SPOKEN = {1: ((697, 1336), (852, 1209), (852, 1209)), 2: ((770, 1477), (941, 1336))}
TIMES = np.arange(400) / 8000


def chunks(tones):
    """Yield FP32[1, 400] of audio: 100 ms of each pair of tones, 50 ms of silence behind it."""
    for pair in tones:
        sound = sum(0.5 * np.sin(2 * np.pi * frequency * TIMES) for frequency in pair)
        for audio in (sound, sound, np.zeros(400)):
            yield audio.astype(np.float32)[None]


answers = queue.Queue()
partial, final = {1: [], 2: []}, {}
with triton.InferenceServerClient(sys.argv[1]) as client:
    client.start_stream(lambda result, error: answers.put(error or result))
    for caller, tones in SPOKEN.items():
        audio = list(chunks(tones))
        for number, chunk in enumerate(audio):
            tensor = triton.InferInput("AUDIO", [1, 400], "FP32")
            tensor.set_data_from_numpy(chunk)
            client.async_stream_infer(
                "speech",
                [tensor],
                request_id=str(caller),
                sequence_id=caller,
                sequence_start=number == 0,
                sequence_end=number == len(audio) - 1,
            )
    while len(final) < len(SPOKEN):
        answer = answers.get(timeout=60)
        if isinstance(answer, Exception):
            raise answer
        caller, text = int(answer.get_response().id), answer.as_numpy("TEXT")[0, 0].decode()
        if answer.as_numpy("IS_FINAL")[0, 0]:
            final[caller] = text
        else:
            partial[caller].append(text)
for caller in sorted(final):
    print(f"caller {caller}: {' | '.join(partial[caller])} => {final[caller]}")
