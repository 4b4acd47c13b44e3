# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""What each route takes and gives, for the OpenAPI document."""

from dataclasses import dataclass, field
from typing import Final

_JSON: Final = "application/json"
_TEXT: Final = "text/plain"
_BINARY: Final = "application/octet-stream"
_EVENTS: Final = "text/event-stream"

# 500 is what Triton says of JSON it cannot read, and of models that fail.
_PLAIN: Final = (503,)
_LOOKUP: Final = (400, 404, 503)
_INFER: Final = (400, 404, 500, 501, 503)
_CHANGE: Final = (400, 404, 409, 500, 501, 503)
_OPENAI: Final = (400, 401, 404, 409, 429, 500, 503)


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path.

    Attributes:
        summary: One line.
        answers: Schema of a success by content type; empty for no body.
        takes: Schema of the body by content type.
        errors: Statuses besides 200 and 403.
        headers: Request headers, as names of components.
        needs_body: Whether a body must be there.
        error: Component of the answer to what fails.
    """

    summary: str
    answers: dict[str, str]
    takes: dict[str, str] = field(default_factory=dict)
    errors: tuple[int, ...] = _CHANGE
    headers: tuple[str, ...] = ()
    needs_body: bool = False
    error: str = "Error"


def _get(summary: str, schema: str, errors: tuple[int, ...] = _LOOKUP) -> Operation:
    return Operation(summary, {_JSON: schema}, errors=errors)


def _health(summary: str, errors: tuple[int, ...] = (400, 404, 503)) -> Operation:
    return Operation(summary, {_TEXT: ""}, errors=errors)


def _change(summary: str, takes: str = "", *, needs_body: bool = False) -> Operation:
    """Describe an operation that answers without a body."""
    bodies = {_JSON: takes} if takes else {}
    return Operation(summary, {_JSON: ""}, bodies, needs_body=needs_body)


def _setting(summary: str, shown: str, takes: str) -> Operation:
    return Operation(summary, {_JSON: shown}, {_JSON: takes})


def _rollout(summary: str, takes: str = "") -> Operation:
    bodies = {_JSON: takes} if takes else {}
    return Operation(summary, {_JSON: "Rollout"}, bodies, needs_body=bool(takes))


def _openai(summary: str, answers: dict[str, str], *, takes: str = "") -> Operation:
    bodies = {_JSON: takes} if takes else {}
    return Operation(summary, answers, bodies, _OPENAI, needs_body=bool(takes), error="OpenAIError")


def _asked(summary: str) -> Operation:
    answers = {_JSON: "OpenAIResponse"}
    return _openai(summary, answers, takes="OpenAIRequest")


def _streamed(summary: str) -> Operation:
    answers = {_JSON: "OpenAIResponse", _EVENTS: "Events"}
    return _openai(summary, answers, takes="OpenAIRequest")


def _absent(summary: str) -> Operation:
    # Always 404; what would be sent does not matter.
    return _openai(summary, {_JSON: ""})


_MODEL: Final = "/v2/models/{name}"
_SYSTEM: Final = "/v2/systemsharedmemory"
_CUDA: Final = "/v2/cudasharedmemory"

OPERATIONS: Final[dict[tuple[str, str], Operation]] = {
    ("/v2", "GET"): _get("Metadata of the server", "ServerMetadata", _PLAIN),
    ("/v2/openapi.json", "GET"): _get("This document", "OpenApi", _PLAIN),
    ("/v2/health/live", "GET"): _health("Whether the server runs", (400, 503)),
    ("/v2/health/ready", "GET"): _health("Whether the server takes requests", (400, 503)),
    ("/-/healthz", "GET"): _health("Whether a load balancer may send requests here", _PLAIN),
    (_MODEL, "GET"): _get("Metadata of a model", "ModelMetadata"),
    (f"{_MODEL}/ready", "GET"): _health("Whether a model takes requests"),
    (f"{_MODEL}/config", "GET"): _get("Config of a model", "ModelConfig"),
    (f"{_MODEL}/stats", "GET"): _get("Statistics of a model", "Statistics"),
    ("/v2/models/stats", "GET"): _get("Statistics of all models", "Statistics"),
    (f"{_MODEL}/infer", "POST"): Operation(
        "Run a model",
        {_JSON: "InferResponse", _BINARY: "Binary"},
        {_JSON: "InferRequest", _BINARY: "Binary"},
        _INFER,
        ("Inference-Header-Content-Length",),
        needs_body=True,
    ),
    (f"{_MODEL}/generate", "POST"): Operation(
        "Run a model on flat JSON",
        {_JSON: "GenerateResponse"},
        {_JSON: "GenerateRequest"},
        _INFER,
        needs_body=True,
    ),
    (f"{_MODEL}/generate_stream", "POST"): Operation(
        "Run a model on flat JSON; an event for each response",
        {_EVENTS: "Events"},
        {_JSON: "GenerateRequest"},
        _INFER,
        needs_body=True,
    ),
    (f"{_MODEL}/rollout", "GET"): _get("Rollout of a model", "Rollout"),
    (f"{_MODEL}/rollout", "PUT"): _rollout("Set the rollout of a model", "RolloutSpec"),
    (f"{_MODEL}/rollout", "POST"): _rollout("Set the rollout of a model", "RolloutSpec"),
    (f"{_MODEL}/rollout", "DELETE"): _rollout("End the rollout: the newest version answers"),
    (f"{_MODEL}/rollout/promote", "POST"): _rollout("Give the new version all requests"),
    (f"{_MODEL}/rollout/pause", "POST"): _rollout("Hold the weights as they are"),
    (f"{_MODEL}/rollout/resume", "POST"): _rollout("Resume what was paused"),
    (f"{_MODEL}/rollout/rollback", "POST"): _rollout("Give the stable version all requests"),
    ("/v2/repository/index", "POST"): Operation(
        "Models of the repositories", {_JSON: "RepositoryIndex"}, {_JSON: "RepositoryIndexRequest"}
    ),
    ("/v2/manta/instances", "GET"): _get("Instances of all models", "Instances", _PLAIN),
    ("/v2/manta/events", "GET"): _get(
        "Latest events of models and instances, oldest first; ?since=ID: those after it",
        "LatestEvents",
        (400, 503),
    ),
    ("/v2/repository/models/{name}/load", "POST"): _change("Load a model", "LoadRequest"),
    ("/v2/repository/models/{name}/unload", "POST"): _change("Unload a model", "UnloadRequest"),
    ("/v2/trace/setting", "GET"): _get("Trace settings", "TraceSettings", _LOOKUP),
    ("/v2/trace/setting", "POST"): _setting(
        "Change trace settings; null clears one", "TraceSettings", "TraceSettingsChange"
    ),
    ("/v2/logging", "GET"): _get("Log settings", "LogSettings", _PLAIN),
    ("/v2/logging", "POST"): _setting("Change log settings", "LogSettings", "LogSettingsChange"),
    (f"{_SYSTEM}/status", "GET"): _get("Registered system regions", "SystemRegions"),
    (f"{_SYSTEM}/register", "POST"): _change(
        "Register a part of a POSIX object", "SystemRegistration", needs_body=True
    ),
    (f"{_SYSTEM}/unregister", "POST"): _change("Forget a region, or all"),
    (f"{_CUDA}/status", "GET"): _get("Registered CUDA regions", "CudaRegions"),
    (f"{_CUDA}/register", "POST"): _change(
        "Register a part of a GPU's memory", "CudaRegistration", needs_body=True
    ),
    (f"{_CUDA}/unregister", "POST"): _change("Forget a region, or all"),
    ("/v1/models", "GET"): _openai("Models with OpenAI routes", {_JSON: "OpenAIModels"}),
    ("/v1/models/{name}", "GET"): _openai("A model with OpenAI routes", {_JSON: "OpenAIModel"}),
    ("/v1/chat/completions", "POST"): _streamed("Answer a chat"),
    ("/v1/completions", "POST"): _streamed("Complete a text"),
    ("/v1/embeddings", "POST"): _asked("Vectors of texts"),
    ("/v1/rerank", "POST"): _asked("Documents in the order in which they fit a query"),
    ("/v1/score", "POST"): _asked("How well pairs of texts fit"),
    ("/v1/responses", "POST"): _streamed("Answer in the form of OpenAI's Responses"),
    ("/v1/messages", "POST"): _streamed("Answer in the form of Anthropic's Messages"),
    ("/tokenize", "POST"): _asked("Tokens of a text"),
    ("/detokenize", "POST"): _asked("Text of tokens"),
    ("/v1/audio/speech", "POST"): _absent("Not served: always 404"),
    ("/v1/audio/transcriptions", "POST"): _absent("Not served: always 404"),
    ("/v1/audio/translations", "POST"): _absent("Not served: always 404"),
    ("/v1/images/edits", "POST"): _absent("Not served: always 404"),
    ("/v1/images/generations", "POST"): _absent("Not served: always 404"),
    ("/v1/images/variations", "POST"): _absent("Not served: always 404"),
}
