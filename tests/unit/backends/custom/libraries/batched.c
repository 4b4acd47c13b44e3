// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

// Answers each request with how many were in its execution, later and from a thread of its own.
// Tells when it computed.

#include <pthread.h>

#include "common.h"

struct work {
  TRITONBACKEND_ModelInstance* instance;
  TRITONBACKEND_Request** requests;
  int32_t count;
  uint64_t start_ns;
};

static void* run(void* given) {
  struct work* work = given;
  const struct timespec pause = {0, 2000000};
  const int64_t shape[] = {1, 1};
  const uint64_t compute_start_ns = now_ns();
  nanosleep(&pause, NULL);
  const uint64_t compute_end_ns = now_ns();
  TRITONBACKEND_ModelInstanceReportBatchStatistics(
      work->instance, work->count, work->start_ns, compute_start_ns, compute_end_ns, now_ns());
  for (int32_t each = 0; each < work->count; ++each) {
    struct tensor made = {"", TRITONSERVER_TYPE_INT32, shape, 2, sizeof work->count, &work->count};
    TRITONBACKEND_ModelInstanceReportStatistics(
        work->instance, work->requests[each], true, work->start_ns, compute_start_ns,
        compute_end_ns, now_ns());
    answer(work->requests[each], "OUTPUT0", &made);
    TRITONBACKEND_RequestRelease(work->requests[each], TRITONSERVER_REQUEST_RELEASE_ALL);
  }
  free(work->requests);
  free(work);
  return NULL;
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  struct work* work = malloc(sizeof *work);
  pthread_t thread;
  *work = (struct work){instance, malloc(count * sizeof *requests), count, now_ns()};
  memcpy(work->requests, requests, count * sizeof *requests);
  pthread_create(&thread, NULL, run, work);
  pthread_detach(thread);
  return NULL;
}
