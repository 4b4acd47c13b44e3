# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What `manta serve` says of its start, in whole lines. Pure."""

import json
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from deployments.supervision.unix_sockets import is_unix

_WIDTH: Final = 72
_RULE: Final = "-" * _WIDTH
_ANY_ADDRESS: Final = {"0.0.0.0": "localhost", "[::]": "localhost", "::": "localhost"}  # noqa: S104 - as given
_READY: Final = "READY"
# Of whom zeros are sure to be answered: a model.py may expect anything.
_EXAMPLES_OF: Final = frozenset({"identity", "onnxruntime", "openvino", "tensorflow", "pytorch"})
_EXAMPLE_ELEMENTS: Final = 64
_ZEROS: Final = {
    **dict.fromkeys(("UINT8", "UINT16", "UINT32", "UINT64"), 0),
    **dict.fromkeys(("INT8", "INT16", "INT32", "INT64", "FP32", "FP64"), 0),
    "BOOL": False,
}


@dataclass(frozen=True, slots=True)
class Problems:
    """What keeps a server from starting, found before Ray is started.

    Attributes:
        general: Of options, files and ports, one text each.
        models: By model, what a load of it would meet, one line each.
        options: For ``manta check`` to find the same.
    """

    general: tuple[str, ...] = ()
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the text of the error: one line for one problem, else one paragraph each."""
        models = self.models
        if not models and len(self.general) == 1:
            return self.general[0]
        count = len(self.general) + len(models)
        # Triton's text, which scripts look for.
        found = "Internal - failed to load all models: " if models else ""
        paragraphs = [f"{found}{_counted(count, 'problem')}; nothing was started"]
        paragraphs += self.general
        paragraphs += ("\n  ".join((f"{name}:", *lines)) for name, lines in models.items())
        if models:
            paragraphs.append(
                f"'manta check {' '.join(self.options)}' says the same; --exit-on-error=false"
                " starts with the models that load."
            )
        return "\n\n".join(paragraphs)


def first_line(version: str, repositories: Iterable[tuple[str, int | None]]) -> str:
    """Return the first line.

    Args:
        version: Of Manta.
        repositories: Each with the number of its models; None where that takes time to tell.
    """
    shown = [
        place if count is None else f"{_counted(count, 'model')} in {place}"
        for place, count in repositories
    ]
    return ", ".join((f"Manta {version}", *shown, "starting"))


def phase_line(what: str, passed_s: float) -> str:
    """Return the line of a phase that has ended so many seconds after the start."""
    return f"{passed_s:5.1f} s  {what}"


@dataclass(frozen=True, slots=True)
class Ready:
    """What is said of a server that serves.

    Attributes:
        rows: The controller's status.
        addresses: Host and port, or ``unix:`` and a socket, by protocol.
        has_tls: Protocols that speak TLS.
        passed_s: How long it took.
    """

    rows: Sequence[Mapping[str, Any]]
    addresses: Mapping[str, str]
    has_tls: frozenset[str]
    passed_s: float

    def summary(self) -> str:
        """Return how many models are ready, on one line."""
        names = {row["name"] for row in self.rows}
        failed = {row["name"] for row in self.rows if row["state"] != _READY}
        count = _counted(len(names), "model")
        of = f"{len(names) - len(failed)} of {count}" if failed else count
        return f"{of} ready after {self.passed_s:.1f} s"

    def failures(self) -> list[str]:
        """Return a paragraph for each version that is not ready."""
        return [
            f"{row['name']} {row['version']}".rstrip() + f": {str(row['reason']).strip()}"
            for row in self.rows
            if row["state"] != _READY
        ]

    def urls(self) -> dict[str, str]:
        """Return where the ports are, by protocol."""
        found = {}
        ends = {"http": "", "openai": "/v1", "grpc": "", "metrics": "/metrics"}
        for name, end in ends.items():
            address = self.addresses.get(name, "")
            if is_unix(address):
                found[name] = address
            elif address:
                scheme = "" if name == "grpc" else f"{self._scheme(name)}://"
                found[name] = f"{scheme}{reachable(address)}{end}"
        return found

    def box(self) -> str:
        """Return what a person reads: models, URLs, how to stop."""
        names = {"http": "HTTP", "openai": "OpenAI", "grpc": "gRPC", "metrics": "Metrics"}
        urls = [f"  {names[name]:8} {url}" for name, url in self.urls().items()]
        blocks = [self.summary(), *self.failures(), "\n".join(urls)]
        blocks.append("Ctrl-C stops the server.")
        return "\n".join((_RULE, "\n\n".join(filter(None, blocks)), _RULE))

    def _scheme(self, protocol: str) -> str:
        has_tls = ("http" if protocol == "openai" else protocol) in self.has_tls
        return "https" if has_tls else "http"


def reachable(address: str) -> str:
    """Return a host and port that a client on this machine can use."""
    host, _, port = address.rpartition(":")
    host = _ANY_ADDRESS.get(host, host)
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


def started_lines(addresses: Mapping[str, str]) -> list[str]:
    """Return Triton's lines of what listens, for scripts that wait for them."""
    names = {"grpc": "GRPCInferenceService", "http": "HTTPService", "metrics": "Metrics Service"}
    return [
        f"Started {name} at {addresses[protocol]}"
        for protocol, name in names.items()
        if protocol in addresses
    ]


def example_body(config: Mapping[str, Any]) -> str | None:
    """Return the body of a request that a model is sure to answer; None where nothing is.

    Args:
        config: The model's complete config, as the HTTP endpoint tells it.
    """
    is_plain = not (config.get("sequence_batching") or config.get("ensemble_scheduling"))
    is_plain = is_plain and not (config.get("model_transaction_policy") or {}).get("decoupled")
    if config.get("backend") not in _EXAMPLES_OF or not is_plain:
        return None
    batch = [1] if int(config.get("max_batch_size", 0)) else []
    inputs = []
    for each in config.get("input", ()):
        datatype = str(each["data_type"]).removeprefix("TYPE_")
        shape = [*batch, *map(int, each["dims"])]
        count = math.prod(shape)
        if datatype not in _ZEROS or not 0 < count <= _EXAMPLE_ELEMENTS or min(shape) < 1:
            return None
        data = [_ZEROS[datatype]] * count
        inputs.append({"name": each["name"], "datatype": datatype, "shape": shape, "data": data})
    return json.dumps({"inputs": inputs}, separators=(",", ":")) if inputs else None


def curl(address: str, path: str, body: str = "") -> str:
    """Return the command line that asks for a path, or sends a body to it.

    Args:
        address: Host and port, or ``unix:`` and a socket.
        path: Quoted, as in a URL.
        body: Sent if there is one.
    """
    words = ["curl"]
    place = "localhost"
    if is_unix(address):
        socket = address.partition(":")[2]
        kind = "abstract-unix-socket" if socket.startswith("@") else "unix-socket"
        words += [f"--{kind}", shlex.quote(socket.removeprefix("@"))]
    else:
        place = reachable(address)
        # Brackets are a range to curl otherwise.
        words += ["-g"] if "[" in place else []
    words.append(shlex.quote(f"http://{place}{path}"))
    quoted = body.replace("'", "'\\''")
    return " ".join([*words, f"-d '{quoted}'"] if body else words)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
