# SPDX-FileCopyrightText: 2026 The Manta authors
# SPDX-License-Identifier: Apache-2.0
"""JSON schemas of what goes over the HTTP port, for the OpenAPI document."""

from typing import Any, Final

from backends.api.datatypes import DATATYPES

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_FLAG: Final[Schema] = {"type": "boolean"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}
_SHAPE: Final[Schema] = {"type": "array", "items": {"type": "integer", "minimum": -1}}
_SENT_SHAPE: Final[Schema] = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
}
_DATATYPE: Final[Schema] = {"type": "string", "enum": sorted(DATATYPES)}
_VALUE: Final[Schema] = {"type": ["string", "boolean", "integer", "number"]}
_SETTING: Final[Schema] = {"type": ["string", "null"]}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: Schema, optional: Schema | None = None, *, rest: Any = False) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": rest,
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_IN_MEMORY: Final[Schema] = {
    "shared_memory_region": _TEXT,
    "shared_memory_offset": _COUNT,
    "shared_memory_byte_size": _COUNT,
}
_TRACE: Final[Schema] = {
    "trace_level": _list(_TEXT),
    "trace_rate": _TEXT,
    "trace_count": _TEXT,
}
_LOG_FLAGS: Final[Schema] = {"log_info": _FLAG, "log_warning": _FLAG, "log_error": _FLAG}
_LOG_VALUES: Final[Schema] = {
    "log_verbose_level": _COUNT,
    "log_format": {"type": "string", "enum": ["default", "ISO8601", "json"]},
}

SCHEMAS: Final[dict[str, Schema]] = {
    "Error": _object({"error": _TEXT}),
    "OpenAIError": _object(
        {"error": _object({"message": _TEXT, "type": _TEXT, "param": _SETTING, "code": _SETTING})},
        {"type": _TEXT},
    ),
    # What else it has is the engine's to say, which reads it.
    "OpenAIRequest": _object(
        {"model": _TEXT}, {"stream": {"type": ["boolean", "null"]}}, rest=True
    ),
    "OpenAIResponse": {"type": "object"},
    "OpenAIModel": _object({"id": _TEXT, "object": _TEXT, "created": _COUNT, "owned_by": _TEXT}),
    "OpenAIModels": _object({"object": _TEXT, "data": _list(_ref("OpenAIModel"))}),
    "OpenApi": _object({"openapi": _TEXT, "info": {"type": "object"}}, rest=True),
    "Binary": {"type": "string", "format": "binary"},
    "Events": _object({"data": _TEXT}, rest=True),
    "ServerMetadata": _object({"name": _TEXT, "version": _TEXT, "extensions": _list(_TEXT)}),
    "TensorMetadata": _object({"name": _TEXT, "datatype": _DATATYPE, "shape": _SHAPE}),
    "ModelMetadata": _object(
        {
            "name": _TEXT,
            "versions": _list(_TEXT),
            "platform": _TEXT,
            "inputs": _list(_ref("TensorMetadata")),
            "outputs": _list(_ref("TensorMetadata")),
        }
    ),
    "RolloutSpec": {"type": "object"},
    "Rollout": {"type": "object"},
    "ModelConfig": _object({"name": _TEXT, "max_batch_size": {"type": "integer"}}, rest=True),
    "Duration": _object({"count": _COUNT, "ns": _COUNT}),
    "ModelStatistics": _object(
        {
            "name": _TEXT,
            "version": _TEXT,
            "last_inference": _COUNT,
            "inference_count": _COUNT,
            "execution_count": _COUNT,
            "inference_stats": _object({}, rest=_ref("Duration")),
            "response_stats": _object({}, rest=_object({}, rest=_ref("Duration"))),
            "batch_stats": _list(_object({"batch_size": _COUNT}, rest=_ref("Duration"))),
            "memory_usage": _list({"type": "object"}),
        }
    ),
    "Statistics": _object({"model_stats": _list(_ref("ModelStatistics"))}),
    "Data": {"type": "array", "items": {"type": ["string", "boolean", "number", "array"]}},
    "InputParameters": _object({}, {"binary_data_size": _COUNT, **_IN_MEMORY}, rest=_VALUE),
    "OutputParameters": _object(
        {}, {"binary_data": _FLAG, "classification": _COUNT, **_IN_MEMORY}, rest=_VALUE
    ),
    "RequestParameters": _object(
        {},
        {
            "sequence_id": {"type": ["integer", "string"]},
            "sequence_start": _FLAG,
            "sequence_end": _FLAG,
            "priority": _COUNT,
            "timeout": _COUNT,
            "binary_data_output": _FLAG,
        },
        rest=_VALUE,
    ),
    "RequestInput": _object(
        {"name": _TEXT, "shape": _SENT_SHAPE, "datatype": _DATATYPE},
        {"data": _ref("Data"), "parameters": _ref("InputParameters")},
    ),
    "RequestOutput": _object({"name": _TEXT}, {"parameters": _ref("OutputParameters")}),
    "InferRequest": _object(
        {"inputs": _list(_ref("RequestInput"))},
        {
            "id": _TEXT,
            "parameters": _ref("RequestParameters"),
            "outputs": _list(_ref("RequestOutput")),
        },
    ),
    "ResponseOutput": _object(
        {"name": _TEXT, "datatype": _DATATYPE, "shape": _SHAPE},
        {"data": _ref("Data"), "parameters": _object({}, rest=True)},
    ),
    "InferResponse": _object(
        {"model_name": _TEXT, "model_version": _TEXT},
        {
            "id": _TEXT,
            "parameters": _object({}, rest=_VALUE),
            "outputs": _list(_ref("ResponseOutput")),
        },
    ),
    "GenerateRequest": _object(
        {}, {"id": _TEXT, "parameters": _object({}, rest=_VALUE)}, rest={"type": _VALUE["type"]}
    ),
    "GenerateResponse": _object({"model_name": _TEXT, "model_version": _TEXT}, rest=True),
    "RepositoryIndexRequest": _object({}, {"ready": _FLAG}),
    "RepositoryIndex": _list(
        _object({"name": _TEXT}, {"version": _TEXT, "state": _TEXT, "reason": _TEXT})
    ),
    "Instances": _list(
        _object(
            {
                **dict.fromkeys(("model", "version", "name", "state", "reason"), _TEXT),
                **dict.fromkeys(("node", "node_id", "device"), _TEXT),
                "pid": {"type": ["integer", "null"]},
                "restarts": _COUNT,
            }
        )
    ),
    "LatestEvents": _list(
        _object(
            {
                **dict.fromkeys(("event", "model", "version", "instance", "message"), _TEXT),
                "id": _COUNT,
                "time": {"type": "number"},
            }
        )
    ),
    "LoadRequest": _object({}, {"parameters": _object({}, {"config": _TEXT}, rest=_TEXT)}),
    "UnloadRequest": _object({}, {"parameters": _object({}, {"unload_dependents": _FLAG})}),
    "TraceSettings": _object(
        _TRACE, {"trace_mode": _TEXT, "log_frequency": _TEXT, "trace_file": _TEXT}, rest=_TEXT
    ),
    "TraceSettingsChange": _object(
        {},
        {
            "trace_level": {"type": ["array", "null"], "items": _TEXT},
            "trace_rate": _SETTING,
            "trace_count": _SETTING,
            "log_frequency": _SETTING,
        },
    ),
    "LogSettings": _object({"log_file": _TEXT, **_LOG_FLAGS, **_LOG_VALUES}),
    "LogSettingsChange": _object({}, {**_LOG_FLAGS, **_LOG_VALUES}),
    "SystemRegistration": _object({"key": _TEXT, "byte_size": _COUNT}, {"offset": _COUNT}),
    "SystemRegions": _list(
        _object({"name": _TEXT, "key": _TEXT, "offset": _COUNT, "byte_size": _COUNT})
    ),
    "CudaRegistration": _object(
        {
            "raw_handle": _object({"b64": {"type": "string", "contentEncoding": "base64"}}),
            "device_id": _COUNT,
            "byte_size": _COUNT,
        }
    ),
    "CudaRegions": _list(_object({"name": _TEXT, "device_id": _COUNT, "byte_size": _COUNT})),
}


def _in_path(name: str, description: str, schema: Schema) -> Schema:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema,
    }


_SEGMENT: Final[Schema] = {"type": "string", "pattern": "^[^/]+$"}

PARAMETERS: Final[dict[str, Schema]] = {
    "name": _in_path("name", "Name of the model or the region", _SEGMENT),
    "version": _in_path("version", "Version number", {"type": "string", "pattern": "^[0-9]+$"}),
    "repository": _in_path("repository", "Name of a repository", _SEGMENT),
    "Inference-Header-Content-Length": {
        "name": "Inference-Header-Content-Length",
        "in": "header",
        "required": False,
        "description": "Bytes of the JSON in front of binary tensors; 0 for a raw binary body",
        "schema": {"type": "integer", "minimum": 0},
    },
}
