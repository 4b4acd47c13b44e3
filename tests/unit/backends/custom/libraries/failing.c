// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

// Fails where the parameter "stage" of its settings or its model's config says.

#include <stdio.h>

#include "common.h"

static char stage[64];

static TRITONSERVER_Error* fail_at(const char* name) {
  char text[128];
  if (strcmp(stage, "latin") == 0 && strcmp(name, "execute") == 0) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_CANCELLED, "caf\xe9 \xc3\xa9");
  }
  if (strcmp(stage, name) != 0) return NULL;
  snprintf(text, sizeof text, "cannot %s today", name);
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, text);
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  TRITONSERVER_Message* config;
  const char* json;
  size_t size;
  CHECK(TRITONBACKEND_BackendConfig(backend, &config));
  CHECK(TRITONSERVER_MessageSerializeToJson(config, &json, &size));
  const char* found = strstr(json, "\"stage\": \"");
  if (found != NULL) sscanf(found + strlen("\"stage\": \""), "%63[^\"]", stage);
  return fail_at("initialize");
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  if (strcmp(stage, "complete") == 0) {
    TRITONSERVER_Message* message;
    CHECK(TRITONSERVER_MessageNewFromSerializedJson(&message, "{\"nonsense\": 1}", 15));
    CHECK(TRITONBACKEND_ModelSetConfig(model, 1, message));
  }
  return fail_at("model");
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(
    TRITONBACKEND_ModelInstance* instance) {
  return fail_at("instance");
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(
    TRITONBACKEND_ModelInstance* instance) {
  return fail_at("finalize");
}

static TRITONSERVER_Error* serve(TRITONBACKEND_Request* request) {
  struct tensor input;
  CHECK(read_input(request, "INPUT0", &input));
  if (strcmp(stage, "size") == 0) input.size -= 1;
  if (strcmp(stage, "forget") == 0) return NULL;
  return answer(request, strcmp(stage, "name") == 0 ? "OUTPUT9" : "OUTPUT0", &input);
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  CHECK(fail_at("execute"));
  if (strcmp(stage, "crash") == 0) *(volatile int*)NULL = 1;
  if (strcmp(stage, "abort") == 0) abort();
  for (uint32_t each = 0; each < count; ++each) {
    if (strcmp(stage, "later") == 0) {
      CHECK(TRITONBACKEND_RequestRelease(requests[each], TRITONSERVER_REQUEST_RELEASE_RESCHEDULE));
      continue;
    }
    CHECK(serve(requests[each]));
    CHECK(TRITONBACKEND_RequestRelease(requests[each], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}
