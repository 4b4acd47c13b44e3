// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// What a backend may ask and say of itself, its model and its instance.
//
// Triton: core/src/backend_manager.cc, backend_model.cc, backend_model_instance.cc @73aad7c

#include "objects.h"

namespace {

TRITONSERVER_Error* unsupported_version(uint32_t version) {
  return manta::failure(
      TRITONSERVER_ERROR_INVALID_ARG,
      "model configuration version " + std::to_string(version) +
          " not supported, supported versions are: 1");
}

TRITONSERVER_Error* out_of_bounds(uint32_t index, size_t count, const char* what) {
  return manta::failure(
      TRITONSERVER_ERROR_INVALID_ARG,
      "out of bounds index " + std::to_string(index) + ": instance is configured with " +
          std::to_string(count) + " " + what);
}

}  // namespace

TRITONSERVER_Error* TRITONBACKEND_BackendName(TRITONBACKEND_Backend* backend, const char** name) {
  *name = backend->name.c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_BackendConfig(
    TRITONBACKEND_Backend* backend, TRITONSERVER_Message** config) {
  *config = &backend->config;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_BackendExecutionPolicy(
    TRITONBACKEND_Backend* backend, TRITONBACKEND_ExecutionPolicy* policy) {
  *policy = backend->policy;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_BackendSetExecutionPolicy(
    TRITONBACKEND_Backend* backend, TRITONBACKEND_ExecutionPolicy policy) {
  // One instance is one process: there is no thread to share.
  backend->policy = policy;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_BackendArtifacts(
    TRITONBACKEND_Backend* backend, TRITONBACKEND_ArtifactType* type, const char** location) {
  *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  *location = backend->directory.c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_BackendMemoryManager(
    TRITONBACKEND_Backend* backend, TRITONBACKEND_MemoryManager** manager) {
  // It has no state; only whether it is null may matter.
  *manager = reinterpret_cast<TRITONBACKEND_MemoryManager*>(backend);
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_BackendState(TRITONBACKEND_Backend* backend, void** state) {
  *state = backend->state;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend* backend, void* state) {
  backend->state = state;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
    TRITONBACKEND_BackendAttribute*, TRITONSERVER_InstanceGroupKind, uint64_t, const uint64_t*,
    uint64_t) {
  // Instances are planned before any library is loaded.
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(
    TRITONBACKEND_BackendAttribute* attribute, bool enabled) {
  attribute->has_parallel_loading = enabled;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelName(TRITONBACKEND_Model* model, const char** name) {
  *name = model->name.c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelVersion(TRITONBACKEND_Model* model, uint64_t* version) {
  *version = model->version;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelRepository(
    TRITONBACKEND_Model* model, TRITONBACKEND_ArtifactType* type, const char** location) {
  *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  *location = model->directory.c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelConfig(
    TRITONBACKEND_Model* model, uint32_t version, TRITONSERVER_Message** config) {
  if (version != 1) return unsupported_version(version);
  *config = new TRITONSERVER_Message{model->config};
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelAutoCompleteConfig(
    TRITONBACKEND_Model* model, bool* auto_complete) {
  *auto_complete = model->may_complete;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelSetConfig(
    TRITONBACKEND_Model* model, uint32_t version, TRITONSERVER_Message* config) {
  if (version != 1) return unsupported_version(version);
  const manta::Callbacks* python = manta::callbacks.load();
  if (python == nullptr) {
    return manta::failure(TRITONSERVER_ERROR_UNAVAILABLE, "the model is being unloaded");
  }
  const int32_t code = python->set_config(model, config->json.c_str(), config->json.size());
  if (code != 0) {
    return manta::failure(static_cast<TRITONSERVER_Error_Code>(code - 1), manta::spoken_text());
  }
  model->config = manta::spoken_text();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelServer(
    TRITONBACKEND_Model* model, TRITONSERVER_Server** server) {
  // What takes it says that it is not supported.
  *server = reinterpret_cast<TRITONSERVER_Server*>(model);
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelBackend(
    TRITONBACKEND_Model* model, TRITONBACKEND_Backend** backend) {
  *backend = model->backend;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelState(TRITONBACKEND_Model* model, void** state) {
  *state = model->state;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelSetState(TRITONBACKEND_Model* model, void* state) {
  model->state = state;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelReportMemoryUsage(
    TRITONBACKEND_Model*, TRITONSERVER_BufferAttributes**, uint32_t) {
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceName(
    TRITONBACKEND_ModelInstance* instance, const char** name) {
  *name = instance->name.c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceKind(
    TRITONBACKEND_ModelInstance* instance, TRITONSERVER_InstanceGroupKind* kind) {
  *kind = instance->kind;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceDeviceId(
    TRITONBACKEND_ModelInstance* instance, int32_t* id) {
  *id = instance->device_id;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceHostPolicy(
    TRITONBACKEND_ModelInstance* instance, TRITONSERVER_Message** policy) {
  *policy = &instance->host_policy;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceIsPassive(
    TRITONBACKEND_ModelInstance* instance, bool* is_passive) {
  *is_passive = instance->is_passive;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceProfileCount(
    TRITONBACKEND_ModelInstance* instance, uint32_t* count) {
  *count = instance->profiles.size();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceProfileName(
    TRITONBACKEND_ModelInstance* instance, uint32_t index, const char** name) {
  *name = nullptr;
  if (index >= instance->profiles.size()) {
    return out_of_bounds(index, instance->profiles.size(), "profiles");
  }
  *name = instance->profiles[index].c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceSecondaryDeviceCount(
    TRITONBACKEND_ModelInstance* instance, uint32_t* count) {
  *count = instance->secondary_devices.size();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(
    TRITONBACKEND_ModelInstance* instance, uint32_t index, const char** kind, int64_t* id) {
  if (index >= instance->secondary_devices.size()) {
    return out_of_bounds(index, instance->secondary_devices.size(), "secondary devices");
  }
  *kind = instance->secondary_devices[index].first.c_str();
  *id = instance->secondary_devices[index].second;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceModel(
    TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Model** model) {
  *model = instance->model;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceState(
    TRITONBACKEND_ModelInstance* instance, void** state) {
  *state = instance->state;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceSetState(
    TRITONBACKEND_ModelInstance* instance, void* state) {
  instance->state = state;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportMemoryUsage(
    TRITONBACKEND_ModelInstance*, TRITONSERVER_BufferAttributes**, uint32_t) {
  return nullptr;
}
