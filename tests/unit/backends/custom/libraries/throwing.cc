// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

// Throws an exception for the first execution, and none that is of the standard for the second.

#include <stdexcept>

#include "triton_abi.h"

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance*, TRITONBACKEND_Request**, uint32_t) {
  static int count = 0;
  if (count++ == 0) throw std::runtime_error("out of patience");
  throw 42;
}
