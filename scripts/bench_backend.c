// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

// A backend that copies X to Y: what serving one in C costs, without a framework's own call.

#include <string.h>

#include "triton_abi.h"

#define CHECK(call)                          \
  do {                                       \
    TRITONSERVER_Error* error_ = (call);     \
    if (error_ != NULL) return error_;       \
  } while (0)

static TRITONSERVER_Error* copy(TRITONBACKEND_Request* request, TRITONBACKEND_Response* response) {
  TRITONBACKEND_Input* input;
  TRITONBACKEND_Output* output;
  TRITONSERVER_DataType datatype;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  const int64_t* shape;
  uint32_t dims_count;
  uint64_t size, part_size;
  int64_t id = 0;
  const void* from;
  void* to;
  CHECK(TRITONBACKEND_RequestInput(request, "X", &input));
  CHECK(TRITONBACKEND_InputProperties(input, NULL, &datatype, &shape, &dims_count, &size, NULL));
  CHECK(TRITONBACKEND_InputBuffer(input, 0, &from, &part_size, &type, &id));
  CHECK(TRITONBACKEND_ResponseOutput(response, &output, "Y", datatype, shape, dims_count));
  CHECK(TRITONBACKEND_OutputBuffer(output, &to, size, &type, &id));
  memcpy(to, from, size);
  return NULL;
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  for (uint32_t each = 0; each < count; ++each) {
    TRITONBACKEND_Response* response;
    CHECK(TRITONBACKEND_ResponseNew(&response, requests[each]));
    TRITONSERVER_Error* error = copy(requests[each], response);
    CHECK(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error));
    if (error != NULL) TRITONSERVER_ErrorDelete(error);
    CHECK(TRITONBACKEND_RequestRelease(requests[each], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}
