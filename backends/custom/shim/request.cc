// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// Requests as a library reads them.
//
// Triton: core/src/backend_model.cc TRITONBACKEND_Request*, TRITONBACKEND_Input* @73aad7c

#include "objects.h"

namespace {

TRITONSERVER_Error* invalid(const TRITONBACKEND_Request* request, const std::string& text) {
  return manta::failure(TRITONSERVER_ERROR_INVALID_ARG, request->prefix() + text);
}

TRITONSERVER_Error* out_of_bounds(
    const TRITONBACKEND_Request* request, uint32_t index, size_t count, const char* what) {
  return invalid(
      request, "out of bounds index " + std::to_string(index) + ": request has " +
                   std::to_string(count) + " " + what);
}

bool ask_whether_cancelled(const manta::Answer& answer) {
  const manta::Callbacks* python = manta::callbacks.load();
  return python != nullptr && python->is_cancelled(answer.number());
}

template <typename T, typename V>
void put(T* target, V value) {
  if (target != nullptr) *target = value;
}

}  // namespace

TRITONSERVER_Error* TRITONBACKEND_RequestId(TRITONBACKEND_Request* request, const char** id) {
  *id = request->id.c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestIsCancelled(
    TRITONBACKEND_Request* request, bool* is_cancelled) {
  *is_cancelled = ask_whether_cancelled(*request->answer);
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseFactoryIsCancelled(
    TRITONBACKEND_ResponseFactory* factory, bool* is_cancelled) {
  *is_cancelled = ask_whether_cancelled(*factory->answer);
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestCorrelationId(
    TRITONBACKEND_Request* request, uint64_t* id) {
  if (request->has_text_correlation_id) {
    return invalid(request, "correlation ID in request is not an unsigned int");
  }
  *id = request->correlation_id;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestCorrelationIdString(
    TRITONBACKEND_Request* request, const char** id) {
  if (!request->has_text_correlation_id) {
    return invalid(request, "correlation ID in request is not a string");
  }
  *id = request->correlation_text.c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_InferenceRequestTimeoutMicroseconds(
    TRITONBACKEND_Request* request, uint64_t* timeout) {
  *timeout = request->timeout_us;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestFlags(TRITONBACKEND_Request* request, uint32_t* flags) {
  *flags = request->flags;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestParameterCount(
    TRITONBACKEND_Request* request, uint32_t* count) {
  *count = request->parameters.size();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestParameter(
    TRITONBACKEND_Request* request, uint32_t index, const char** key,
    TRITONSERVER_ParameterType* type, const void** value) {
  if (index >= request->parameters.size()) {
    return manta::failure(
        TRITONSERVER_ERROR_INVALID_ARG,
        "out of bounds index " + std::to_string(index) + ": request has " +
            std::to_string(request->parameters.size()) + " parameters");
  }
  const manta::Parameter& found = request->parameters[index];
  *key = found.name.c_str();
  *type = found.type;
  switch (found.type) {
    case TRITONSERVER_PARAMETER_INT: *value = &found.integer; break;
    case TRITONSERVER_PARAMETER_BOOL: *value = &found.boolean; break;
    case TRITONSERVER_PARAMETER_DOUBLE: *value = &found.number; break;
    default: *value = found.text.c_str();
  }
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestInputCount(
    TRITONBACKEND_Request* request, uint32_t* count) {
  *count = request->inputs.size();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestInputName(
    TRITONBACKEND_Request* request, uint32_t index, const char** name) {
  *name = nullptr;
  const size_t count = request->inputs.size();
  if (index >= count) return out_of_bounds(request, index, count, "inputs");
  *name = request->inputs[index].name.c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestInput(
    TRITONBACKEND_Request* request, const char* name, TRITONBACKEND_Input** input) {
  for (TRITONBACKEND_Input& each : request->inputs) {
    if (each.name == name) {
      *input = &each;
      return nullptr;
    }
  }
  *input = nullptr;
  return invalid(request, std::string("unknown request input name ") + name);
}

TRITONSERVER_Error* TRITONBACKEND_RequestInputByIndex(
    TRITONBACKEND_Request* request, uint32_t index, TRITONBACKEND_Input** input) {
  const size_t count = request->inputs.size();
  if (index >= count) return out_of_bounds(request, index, count, "inputs");
  *input = &request->inputs[index];
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestOutputCount(
    TRITONBACKEND_Request* request, uint32_t* count) {
  *count = request->outputs.size();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestOutputName(
    TRITONBACKEND_Request* request, uint32_t index, const char** name) {
  *name = nullptr;
  const size_t count = request->outputs.size();
  if (index >= count) return out_of_bounds(request, index, count, "requested outputs");
  *name = request->outputs[index].c_str();
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestOutputBufferProperties(
    TRITONBACKEND_Request*, const char*, size_t*, TRITONSERVER_MemoryType* type, int64_t* id) {
  *type = TRITONSERVER_MEMORY_CPU;
  *id = 0;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestRelease(TRITONBACKEND_Request* request, uint32_t flags) {
  const std::shared_ptr<manta::Answer> answer = request->answer;
  // First, so that nothing points to inputs that Python may take back.
  delete request;
  answer->release(flags);
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_RequestTrace(
    TRITONBACKEND_Request*, TRITONSERVER_InferenceTrace** trace) {
  *trace = nullptr;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_InputProperties(
    TRITONBACKEND_Input* input, const char** name, TRITONSERVER_DataType* datatype,
    const int64_t** shape, uint32_t* dims_count, uint64_t* size, uint32_t* buffer_count) {
  put(name, input->name.c_str());
  put(datatype, input->datatype);
  put(shape, input->shape.data());
  put(dims_count, input->shape.size());
  put(size, input->attributes.size);
  put(buffer_count, 1);
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_InputPropertiesForHostPolicy(
    TRITONBACKEND_Input* input, const char*, const char** name, TRITONSERVER_DataType* datatype,
    const int64_t** shape, uint32_t* dims_count, uint64_t* size, uint32_t* buffer_count) {
  return TRITONBACKEND_InputProperties(
      input, name, datatype, shape, dims_count, size, buffer_count);
}

TRITONSERVER_Error* TRITONBACKEND_InputBuffer(
    TRITONBACKEND_Input* input, uint32_t index, const void** buffer, uint64_t* size,
    TRITONSERVER_MemoryType* type, int64_t* id) {
  // As in Triton there is nothing behind the last buffer, and that is no error.
  *buffer = index == 0 ? input->data : nullptr;
  *size = index == 0 ? input->attributes.size : 0;
  *type = TRITONSERVER_MEMORY_CPU;
  *id = 0;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_InputBufferForHostPolicy(
    TRITONBACKEND_Input* input, const char*, uint32_t index, const void** buffer, uint64_t* size,
    TRITONSERVER_MemoryType* type, int64_t* id) {
  return TRITONBACKEND_InputBuffer(input, index, buffer, size, type, id);
}

TRITONSERVER_Error* TRITONBACKEND_InputBufferAttributes(
    TRITONBACKEND_Input* input, uint32_t index, const void** buffer,
    TRITONSERVER_BufferAttributes** attributes) {
  *buffer = index == 0 ? input->data : nullptr;
  *attributes = index == 0 ? &input->attributes : nullptr;
  return nullptr;
}
