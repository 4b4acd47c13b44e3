// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

// Repeats INPUT0 as OUTPUT0, and tells in response parameters what it saw of the request.
// With the request parameter "fail" it answers with an error of that text.

#include <stdio.h>

#include "common.h"

static TRITONSERVER_Error* describe(
    TRITONBACKEND_Request* request, TRITONBACKEND_Response* response, const char** failure) {
  const char* text;
  uint64_t number;
  uint32_t count;
  bool is_cancelled;
  TRITONSERVER_InferenceTrace* trace;
  CHECK(TRITONBACKEND_RequestId(request, &text));
  CHECK(TRITONBACKEND_ResponseSetStringParameter(response, "id", text));
  TRITONSERVER_Error* error = TRITONBACKEND_RequestCorrelationId(request, &number);
  if (error == NULL) {
    CHECK(TRITONBACKEND_ResponseSetIntParameter(response, "correlation", number));
  } else {
    TRITONSERVER_ErrorDelete(error);
    CHECK(TRITONBACKEND_RequestCorrelationIdString(request, &text));
    CHECK(TRITONBACKEND_ResponseSetStringParameter(response, "correlation", text));
  }
  CHECK(TRITONBACKEND_RequestFlags(request, &count));
  CHECK(TRITONBACKEND_ResponseSetIntParameter(response, "flags", count));
  CHECK(TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request, &number));
  CHECK(TRITONBACKEND_ResponseSetIntParameter(response, "timeout", number));
  CHECK(TRITONBACKEND_RequestIsCancelled(request, &is_cancelled));
  CHECK(TRITONBACKEND_ResponseSetBoolParameter(response, "cancelled", is_cancelled));
  CHECK(TRITONBACKEND_RequestTrace(request, &trace));
  CHECK(TRITONBACKEND_ResponseSetBoolParameter(response, "traced", trace != NULL));
  CHECK(TRITONBACKEND_RequestOutputCount(request, &count));
  CHECK(TRITONBACKEND_ResponseSetIntParameter(response, "wanted", count));
  CHECK(TRITONBACKEND_RequestParameterCount(request, &count));
  for (uint32_t each = 0; each < count; ++each) {
    TRITONSERVER_ParameterType type;
    const void* value;
    char name[64];
    CHECK(TRITONBACKEND_RequestParameter(request, each, &text, &type, &value));
    snprintf(name, sizeof name, "got_%s", text);
    switch (type) {
      case TRITONSERVER_PARAMETER_INT:
        CHECK(TRITONBACKEND_ResponseSetIntParameter(response, name, *(const int64_t*)value));
        break;
      case TRITONSERVER_PARAMETER_BOOL:
        CHECK(TRITONBACKEND_ResponseSetBoolParameter(response, name, *(const bool*)value));
        break;
      case TRITONSERVER_PARAMETER_DOUBLE:
        CHECK(TRITONBACKEND_ResponseSetDoubleParameter(response, name, *(const double*)value));
        break;
      default:
        CHECK(TRITONBACKEND_ResponseSetStringParameter(response, name, (const char*)value));
        if (strcmp(text, "fail") == 0) *failure = value;
    }
  }
  return NULL;
}

static TRITONSERVER_Error* serve(TRITONBACKEND_Request* request) {
  struct tensor input;
  const char* failure = NULL;
  TRITONBACKEND_Response* response;
  CHECK(TRITONBACKEND_ResponseNew(&response, request));
  TRITONSERVER_Error* error = read_input(request, "INPUT0", &input);
  if (error == NULL) error = add_output(response, "OUTPUT0", &input);
  if (error == NULL) error = describe(request, response, &failure);
  if (failure != NULL) error = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, failure);
  CHECK(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error));
  if (error != NULL) TRITONSERVER_ErrorDelete(error);
  return NULL;
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(
    TRITONBACKEND_ModelInstance* instance) {
  const char* name;
  CHECK(TRITONBACKEND_ModelInstanceName(instance, &name));
  return TRITONSERVER_LogMessage(TRITONSERVER_LOG_WARN, __FILE__, __LINE__, name);
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReady(
    TRITONBACKEND_ModelInstance* instance) {
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "not in the mood");
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  for (uint32_t each = 0; each < count; ++each) {
    CHECK(serve(requests[each]));
    CHECK(TRITONBACKEND_RequestRelease(requests[each], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}
