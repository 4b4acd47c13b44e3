// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

// A batching library: no batch has elements of INPUT0 that sum up to more than 3, unless it is of
// one request.

#include "common.h"

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelBatcherInitialize(
    TRITONBACKEND_Batcher** batcher, TRITONBACKEND_Model* model) {
  int32_t* most = malloc(sizeof *most);
  *most = 3;
  *batcher = (TRITONBACKEND_Batcher*)most;
  return NULL;
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelBatcherFinalize(TRITONBACKEND_Batcher* batcher) {
  free(batcher);
  return NULL;
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelBatchInitialize(
    const TRITONBACKEND_Batcher* batcher, void** user) {
  int32_t* left = malloc(sizeof *left);
  *left = *(const int32_t*)batcher;
  *user = left;
  return NULL;
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelBatchIncludeRequest(
    TRITONBACKEND_Request* request, void* user, bool* should_include) {
  struct tensor input;
  CHECK(read_input(request, "INPUT0", &input));
  int32_t* left = user;
  *left -= *(const int32_t*)input.data;
  *should_include = *left >= 0;
  return NULL;
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelBatchFinalize(void* user) {
  free(user);
  return NULL;
}
