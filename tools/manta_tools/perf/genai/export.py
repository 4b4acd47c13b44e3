# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Every request with its answer as JSON, in perf_analyzer's schema: what metrics are made of.

Triton: perf_analyzer/src/profile_data_exporter.cc ConvertToJson @263c5f6
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from manta_tools.perf.genai.answers import Reply, Transcript, read_whole
from manta_tools.perf.genai.dataset import Turn
from manta_tools.perf.genai.endpoints import Body, Endpoint, TensorNames
from manta_tools.perf.genai.metrics import Exchange
from manta_tools.perf.profiler import Measurement
from manta_tools.perf.records import Request

_EVENT: Final = "data: "

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has brought.

    Attributes:
        rows: Requests that were answered, in perf_analyzer's schema.
        failures: How many requests failed.
        first_error: Why the first of them did.
        cut: How many answers were not kept.
    """

    rows: Sequence[Row]
    failures: int = 0
    first_error: str = ""
    cut: int = 0


def reported(measured: Measurement) -> list[Request]:
    """Return the records of the requests that ended in the windows that agree."""
    start_ns = measured.passes[0].window.start_ns
    end_ns = measured.passes[-1].window.end_ns
    return [each for each in measured.requests if start_ns <= each.end_ns <= end_ns]


def outcome(
    requests: Iterable[Request],
    endpoint: Endpoint,
    turns: Sequence[Turn],
    bodies: Sequence[Body],
    names: TensorNames,
    *,
    epoch_ns: int,
    is_streaming: bool,
) -> Outcome:
    """Return the rows of requests.

    Args:
        requests: Records of those that ended.
        endpoint: Where they were sent.
        turns: The entries of the data.
        bodies: Their bodies.
        names: Of tensors.
        epoch_ns: When the run's clock was at 0, since 1970.
        is_streaming: Whether answers came as events.
    """
    rows: list[Row] = []
    errors: list[str] = []
    cut = 0
    read = endpoint.reader(names) if endpoint.service_kind == "triton" else None
    for request in requests:
        kept = request.contents
        assert isinstance(kept, Transcript)  # noqa: S101 - all requests of the mode have one
        if request.error:
            errors.append(request.error)
        elif kept.is_cut:
            cut += 1
        else:
            index = request.data[1]
            inputs = _tensors(bodies[index]) if read else _payload(request, turns[index])
            outputs = (
                [{names.text_output: read(raw).text} for raw in kept.parts]
                if read
                else [{"response": _shown(raw, is_streaming)} for raw in kept.parts]
            )
            rows.append(_row(request, inputs, outputs, epoch_ns))
    return Outcome(rows, len(errors), errors[0] if errors else "", cut)


def document(
    rows: Sequence[Row],
    *,
    mode: tuple[str, float],
    service_kind: str,
    endpoint: str,
    boundaries_ns: Sequence[int],
    release: str,
) -> bytes:
    """Return the file.

    Args:
        rows: The requests.
        mode: concurrency or request_rate, and how many.
        service_kind: openai or triton.
        endpoint: Its path.
        boundaries_ns: First start and all ends of windows, since 1970.
        release: Of Manta.
    """
    name, value = mode
    experiment = {
        "experiment": {"mode": name, "value": value},
        "requests": rows,
        "window_boundaries": list(boundaries_ns),
    }
    return orjson.dumps(
        {
            "experiments": [experiment],
            "version": release,
            "service_kind": service_kind,
            "endpoint": endpoint,
        }
    )


def exchange(row: Mapping[str, Any], endpoint: Endpoint, names: TensorNames) -> Exchange:
    """Return what metrics need of a row.

    Raises:
        TritonError: A response is none of the endpoint's.
    """
    inputs = row["request_inputs"]
    replies: list[Reply]
    if endpoint.service_kind == "triton":
        replies = [Reply(each.get(names.text_output, "")) for each in row["response_outputs"]]
        usage = None
        prompt = str(inputs[names.text_input])
    else:
        raws = [_raw(each["response"]) for each in row["response_outputs"]]
        replies, usage = read_whole(raws, endpoint.reader(names))
        prompt = endpoint.prompt(orjson.loads(inputs["payload"]), names)
    return Exchange(
        row.get("intended_timestamp", row["timestamp"]),
        tuple(
            (came_ns, reply.thought + reply.text)
            for came_ns, reply in zip(row["response_timestamps"], replies, strict=True)
        ),
        prompt,
        usage,
        str(inputs.get("session_id", "")),
    )


def _row(request: Request, inputs: Row, outputs: list[Row], epoch_ns: int) -> Row:
    row: Row = {"timestamp": epoch_ns + request.start_ns}
    if request.intended_ns != request.start_ns:
        row["intended_timestamp"] = epoch_ns + request.intended_ns
    row["request_inputs"] = inputs
    row["response_timestamps"] = [epoch_ns + instant for instant in request.responses_ns]
    row["response_outputs"] = outputs
    return row


def _payload(request: Request, turn: Turn) -> Row:
    """Return what was sent, which of a session has its history."""
    body = request.payload.wire.partition(b"\r\n\r\n")[2]
    inputs: Row = {"payload": body.decode()}
    if turn.session_id:
        inputs |= {"session_id": turn.session_id, "delay": turn.delay_ms}
    return inputs


def _tensors(body: Body) -> Row:
    return {name: values[0] if len(values) == 1 else values for name, values in body.items()}


def _shown(raw: bytes, is_event: bool) -> str:
    text = raw.decode(errors="replace")
    return f"{_EVENT}{text}\n\n" if is_event else text


def _raw(response: str) -> bytes:
    return response.removeprefix(_EVENT).strip().encode()
