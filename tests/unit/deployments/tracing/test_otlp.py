# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Spans for an OTLP receiver."""

from deployments.settings.server_settings import TraceSettings
from deployments.tracing.otlp import OtlpWriter
from deployments.tracing.record import TracedModel
from deployments.tracing.sampling import Sampler
from deployments.tracing.tracer import Trace
from tests.support.otlp_receiver import OtlpReceiver


async def test_what_waits_is_exported_when_the_writer_is_closed() -> None:
    with OtlpReceiver() as receiver:
        url = f"http://127.0.0.1:{receiver.server_port}/v1/traces"
        writer = OtlpWriter([("url", url), ("bsp_schedule_delay", "3600000")])
        sampler = Sampler(TraceSettings(("TIMESTAMPS",), rate=1))
        front = [("HTTP_RECV_START", 1)]
        model = TracedModel(1, "m", 1, activities=[("REQUEST_START", 1), ("REQUEST_END", 2)])
        writer.write(Trace(sampler, 0, True, False, [model], front))
        assert receiver.received.empty()
        await writer.close()
        path, message = receiver.received.get(timeout=10)
    assert path == "/v1/traces"
    (group,) = message.resource_spans
    names = [span.name for scope in group.scope_spans for span in scope.spans]
    assert names[-1] == "InferRequest"
