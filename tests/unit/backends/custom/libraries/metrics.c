// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

// Counts executions and requests; does what families and metrics must refuse.

#include <stdio.h>

#include "common.h"

static TRITONSERVER_MetricFamily* families[3];
static TRITONSERVER_Metric* metrics[3];

static TRITONSERVER_Error* expect(TRITONSERVER_Error* error) {
  if (error == NULL) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "a refusal was expected");
  }
  TRITONSERVER_LogMessage(
      TRITONSERVER_LOG_WARN, __FILE__, __LINE__, TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return NULL;
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  static const char* names[] = {"executions", "last_size", "sizes"};
  const double buckets[] = {1, 2};
  TRITONSERVER_MetricArgs* args;
  TRITONSERVER_MetricFamily* other;
  TRITONSERVER_Parameter* label = TRITONSERVER_ParameterNew(
      "model", TRITONSERVER_PARAMETER_STRING, "counted");
  const TRITONSERVER_Parameter* labels[] = {label};
  CHECK(TRITONSERVER_MetricArgsNew(&args));
  CHECK(TRITONSERVER_MetricArgsSetHistogram(args, buckets, 2));
  for (int each = 0; each < 3; ++each) {
    CHECK(TRITONSERVER_MetricFamilyNew(&families[each], each, names[each], "of a test"));
    CHECK(TRITONSERVER_MetricNewWithArgs(
        &metrics[each], families[each], labels, 1, each == 2 ? args : NULL));
  }
  CHECK(expect(TRITONSERVER_MetricFamilyNew(
      &other, TRITONSERVER_METRIC_KIND_GAUGE, "executions", "")));
  CHECK(expect(TRITONSERVER_MetricFamilyNew(
      &other, TRITONSERVER_METRIC_KIND_GAUGE, "9 lives", "")));
  CHECK(expect(TRITONSERVER_MetricFamilyDelete(families[0])));
  CHECK(expect(TRITONSERVER_MetricIncrement(metrics[0], -1)));
  CHECK(expect(TRITONSERVER_MetricSet(metrics[0], 1)));
  CHECK(expect(TRITONSERVER_MetricObserve(metrics[1], 1)));
  CHECK(expect(TRITONSERVER_MetricNew(&metrics[2], families[2], labels, 1)));
  TRITONSERVER_ParameterDelete(label);
  return TRITONSERVER_MetricArgsDelete(args);
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_Finalize(TRITONBACKEND_Backend* backend) {
  for (int each = 0; each < 3; ++each) {
    CHECK(TRITONSERVER_MetricDelete(metrics[each]));
    CHECK(TRITONSERVER_MetricFamilyDelete(families[each]));
  }
  return NULL;
}

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  CHECK(TRITONSERVER_MetricIncrement(metrics[0], 1));
  CHECK(TRITONSERVER_MetricSet(metrics[1], count));
  CHECK(TRITONSERVER_MetricObserve(metrics[2], count));
  for (uint32_t each = 0; each < count; ++each) {
    struct tensor input;
    CHECK(read_input(requests[each], "INPUT0", &input));
    CHECK(answer(requests[each], "OUTPUT0", &input));
    CHECK(TRITONBACKEND_RequestRelease(requests[each], TRITONSERVER_REQUEST_RELEASE_ALL));
  }
  return NULL;
}
