// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

// Answers with OUTPUT0 = 0, 1, ... INPUT0 - 1 and an end without data, from a thread of its own
// for each request, which it releases before. INPUT0 = -1 ends with an error, -2 forgets the
// request, -3 waits until the request is cancelled, -4 refuses the execution, -5 releases the
// request to be executed again and then sends one response.

#include <pthread.h>

#include "common.h"

static TRITONSERVER_Error* send(
    TRITONBACKEND_ResponseFactory* factory, int32_t value, uint32_t flags) {
  const int64_t shape[] = {1};
  const struct tensor made = {"", TRITONSERVER_TYPE_INT32, shape, 1, sizeof value, &value};
  TRITONBACKEND_Response* response;
  CHECK(TRITONBACKEND_ResponseNewFromFactory(&response, factory));
  CHECK(add_output(response, "OUTPUT0", &made));
  return TRITONBACKEND_ResponseSend(response, flags, NULL);
}

struct work {
  TRITONBACKEND_ResponseFactory* factory;
  int32_t wish;
};

static void* run(void* given) {
  struct work* work = given;
  bool is_cancelled = false;
  const struct timespec pause = {0, 1000000};
  for (int32_t each = 0; each < work->wish; ++each) send(work->factory, each, 0);
  while (work->wish == -3 && !is_cancelled) {
    nanosleep(&pause, NULL);
    TRITONBACKEND_ResponseFactoryIsCancelled(work->factory, &is_cancelled);
  }
  if (work->wish == -1 || work->wish == -3) {
    TRITONBACKEND_Response* response;
    TRITONSERVER_Error* error = TRITONSERVER_ErrorNew(
        is_cancelled ? TRITONSERVER_ERROR_CANCELLED : TRITONSERVER_ERROR_UNAVAILABLE, "the end");
    TRITONBACKEND_ResponseNewFromFactory(&response, work->factory);
    TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error);
    TRITONSERVER_ErrorDelete(error);
  } else if (work->wish != -2) {
    TRITONBACKEND_ResponseFactorySendFlags(work->factory, TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  }
  TRITONBACKEND_ResponseFactoryDelete(work->factory);
  free(work);
  return NULL;
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  for (uint32_t each = 0; each < count; ++each) {
    struct tensor input;
    CHECK(read_input(requests[each], "INPUT0", &input));
    if (*(const int32_t*)input.data == -4) {
      return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNSUPPORTED, "no such wish");
    }
    if (*(const int32_t*)input.data == -5) {
      TRITONBACKEND_ResponseFactory* factory;
      CHECK(TRITONBACKEND_ResponseFactoryNew(&factory, requests[each]));
      CHECK(TRITONBACKEND_RequestRelease(requests[each], TRITONSERVER_REQUEST_RELEASE_RESCHEDULE));
      CHECK(send(factory, 5, 0));
      CHECK(TRITONBACKEND_ResponseFactoryDelete(factory));
      continue;
    }
    struct work* work = malloc(sizeof *work);
    work->wish = *(const int32_t*)input.data;
    CHECK(TRITONBACKEND_ResponseFactoryNew(&work->factory, requests[each]));
    CHECK(TRITONBACKEND_RequestRelease(requests[each], TRITONSERVER_REQUEST_RELEASE_ALL));
    pthread_t thread;
    pthread_create(&thread, NULL, run, work);
    pthread_detach(thread);
  }
  return NULL;
}
