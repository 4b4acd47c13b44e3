// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

// Repeats INPUT0 as OUTPUT0. A request's parameter "crash" names a file: whoever can remove it
// crashes, so that one instance does.

#include <unistd.h>

#include "common.h"

static TRITONSERVER_Error* crash_if_asked(TRITONBACKEND_Request* request) {
  uint32_t count;
  CHECK(TRITONBACKEND_RequestParameterCount(request, &count));
  for (uint32_t each = 0; each < count; ++each) {
    TRITONSERVER_ParameterType type;
    const char* name;
    const void* value;
    CHECK(TRITONBACKEND_RequestParameter(request, each, &name, &type, &value));
    if (strcmp(name, "crash") == 0 && unlink(value) == 0) *(volatile int*)NULL = 1;
  }
  return NULL;
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  for (uint32_t each = 0; each < count; ++each) {
    struct tensor input;
    CHECK(crash_if_asked(requests[each]));
    CHECK(read_input(requests[each], "INPUT0", &input));
    CHECK(answer(requests[each], "OUTPUT0", &input));
    CHECK(TRITONBACKEND_RequestRelease(requests[each], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}
