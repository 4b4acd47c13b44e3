// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

// Completes a config that has neither tensors nor a batch size, and tells what it was told.

#include <stdio.h>

#include "common.h"

static const char complete[] =
    "{\"max_batch_size\": 8,"
    " \"input\": [{\"name\": \"INPUT0\", \"data_type\": \"TYPE_INT32\", \"dims\": [1]}],"
    " \"output\": [{\"name\": \"OUTPUT0\", \"data_type\": \"TYPE_INT32\", \"dims\": [1]}],"
    " \"dynamic_batching\": {}, \"backend\": \"something else\"}";

static TRITONSERVER_Error* log_text(const char* what, const char* text) {
  char line[4096];
  snprintf(line, sizeof line, "%s: %s", what, text);
  return TRITONSERVER_LogMessage(TRITONSERVER_LOG_WARN, __FILE__, __LINE__, line);
}

static TRITONSERVER_Error* log_json(const char* what, TRITONSERVER_Message* message) {
  const char* base;
  size_t size;
  CHECK(TRITONSERVER_MessageSerializeToJson(message, &base, &size));
  return log_text(what, base);
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  const char* text;
  TRITONBACKEND_ArtifactType type;
  TRITONSERVER_Message* config;
  CHECK(TRITONBACKEND_BackendName(backend, &text));
  CHECK(log_text("backend", text));
  CHECK(TRITONBACKEND_BackendArtifacts(backend, &type, &text));
  CHECK(log_text("directory", text));
  CHECK(TRITONBACKEND_BackendConfig(backend, &config));
  return log_json("settings", config);
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  bool may_complete;
  TRITONSERVER_Message* message;
  CHECK(TRITONBACKEND_ModelAutoCompleteConfig(model, &may_complete));
  CHECK(log_text("may complete", may_complete ? "yes" : "no"));
  if (may_complete) {
    CHECK(TRITONSERVER_MessageNewFromSerializedJson(&message, complete, sizeof complete - 1));
    CHECK(TRITONBACKEND_ModelSetConfig(model, 1, message));
    CHECK(TRITONSERVER_MessageDelete(message));
  }
  TRITONSERVER_Error* error = TRITONBACKEND_ModelConfig(model, 2, &message);
  CHECK(log_text("version 2", TRITONSERVER_ErrorMessage(error)));
  TRITONSERVER_ErrorDelete(error);
  CHECK(TRITONBACKEND_ModelConfig(model, 1, &message));
  CHECK(log_json("config", message));
  return TRITONSERVER_MessageDelete(message);
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(
    TRITONBACKEND_ModelInstance* instance) {
  TRITONSERVER_Message* policy;
  CHECK(TRITONBACKEND_ModelInstanceHostPolicy(instance, &policy));
  return log_json("host policy", policy);
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  return NULL;
}
