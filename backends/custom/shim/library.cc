// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// Triton: core/src/backend_manager.cc LoadBackendLibrary, core/src/shared_library.cc,
// core/src/backend_model.cc SetBatchingStrategy @73aad7c

#include "library.h"

#include <dlfcn.h>

namespace {

std::string version(int major, int minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

TRITONSERVER_Error* open_library(const std::string& path, void** library) {
  const manta::Stage stage("dlopen");
  // Eagerly, so that a missing symbol is named now and not when it is called.
  *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (*library != nullptr) return nullptr;
  const char* said = dlerror();
  std::string reason = said == nullptr ? path : said;
  if (reason.find("undefined symbol: TRITON") != std::string::npos) {
    reason += "; there is TRITONBACKEND API " +
              version(TRITONBACKEND_API_VERSION_MAJOR, TRITONBACKEND_API_VERSION_MINOR) +
              " and TRITONSERVER API " +
              version(TRITONSERVER_API_VERSION_MAJOR, TRITONSERVER_API_VERSION_MINOR) +
              " here: build the library against the headers of these";
  }
  return manta::failure(
      TRITONSERVER_ERROR_NOT_FOUND, "unable to load shared library: " + reason);
}

template <typename F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
}

}  // namespace

namespace manta {

void log_failure(TRITONSERVER_Error* error, const std::string& what) {
  if (error == nullptr) return;
  log(TRITONSERVER_LOG_ERROR,
      what + ": " + TRITONSERVER_ErrorCodeString(error) + " - " + error->text);
  TRITONSERVER_ErrorDelete(error);
}

TRITONSERVER_Error* open_backend(TRITONBACKEND_Backend& backend) {
  if (TRITONSERVER_Error* error = open_library(backend.path, &backend.library)) return error;
  EntryPoints& calls = backend.calls;
  find(backend.library, "TRITONBACKEND_Initialize", calls.initialize);
  find(backend.library, "TRITONBACKEND_Finalize", calls.finalize);
  find(backend.library, "TRITONBACKEND_GetBackendAttribute", calls.attribute);
  find(backend.library, "TRITONBACKEND_ModelInitialize", calls.model_initialize);
  find(backend.library, "TRITONBACKEND_ModelFinalize", calls.model_finalize);
  find(backend.library, "TRITONBACKEND_ModelInstanceInitialize", calls.instance_initialize);
  find(backend.library, "TRITONBACKEND_ModelInstanceFinalize", calls.instance_finalize);
  find(backend.library, "TRITONBACKEND_ModelInstanceReady", calls.instance_ready);
  find(backend.library, "TRITONBACKEND_ModelInstanceExecute", calls.execute);
  if (calls.execute == nullptr) {
    return failure(
        TRITONSERVER_ERROR_NOT_FOUND,
        "unable to find required entrypoint 'TRITONBACKEND_ModelInstanceExecute' in shared "
        "library: " + backend.path);
  }
  if (TRITONSERVER_Error* error = call("TRITONBACKEND_Initialize", calls.initialize, &backend)) {
    return error;
  }
  // As in Triton it is of no consequence if this fails.
  TRITONBACKEND_BackendAttribute attribute;
  log_failure(
      call("TRITONBACKEND_GetBackendAttribute", calls.attribute, &backend, &attribute),
      "backend library '" + backend.path + "' does not tell its attributes");
  return nullptr;
}

TRITONSERVER_Error* open_strategy(TRITONBACKEND_Model& model, const std::string& path) {
  BatchStrategy found;
  if (TRITONSERVER_Error* error = open_library(path, &found.library)) return error;
  find(found.library, "TRITONBACKEND_ModelBatcherInitialize", found.batcher_initialize);
  find(found.library, "TRITONBACKEND_ModelBatcherFinalize", found.batcher_finalize);
  find(found.library, "TRITONBACKEND_ModelBatchInitialize", found.initialize);
  find(found.library, "TRITONBACKEND_ModelBatchIncludeRequest", found.include);
  find(found.library, "TRITONBACKEND_ModelBatchFinalize", found.finalize);
  const int count = (found.batcher_initialize != nullptr) + (found.batcher_finalize != nullptr) +
                    (found.initialize != nullptr) + (found.include != nullptr) +
                    (found.finalize != nullptr);
  if (count == 0) return nullptr;
  if (count != 5) {
    return failure(
        TRITONSERVER_ERROR_INVALID_ARG,
        path + " does not define all required custom batching functions for model " + model.name);
  }
  TRITONSERVER_Error* error = call(
      "TRITONBACKEND_ModelBatcherInitialize", found.batcher_initialize, &found.batcher, &model);
  if (error == nullptr) model.strategy = found;
  return error;
}

void close_strategy(TRITONBACKEND_Model& model) {
  if (model.strategy.library == nullptr) return;
  log_failure(
      call(
          "TRITONBACKEND_ModelBatcherFinalize", model.strategy.batcher_finalize,
          model.strategy.batcher),
      "Custom batcher finalization failed for model " + model.name);
  model.strategy = BatchStrategy();
}

}  // namespace manta
