# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Stock clients for `scripts/lane_servers.py`: each asks again as soon as it is answered.

Usage: lane_servers_load.py --seconds 60 small:8 large:2 sequence:2 stream:2 near:2

A kind of request and how many clients send it. Prints what each kind has met, as JSON.
"""

import argparse
import json
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any, Final

import numpy as np
import tritonclient.grpc as triton

URL: Final = "127.0.0.1:8001"
# Longer than any request may take: one that takes so long hangs.
PATIENCE_S: Final = 150.0
STEPS: Final = 20
LARGE: Final = np.arange(150_528, dtype=np.float32)
LEFT: Final = np.arange(16, dtype=np.int32).reshape(1, 16)
RIGHT: Final = np.full((1, 16), 3, np.int32)
# A client that was refused waits so long.
_PAUSE_S: Final = 0.05
_sequence_ids = count(1)


class WrongAnswerError(Exception):
    """An answer is not what it should be."""


def _tensor(name: str, value: np.ndarray[Any, Any]) -> triton.InferInput:
    tensor = triton.InferInput(name, list(value.shape), "FP32" if value.dtype == "f4" else "INT32")
    tensor.set_data_from_numpy(value)
    return tensor


def _expect(found: np.ndarray[Any, Any] | None, expected: np.ndarray[Any, Any]) -> None:
    if found is None or not np.array_equal(found, expected):
        raise WrongAnswerError


def add_sub(model: str) -> Callable[[triton.InferenceServerClient], None]:
    """Return what asks for a sum and a difference."""
    inputs = [_tensor("INPUT0", LEFT), _tensor("INPUT1", RIGHT)]

    def ask(client: triton.InferenceServerClient) -> None:
        result = client.infer(model, inputs, client_timeout=PATIENCE_S)
        _expect(result.as_numpy("OUTPUT0"), LEFT + RIGHT)
        _expect(result.as_numpy("OUTPUT1"), LEFT - RIGHT)

    return ask


def large(client: triton.InferenceServerClient) -> None:
    """Have 602 KB echoed."""
    result = client.infer("far_identity", [_tensor("INPUT0", LARGE)], client_timeout=PATIENCE_S)
    _expect(result.as_numpy("OUTPUT0"), LARGE)


def sequence(client: triton.InferenceServerClient) -> None:
    """Have numbers added up."""
    sequence_id = next(_sequence_ids)
    for step in range(1, STEPS + 1):
        result = client.infer(
            "far_sums",
            [_tensor("INPUT0", np.array([[step]], np.int32))],
            sequence_id=sequence_id,
            sequence_start=step == 1,
            sequence_end=step == STEPS,
            client_timeout=PATIENCE_S,
        )
        _expect(result.as_numpy("OUTPUT0"), np.array([[step * (step + 1) // 2]], np.int32))


def stream(client: triton.InferenceServerClient) -> None:
    """Have numbers counted, with a response for each."""
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    try:
        client.async_stream_infer(
            "far_count",
            [_tensor("INPUT0", np.array([STEPS], np.int32))],
            enable_empty_final_response=True,
        )
        for number in count():
            result, error = answers.get(timeout=PATIENCE_S)
            if error is not None:
                raise error
            if result.get_response().parameters["triton_final_response"].bool_param:
                break
            _expect(result.as_numpy("OUTPUT0"), np.array([number], np.int32))
        if number != STEPS:
            raise WrongAnswerError
    finally:
        client.stop_stream()
    if not answers.empty():
        raise WrongAnswerError


KINDS: Final[dict[str, Callable[[triton.InferenceServerClient], None]]] = {
    "small": add_sub("far_add_sub"),
    "near": add_sub("near_add_sub"),
    "large": large,
    "sequence": sequence,
    "stream": stream,
}


@dataclass(slots=True)
class Seen:
    """What the clients of one kind have met.

    Attributes:
        durations_s: Of what went well.
        failures: When each began, how long it took and what was said.
        ended_s: When each good one ended.
    """

    durations_s: list[float] = field(default_factory=list)
    failures: list[tuple[float, float, str]] = field(default_factory=list)
    ended_s: list[float] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """Return what is printed."""
        ordered = sorted(self.durations_s) or [0.0]
        texts = Counter(text for _, _, text in self.failures)
        return {
            "ok": len(self.durations_s),
            "p50_s": round(ordered[len(ordered) // 2], 3),
            "p99_s": round(ordered[int(len(ordered) * 0.99)], 3),
            "longest_s": round(ordered[-1], 2),
            "failed": len(self.failures),
            "longest_failure_s": round(max((s for _, s, _ in self.failures), default=0.0), 2),
            "errors": dict(texts.most_common(5)),
            "failures": [(round(at, 1), round(took, 1)) for at, took, _ in self.failures][:64],
            "gap": _longest_gap(self.ended_s),
        }


def _longest_gap(times: list[float]) -> tuple[float, float]:
    """Return when the longest time without a good answer began and ended."""
    ordered = sorted(times)
    gaps = pairwise(ordered)
    begin, end = max(gaps, key=lambda gap: gap[1] - gap[0], default=(0.0, 0.0))
    return round(begin, 2), round(end, 2)


def _ask_again_and_again(kind: str, seen: Seen, begin_s: float, seconds: float) -> None:
    client = triton.InferenceServerClient(URL)
    while (sent_s := time.monotonic() - begin_s) < seconds:
        try:
            KINDS[kind](client)
        except Exception as error:  # whatever it is belongs into the report
            took_s = time.monotonic() - begin_s - sent_s
            seen.failures.append((sent_s, took_s, f"{type(error).__name__}: {error}"[:300]))
            time.sleep(_PAUSE_S)
        else:
            ended_s = time.monotonic() - begin_s
            seen.durations_s.append(ended_s - sent_s)
            seen.ended_s.append(ended_s)


def main() -> None:
    """Send requests."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("kinds", nargs="+")
    given = parser.parse_args()
    seen: dict[str, Seen] = {}
    begin_s = time.monotonic()
    threads = []
    for each in given.kinds:
        kind, _, number = each.partition(":")
        seen[kind] = Seen()
        threads += [
            threading.Thread(
                target=_ask_again_and_again, args=(kind, seen[kind], begin_s, given.seconds)
            )
            for _ in range(int(number or 1))
        ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    json.dump({kind: each.report() for kind, each in seen.items()}, sys.stdout)


if __name__ == "__main__":
    main()
