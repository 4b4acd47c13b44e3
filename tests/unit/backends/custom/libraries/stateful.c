// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

// OUTPUT0 and the state "sum" are the state's input "old_sum" plus INPUT0.
// An INPUT0 of 100 asks for a state that the model does not have; one of 50 leaves the state's
// buffer as it was given.

#include "common.h"

static TRITONSERVER_Error* serve(TRITONBACKEND_Request* request) {
  struct tensor input, old;
  TRITONBACKEND_State* state;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  void* buffer;
  CHECK(read_input(request, "INPUT0", &input));
  CHECK(read_input(request, "old_sum", &old));
  const int32_t sum = *(const int32_t*)input.data + *(const int32_t*)old.data;
  const char* name = *(const int32_t*)input.data == 100 ? "other" : "sum";
  CHECK(TRITONBACKEND_StateNew(
      &state, request, name, input.datatype, input.shape, input.dims_count));
  CHECK(TRITONBACKEND_StateBuffer(state, &buffer, sizeof sum, &type, &id));
  if (*(const int32_t*)input.data != 50) memcpy(buffer, &sum, sizeof sum);
  CHECK(TRITONBACKEND_StateUpdate(state));
  input.data = &sum;
  return answer(request, "OUTPUT0", &input);
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  for (uint32_t each = 0; each < count; ++each) CHECK(serve(requests[each]));
  for (uint32_t each = 0; each < count; ++each) {
    CHECK(TRITONBACKEND_RequestRelease(requests[each], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}
