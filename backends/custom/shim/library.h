// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// Libraries are opened, and their functions called, here only.

#ifndef MANTA_LIBRARY_H
#define MANTA_LIBRARY_H

#include <string>
#include <utility>

#include "objects.h"

namespace manta {

// Functions of a library are called through this: it names the stage for a crash, and makes an
// error of what a library throws.
template <typename F, typename... A>
TRITONSERVER_Error* call(const char* name, F function, A... arguments) {
  if (function == nullptr) return nullptr;
  const Stage stage(name);
  try {
    return function(arguments...);
  } catch (const std::exception& thrown) {
    return failure(
        TRITONSERVER_ERROR_INTERNAL, std::string(name) + " threw an exception: " + thrown.what());
  } catch (...) {
    return failure(
        TRITONSERVER_ERROR_INTERNAL, std::string(name) + " threw what is no std::exception");
  }
}

// Logs an error that nobody can be told.
void log_failure(TRITONSERVER_Error* error, const std::string& what);

TRITONSERVER_Error* open_backend(TRITONBACKEND_Backend& backend);
TRITONSERVER_Error* open_strategy(TRITONBACKEND_Model& model, const std::string& path);
void close_strategy(TRITONBACKEND_Model& model);

}  // namespace manta

#endif
