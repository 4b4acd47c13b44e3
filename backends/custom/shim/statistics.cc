// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// What a backend reports of its executions. Manta counts requests, executions and responses
// itself, as they pass; only when a computation began and ended is what a backend alone knows.

#include "objects.h"

namespace {

void take_times(TRITONBACKEND_ModelInstance* instance, uint64_t start_ns, uint64_t end_ns) {
  if (start_ns == 0 || end_ns < start_ns) return;
  uint64_t unset = 0;
  instance->compute_start_ns.compare_exchange_strong(unset, start_ns);
  instance->compute_end_ns.store(end_ns);
}

using Statistics = TRITONBACKEND_ModelInstanceResponseStatistics;

}  // namespace

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportStatistics(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request*, bool success, uint64_t,
    uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t) {
  if (success) take_times(instance, compute_start_ns, compute_end_ns);
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportBatchStatistics(
    TRITONBACKEND_ModelInstance* instance, uint64_t, uint64_t, uint64_t compute_start_ns,
    uint64_t compute_end_ns, uint64_t) {
  take_times(instance, compute_start_ns, compute_end_ns);
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsNew(Statistics** made) {
  *made = new Statistics;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsDelete(Statistics* gone) {
  delete gone;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(
    Statistics*, TRITONBACKEND_ModelInstance*) {
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(
    Statistics*, TRITONBACKEND_ResponseFactory*) {
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(
    Statistics*, uint64_t) {
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(
    Statistics*, uint64_t) {
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(
    Statistics*, uint64_t) {
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceResponseStatisticsSetError(
    Statistics*, TRITONSERVER_Error*) {
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportResponseStatistics(Statistics*) {
  return nullptr;
}
