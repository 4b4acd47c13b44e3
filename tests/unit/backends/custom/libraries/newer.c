// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

// Wants a function that nobody has.

#include "common.h"

MANTA_API TRITONSERVER_Error* TRITONBACKEND_OfTheFuture(TRITONBACKEND_Backend* backend);

MANTA_API TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  return TRITONBACKEND_OfTheFuture(NULL);
}
