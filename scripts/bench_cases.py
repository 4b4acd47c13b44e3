# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""The cases of the comparison with Triton, and their bars."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from bench_load import Kind, compressed, explicit_floats, explicit_integers
from bench_models import REPEAT_COUNT

IDENTITY_ELEMENTS: Final = 150_528  # 602 KB of FP32, one 3x224x224 image
FLOATS: Final = 16_384
LARGE: Final = 1 << 20  # 4 MB of FP32
ROWS: Final = 32
CONNECTIONS: Final = 1000
PROTOCOLS: Final = {"http": "HTTP", "grpc": "gRPC"}

# What is compared. A bar is a share of the reference: of the throughput the least, else the most.
THROUGHPUT, P50, P99, CPU = "infer/s", "p50", "p99", "CPU"
Bars = dict[str, float]


@dataclass(frozen=True, slots=True)
class Case:
    """One load.

    Attributes:
        name: In the table.
        model: On the reference.
        protocol: ``http`` or ``grpc``.
        concurrency: Requests in flight, over HTTP each on a connection of its own.
        options: Further ones for perf_analyzer; ``{work}`` is the folder of what is generated.
        bars: By what is compared, shares of the reference's.
        setup: Key of ``SETUPS``.
        on_manta: The model there, where it is not the reference's.
        request: Makes the request that our own clients send to a model, for what perf_analyzer
            cannot send.
        environment: Of perf_analyzer.
    """

    name: str
    model: str
    protocol: str
    concurrency: int
    options: tuple[str, ...] = ()
    bars: Bars = field(default_factory=dict)
    setup: str = "plain"
    on_manta: str = ""
    request: Callable[[str], Kind] | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def model_on(self, server: str) -> str:
        """Return the model to ask for on the server of that name."""
        return self.on_manta if self.on_manta and server == "manta" else self.model


@dataclass(frozen=True, slots=True)
class Setup:
    """Two servers to compare.

    Attributes:
        reference: Key of ``bench_servers.SERVERS``, as is Manta.
        reference_tls: Protocol that is over TLS on it.
        manta_tls: Protocol that is over TLS on Manta.
    """

    reference: str = "triton"
    reference_tls: str = ""
    manta_tls: str = ""


SETUPS: Final = {
    "plain": Setup(),
    "grpcs": Setup(reference_tls="grpc", manta_tls="grpc"),
    # Triton has no HTTPS: beside Manta's own plain HTTP.
    "https": Setup(reference="manta", manta_tls="http"),
}


@dataclass(frozen=True, slots=True)
class Family:
    """Cases that differ by protocol and concurrency.

    Attributes:
        name: Before the protocol and the concurrency.
        model: As in `Case`.
        bars: By concurrency.
        protocols: Keys of ``PROTOCOLS``.
        options: As in `Case`.
        setup: As in `Case`.
        on_manta: As in `Case`.
        request: As in `Case`.
        environment: As in `Case`.
    """

    name: str
    model: str
    bars: dict[int, Bars]
    protocols: tuple[str, ...] = tuple(PROTOCOLS)
    options: tuple[str, ...] = ()
    setup: str = "plain"
    on_manta: str = ""
    request: Callable[[str], Kind] | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def cases(self) -> list[Case]:
        """Return them."""
        return [
            Case(
                f"{self.name} {PROTOCOLS[protocol]} c={concurrency}",
                self.model,
                protocol,
                concurrency,
                self.options,
                bars,
                self.setup,
                self.on_manta,
                self.request,
                self.environment,
            )
            for protocol in self.protocols
            for concurrency, bars in self.bars.items()
        ]


HTTP, GRPC = ("http",), ("grpc",)
EVEN: Final[Bars] = {THROUGHPUT: 1.0}
# At 1 and at 16 clients.
ALL_EVEN: Final = {1: EVEN, 16: EVEN}
ADD_SUB_BARS: Final = {1: {P50: 0.6}, 16: {THROUGHPUT: 2.0, CPU: 0.35}, 64: EVEN}
ONNX_BARS: Final = {1: {P50: 0.7}, 16: {THROUGHPUT: 2.0, CPU: 0.4}}
IDENTITY_BARS: Final = {c: {THROUGHPUT: 1.2, CPU: 0.8} for c in (1, 16)}
IN_MEMORY_BARS: Final = {c: {THROUGHPUT: 1.3, CPU: 0.8} for c in (1, 16)}
ENSEMBLE_BARS: Final = {1: {P50: 0.8}, 16: {THROUGHPUT: 1.6}}

JSON: Final = ("--input-tensor-format=json", "--output-tensor-format=json")


# Without it six clients share a connection of gRPC.
ALONE: Final = {"TRITON_CLIENT_GRPC_CHANNEL_MAX_SHARE_COUNT": "1"}


def _shape(elements: int) -> tuple[str, str]:
    return "--shape", f"INPUT0:{elements}"


IMAGE: Final = _shape(IDENTITY_ELEMENTS)
IN_MEMORY: Final = (
    *IMAGE,
    "--shared-memory=system",
    f"--output-shared-memory-size={IDENTITY_ELEMENTS * 4}",
)
# What random floats are not: compressible.
RAMP: Final = (*_shape(FLOATS), "--input-data={work}/ramp.json")


def _strings(count: int) -> tuple[str, ...]:
    return (*_shape(count), "--string-length=16")


FAMILIES: Final = (
    Family("add_sub", "add_sub", ADD_SUB_BARS),
    Family("add_sub, ONNX in Manta,", "add_sub", ONNX_BARS, on_manta="add_sub_onnx"),
    Family("identity 602 KB", "identity", IDENTITY_BARS, options=IMAGE),
    Family(
        "identity 602 KB, ONNX in Manta,",
        "identity",
        IDENTITY_BARS,
        options=IMAGE,
        on_manta="identity_onnx",
    ),
    Family("identity 602 KB, system shared memory,", "identity", IN_MEMORY_BARS, options=IN_MEMORY),
    Family(
        "identity 602 KB, ONNX in Manta, system shared memory,",
        "identity",
        IN_MEMORY_BARS,
        options=IN_MEMORY,
        on_manta="identity_onnx",
    ),
    Family("ensemble of 3", "chain", ENSEMBLE_BARS),
    Family("ensemble of 3, 602 KB,", "large_chain", ALL_EVEN, GRPC, IMAGE),
    Family("add_sub in JSON", "add_sub", ALL_EVEN, HTTP, JSON),
    Family("1,000 strings in JSON", "json_strings", ALL_EVEN, HTTP, (*_strings(1000), *JSON)),
    Family("5,000 strings", "strings", ALL_EVEN, GRPC, _strings(5000)),
    Family("100 strings", "strings", {16: EVEN}, HTTP, _strings(100)),
    Family("16k floats in JSON", "json_floats", ALL_EVEN, HTTP, (*_shape(FLOATS), *JSON)),
    Family("identity 4 MB", "identity", ALL_EVEN, options=_shape(LARGE)),
    Family("cache hits", "cached", {16: EVEN}),
    Family(f"batches of {ROWS}", "add_sub", {16: EVEN}, options=("-b", str(ROWS))),
    Family(
        "sequences of 20 over streams",
        "sequence",
        ALL_EVEN,
        GRPC,
        ("--streaming", "--sequence-length=20", "--sequence-length-variation=0"),
    ),
    # infer/s are requests of that many responses each.
    Family(
        f"decoupled, {REPEAT_COUNT} responses, stream",
        "repeat",
        ALL_EVEN,
        GRPC,
        ("--streaming",),
    ),
    Family("add_sub, explicit contents,", "add_sub", ALL_EVEN, GRPC, request=explicit_integers),
    Family(
        "16k floats, explicit contents,",
        "identity",
        ALL_EVEN,
        GRPC,
        request=partial(explicit_floats, count=FLOATS),
    ),
    *(
        Family(
            f"16k floats, {coding} both ways,",
            "identity",
            ALL_EVEN,
            HTTP,
            request=partial(compressed, coding=coding, count=FLOATS),
        )
        for coding in ("gzip", "deflate")
    ),
    *(
        Family(
            f"16k floats, {coding} requests,",
            "identity",
            ALL_EVEN,
            GRPC,
            (*RAMP, f"--grpc-compression-algorithm={coding}"),
        )
        for coding in ("gzip", "deflate")
    ),
    Family(
        f"add_sub, {CONNECTIONS:,} connections,",
        "add_sub",
        {CONNECTIONS: EVEN},
        environment=ALONE,
    ),
    Family("add_sub, TLS,", "add_sub", ALL_EVEN, GRPC, setup="grpcs"),
    Family("identity 602 KB, TLS,", "identity", {16: EVEN}, GRPC, IMAGE, setup="grpcs"),
    Family("add_sub, HTTPS beside HTTP,", "add_sub", {1: {}, 16: {}}, HTTP, setup="https"),
    Family("identity 602 KB, HTTPS beside HTTP,", "identity", {16: {}}, HTTP, IMAGE, setup="https"),
)
# Where the reference can run them, too; no bars.
ONNX_ON_BOTH: Final = (
    Family("add_sub, ONNX in both,", "add_sub_onnx", {1: {}, 16: {}}),
    Family("identity 602 KB, ONNX in both,", "identity_onnx", {1: {}, 16: {}}, options=IMAGE),
)


def all_cases(*, onnx_on_both: bool) -> list[Case]:
    """Return all cases."""
    families = FAMILIES + (ONNX_ON_BOTH if onnx_on_both else ())
    return [case for family in families for case in family.cases()]
