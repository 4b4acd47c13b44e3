// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

// What several of these libraries do.

#ifndef LIBRARIES_COMMON_H
#define LIBRARIES_COMMON_H

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "triton_abi.h"

#define CHECK(call)                          \
  do {                                       \
    TRITONSERVER_Error* error_ = (call);     \
    if (error_ != NULL) return error_;       \
  } while (0)

struct tensor {
  const char* name;
  TRITONSERVER_DataType datatype;
  const int64_t* shape;
  uint32_t dims_count;
  uint64_t size;
  const void* data;
};

static inline uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static inline TRITONSERVER_Error* read_input(
    TRITONBACKEND_Request* request, const char* name, struct tensor* tensor) {
  TRITONBACKEND_Input* input;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_GPU;
  int64_t id = 7;
  uint64_t size;
  CHECK(TRITONBACKEND_RequestInput(request, name, &input));
  CHECK(TRITONBACKEND_InputProperties(
      input, &tensor->name, &tensor->datatype, &tensor->shape, &tensor->dims_count, &tensor->size,
      NULL));
  return TRITONBACKEND_InputBuffer(input, 0, &tensor->data, &size, &type, &id);
}

static inline TRITONSERVER_Error* add_output(
    TRITONBACKEND_Response* response, const char* name, const struct tensor* tensor) {
  TRITONBACKEND_Output* output;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_GPU;
  int64_t id = 3;
  void* buffer;
  CHECK(TRITONBACKEND_ResponseOutput(
      response, &output, name, tensor->datatype, tensor->shape, tensor->dims_count));
  CHECK(TRITONBACKEND_OutputBuffer(output, &buffer, tensor->size, &type, &id));
  if (type != TRITONSERVER_MEMORY_CPU || id != 0) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "expected memory of the CPU");
  }
  memcpy(buffer, tensor->data, tensor->size);
  return NULL;
}

// Sends a response with one output, or the error that came of making it.
static inline TRITONSERVER_Error* answer(
    TRITONBACKEND_Request* request, const char* name, const struct tensor* tensor) {
  TRITONBACKEND_Response* response;
  CHECK(TRITONBACKEND_ResponseNew(&response, request));
  TRITONSERVER_Error* error = add_output(response, name, tensor);
  CHECK(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error));
  if (error != NULL) TRITONSERVER_ErrorDelete(error);
  return NULL;
}

#endif
