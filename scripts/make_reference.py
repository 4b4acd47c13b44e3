#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/reference/: flags, config keys, metrics, errors and APIs, from the code's tables.

Usage: make_reference.py
"""

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from backends.api.errors import ERROR_BY_CODE, GRPC_STATUS, HTTP_STATUS
from backends.config import admission, autoscaling, placement
from backends.config.parameter_family import FamilyParameter
from backends.config.protocol_messages import CONFIG, messages_of
from cluster.options.parsing import ENVIRONMENT_PREFIX
from cluster.options.table import ALIASES, DEFAULTS, FLAGS, PENDING
from deployments.access.contracts import ROLE_OF_CATEGORY
from deployments.access.counters import AccessCounters
from deployments.grpc.kserve.service import PATHS, STREAM_PATHS, category_of
from deployments.http.openapi.operations import OPERATIONS
from deployments.metrics.access import render_access
from deployments.metrics.admission import AdmissionMetrics, render_admission
from deployments.metrics.autoscaling import ScaledVersion, render_autoscaling
from deployments.metrics.cold_starts import ColdStarts, render_cold_starts
from deployments.metrics.counters import Snapshot
from deployments.metrics.holders import render_holders
from deployments.metrics.host import GpuMetrics, HostMetrics
from deployments.metrics.memory import render_memory
from deployments.metrics.model_files import render_model_cache, render_repositories
from deployments.metrics.page import ModelMetrics, render
from deployments.metrics.rollouts import render_rollouts
from deployments.metrics.tenants import render_tenants
from deployments.model_files.counters import CacheStatistics
from deployments.response_cache.local import LocalCache
from deployments.settings.metrics_settings import MetricsSettings
from deployments.supervision.memory_budget import MemoryBudget
from deployments.tenants.account import Counts

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "reference"
_MADE: Final = "Made by `scripts/make_reference.py` from {}; do not edit."
_GRPC_NAMES: Final[Mapping[int, str]] = {
    1: "CANCELLED",
    2: "UNKNOWN",
    3: "INVALID_ARGUMENT",
    5: "NOT_FOUND",
    6: "ALREADY_EXISTS",
    7: "PERMISSION_DENIED",
    8: "RESOURCE_EXHAUSTED",
    12: "UNIMPLEMENTED",
    13: "INTERNAL",
    14: "UNAVAILABLE",
    16: "UNAUTHENTICATED",
}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [" | ".join(head), "|".join("---" for _ in head)]
    lines += [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    return [f"| {line} |" if "---" not in line else f"|{line}|" for line in lines]


def _page(title: str, source: str, lines: Iterable[str]) -> str:
    return "\n".join([f"# {title}", "", _MADE.format(source), "", *lines, ""])


def flags() -> str:
    """Return the page of the flags of `manta serve`."""
    lines = [
        "A flag is given as `--http-port 8000` or `--http-port=8000`, as an environment variable "
        f"(`{ENVIRONMENT_PREFIX}HTTP_PORT`; values of a repeatable flag with `;` between), or as a "
        "key of the YAML file that `--config` names (`http-port: 8000`). A flag takes precedence "
        "over a variable, a variable over the file. `manta serve --print-options` prints each "
        "value and its source. "
        + "; ".join(f"`--{alias}` is `--{name}`" for alias, name in ALIASES.items())
        + ".",
    ]
    group = ""
    for name, flag in FLAGS.items():
        if flag.group != group:
            group = flag.group
            lines += ["", f"## {group}", "", *_table(("flag", "default", "meaning"), ())]
        lines.append(_flag_row(name))
    return _page("Flags of manta serve", "`cluster/options/table.py`", lines)


def _flag_row(name: str) -> str:
    flag, default = FLAGS[name], DEFAULTS[name]
    shown = str(default).lower() if isinstance(default, bool) else str(default or "")
    if isinstance(default, int | float) and not isinstance(default, bool):
        shown = f"{default}"
    notes = [
        flag.meaning,
        "Repeatable." if flag.is_repeatable else "",
        "" if flag.takes_value else "A switch: takes no value.",
        "Accepted for compatibility; has no effect." if flag.is_unused else "",
        "Accepted; not implemented yet." if name in PENDING else "",
    ]
    meaning = _escaped(" ".join(filter(None, notes)))
    return f"| `--{flag.name}` | {f'`{shown}`' if shown else ''} | {meaning} |"


def _escaped(text: str) -> str:
    return re.sub(r"(<[^<>]*>(?:\S*))", r"`\1`", text).replace("|", "\\|").replace("*", "\\*")


def model_config() -> str:
    """Return the page of what `config.pbtxt` may have."""
    lines = [
        "All keys of Triton's `ModelConfig` are read. [Compatibility](../compatibility.md) says "
        "which of them have no effect here or differ; [backends](../backends.md) which "
        "`parameters` each backend reads. `manta check` names a wrong key with line and column.",
        "",
        "## Keys",
        "",
        *_table(("key", "type"), _fields(messages_of(CONFIG).ModelConfig.DESCRIPTOR, "", ())),
    ]
    for title, page, family in (
        ("Autoscaling", "autoscaling.md", autoscaling._FAMILY),  # noqa: SLF001 - shown, not used
        ("Placement", "placement.md", placement._FAMILY),  # noqa: SLF001
        ("Admission", "overload.md", admission._FAMILY),  # noqa: SLF001
    ):
        lines += ["", f"## Parameters of {title.lower()}", ""]
        lines += [f"Written as `parameters`; what they do: [{title.lower()}](../{page}).", ""]
        lines += _table(("parameter", "value"), _parameters(family.members))
    return _page(
        "Keys of config.pbtxt", "the protocol's `ModelConfig` and `backends/config`", lines
    )


def _parameters(members: Mapping[str, FamilyParameter]) -> Iterator[tuple[str, str]]:
    for name, parameter in members.items():
        yield f"`{name}`", parameter.expected


_SCALARS: Final[Mapping[int, str]] = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    8: "bool",
    9: "string",
    13: "uint32",
}


def _fields(message: Any, path: str, above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for each in message.fields:
        name = f"{path}{each.name}"
        many = "repeated " if each.is_repeated else ""
        below = each.message_type
        if below is None:
            yield f"`{name}`", many + _scalar(each)
        elif below.GetOptions().map_entry:
            value = below.fields_by_name["value"]
            deeper = value.message_type
            yield f"`{name}`", f"map to {'message' if deeper else _scalar(value)}"
            if deeper and deeper.full_name not in above:
                yield from _fields(deeper, f"{name}.value.", (*above, message.full_name))
        else:
            yield f"`{name}`", f"{many}message"
            yield from _fields(below, f"{name}.", (*above, message.full_name))


def _scalar(field: Any) -> str:
    if field.enum_type is None:
        return _SCALARS[field.type]
    return "one of " + ", ".join(f"`{each.name}`" for each in field.enum_type.values)


def metrics() -> str:
    """Return the page of the families of /metrics."""
    lines = [
        "`GET /metrics` on the metrics port (8002). A family that nothing feeds is left out: those "
        "of rollouts appear with the first rollout, those of GPUs on nodes with one. "
        "[Observability](../observability.md) says which node answers for what, and which numbers "
        "are those of the cluster: take the maximum of these, not the sum.",
    ]
    for title, note, text in _metric_pages():
        rows = [(f"`{name}`", *rest) for name, *rest in _families(text)]
        lines += ["", f"## {title}", "", *([note, ""] if note else [])]
        lines += _table(("family", "type", "labels", "meaning"), rows)
    return _page("Metrics", "what `deployments/metrics` renders", lines)


def _families(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, type, labels and meaning of what a page in Prometheus's format has."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    for name, meaning in re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE):
        rows = re.findall(rf"^{name}(?:_bucket)?\{{(.*)\}} ", text, re.MULTILINE)
        labels = {label: None for row in rows for label in re.findall(r'(\w+)="', row)}
        yield name, kinds[name], ", ".join(f"`{each}`" for each in labels), meaning


def _metric_pages() -> Iterator[tuple[str, str, str]]:
    """Yield title, note and a page on which all families of a part have a row."""
    model = ModelMetrics("m", "1", Snapshot(), has_cache=True, first_response_bounds=(100.0,))
    gpu = GpuMetrics("GPU", 0.0, 0, 0, 0.0, 0.0, 0.0)
    most = MetricsSettings(has_histograms=True, has_summaries=True, quantiles=(0.5,))
    cache = LocalCache(1, lambda: 0).gauges()
    note = (
        "Triton's families, with Triton's names. Those that end in `_histogram_ms` and "
        "`_summary_us` are off by default: `--metrics-config histogram_latencies=true`, "
        "`--metrics-config summary_latencies=true`."
    )
    page = render([model], HostMetrics(), (gpu,), most, cache)
    yield "Models, response cache and machine", note, page.decode()
    for title, own in _OWN_PAGES.items():
        yield title, "", own().decode()


def _cache_page() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "statistics", "n", "now.json")
        path.parent.mkdir(parents=True)
        path.write_bytes(msgspec.json.encode(CacheStatistics()))
        return render_repositories({"r": True}) + render_model_cache(Path(folder), "n")


def _rollout_page() -> bytes:
    words = "weight requests errors mirrored mirror_errors mismatches dropped p50_us p95_us p99_us"
    arm = {"version": 1, "name": "stable", **dict.fromkeys(words.split(), 0)}
    status = {"model": "m", "phase": "STEADY", "decision_count": 0, "arms": [arm]}
    return render_rollouts([status])


def _access_page() -> bytes:
    reasons: Counter[Any] = Counter({("key", "unknown"): 1})
    return render_access(AccessCounters(refusals=reasons, denials=Counter({"http": 1})))


_OWN_PAGES: Final[Mapping[str, Callable[[], bytes]]] = {
    "Memory of an ingress": lambda: render_memory(MemoryBudget(1)),
    "Cluster": lambda: render_holders(0),
    "Model files": _cache_page,
    "Autoscaling": lambda: render_autoscaling([ScaledVersion("m", 1, 1, 1)]),
    "Scale to zero": lambda: render_cold_starts([ColdStarts("m", 1, 1)], 1),
    "Rollouts": _rollout_page,
    "Tenants": lambda: render_tenants({"t": Counts(refused=[1] * 4)}),
    "Access": _access_page,
    "Admission": lambda: render_admission([AdmissionMetrics("m", 1, 1, 1.0, {"queue_time": 1})]),
}


def errors() -> str:
    """Return the page of errors."""
    rows = [
        (
            f"`{code}`",
            str(HTTP_STATUS[code]),
            f"{_GRPC_NAMES[GRPC_STATUS[code]]} ({GRPC_STATUS[code]})",
            (error.__doc__ or "").strip().splitlines()[0],
        )
        for code, error in ERROR_BY_CODE.items()
    ]
    lines = [
        'HTTP errors have the body `{"error": "..."}`; gRPC errors have the text as the '
        "status's message. The texts of Triton are kept, and what Manta knows beyond them follows. "
        "503 and 429 come with `Retry-After` where trying again is useful. How to find a cause: "
        "[troubleshooting](../how-to/troubleshooting.md).",
        "",
        *_table(("code", "HTTP status", "gRPC status", "meaning"), rows),
    ]
    return _page("Errors", "`backends/api/errors.py`", lines)


def apis() -> str:
    """Return the page of HTTP routes and gRPC methods."""
    routes = [
        (f"`{method} {path}`", each.summary, ", ".join(map(str, each.errors)))
        for (path, method), each in OPERATIONS.items()
    ]
    rpcs = []
    for path in sorted(PATHS):
        service, _, name = path.decode().strip("/").partition("/")
        category = category_of(path)
        role = ROLE_OF_CATEGORY.get(category, "")
        stream = "stream" if path in STREAM_PATHS else ""
        rpcs.append((f"`{service}`", f"`{name}`", stream, category, str(role)))
    lines = [
        "## HTTP",
        "",
        "Port 8000. `GET /v2/openapi.json` has the whole description: schemas of bodies, headers, "
        "statuses. A path of a model may name a version, as in "
        "`/v2/models/{name}/versions/{version}/infer`. Metrics: `GET /metrics` of port 8002.",
        "",
        *_table(("route", "what it does", "error statuses, beside 403"), routes),
        "",
        "## gRPC",
        "",
        "Port 8001. *Category* is the name that `--grpc-restricted-protocol` takes, *role* the one "
        "that an [access policy](../access.md) grants.",
        "",
        *_table(("service", "method", "", "category", "role"), rpcs),
    ]
    return _page(
        "HTTP routes and gRPC methods",
        "`deployments/http/openapi` and `deployments/grpc/kserve`",
        lines,
    )


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "flags.md": flags,
    "model-config.md": model_config,
    "metrics.md": metrics,
    "errors.md": errors,
    "api.md": apis,
}


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page())


if __name__ == "__main__":
    main()
