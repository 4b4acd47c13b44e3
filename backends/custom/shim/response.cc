// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// Responses, their outputs, and states, as a library makes them.
//
// Triton: core/src/backend_model.cc TRITONBACKEND_Response*, TRITONBACKEND_State*,
// core/src/infer_response.cc, sequence_state.cc @73aad7c

#include <cstring>
#include <new>

#include "objects.h"

namespace {

TRITONSERVER_Error* no_response() {
  return manta::failure(TRITONSERVER_ERROR_INVALID_ARG, "response was nullptr");
}

// Gives memory of the CPU, whatever was asked for: libraries look at what they got.
TRITONSERVER_Error* allocate(
    manta::Made& made, TRITONSERVER_BufferAttributes& attributes, void** buffer, uint64_t size,
    TRITONSERVER_MemoryType* type, int64_t* id) {
  *buffer = nullptr;
  try {
    made.block = manta::Block(size);
  } catch (const std::bad_alloc&) {
    return manta::failure(
        TRITONSERVER_ERROR_UNAVAILABLE,
        "no memory for the " + std::to_string(size) + " bytes of '" + made.name + "'");
  }
  *buffer = made.block.data();
  *type = attributes.type = TRITONSERVER_MEMORY_CPU;
  *id = attributes.id = 0;
  attributes.size = size;
  return nullptr;
}

TRITONSERVER_Error* add_parameter(TRITONBACKEND_Response* response, manta::Parameter&& parameter) {
  if (response == nullptr) return no_response();
  response->parameters.push_back(std::move(parameter));
  return nullptr;
}

// An output whose buffer does not have the size of its shape is no tensor.
std::string unfit(const TRITONBACKEND_Output& output) {
  const manta::Made& made = output.made;
  const size_t element = TRITONSERVER_DataTypeByteSize(made.datatype);
  size_t count = 1;
  std::string shape;
  for (int64_t dim : made.shape) {
    if (dim < 0) return "output '" + made.name + "' was given a negative dimension";
    count *= dim;
    shape += (shape.empty() ? "" : ",") + std::to_string(dim);
  }
  if (element == 0 || element * count == made.block.size()) return "";
  return "output '" + made.name + "' of shape [" + shape + "] and datatype " +
         TRITONSERVER_DataTypeString(made.datatype) + " has a buffer of " +
         std::to_string(made.block.size()) + " bytes, expected " + std::to_string(element * count);
}

manta::Event event_of(TRITONBACKEND_Response& response, TRITONSERVER_Error* error) {
  manta::Event event;
  event.kind = manta::EventKind::error;
  if (error != nullptr) {
    event.code = error->code;
    event.text = error->text;
    return event;
  }
  for (const auto& output : response.outputs) {
    if (const std::string reason = unfit(*output); !reason.empty()) {
      event.code = TRITONSERVER_ERROR_INTERNAL;
      event.text = "model '" + response.model->name + "': " + reason;
      return event;
    }
  }
  event.kind = manta::EventKind::response;
  for (auto& output : response.outputs) event.outputs.push_back(std::move(output->made));
  event.parameters = std::move(response.parameters);
  return event;
}

}  // namespace

TRITONSERVER_Error* TRITONBACKEND_ResponseFactoryNew(
    TRITONBACKEND_ResponseFactory** factory, TRITONBACKEND_Request* request) {
  *factory = new TRITONBACKEND_ResponseFactory{request->model, request->answer};
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory* factory) {
  delete factory;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseFactorySendFlags(
    TRITONBACKEND_ResponseFactory* factory, uint32_t flags) {
  return factory->answer->send(manta::Event(), flags);
}

TRITONSERVER_Error* TRITONBACKEND_ResponseNew(
    TRITONBACKEND_Response** response, TRITONBACKEND_Request* request) {
  *response = new TRITONBACKEND_Response{request->model, request->answer, {}, {}};
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseNewFromFactory(
    TRITONBACKEND_Response** response, TRITONBACKEND_ResponseFactory* factory) {
  *response = new TRITONBACKEND_Response{factory->model, factory->answer, {}, {}};
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response* response) {
  delete response;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseSetStringParameter(
    TRITONBACKEND_Response* response, const char* name, const char* value) {
  return add_parameter(response, {name, TRITONSERVER_PARAMETER_STRING, value});
}

TRITONSERVER_Error* TRITONBACKEND_ResponseSetIntParameter(
    TRITONBACKEND_Response* response, const char* name, int64_t value) {
  return add_parameter(response, {name, TRITONSERVER_PARAMETER_INT, "", value});
}

TRITONSERVER_Error* TRITONBACKEND_ResponseSetBoolParameter(
    TRITONBACKEND_Response* response, const char* name, bool value) {
  return add_parameter(response, {name, TRITONSERVER_PARAMETER_BOOL, "", 0, 0, value});
}

TRITONSERVER_Error* TRITONBACKEND_ResponseSetDoubleParameter(
    TRITONBACKEND_Response* response, const char* name, double value) {
  return add_parameter(response, {name, TRITONSERVER_PARAMETER_DOUBLE, "", 0, value});
}

TRITONSERVER_Error* TRITONBACKEND_ResponseOutput(
    TRITONBACKEND_Response* response, TRITONBACKEND_Output** output, const char* name,
    TRITONSERVER_DataType datatype, const int64_t* shape, uint32_t dims_count) {
  *output = nullptr;
  if (response == nullptr) return no_response();
  if (response->model->outputs.count(name) == 0) {
    return manta::failure(
        TRITONSERVER_ERROR_INVALID_ARG, std::string("unexpected inference output '") + name +
                                            "' for model '" + response->model->name + "'");
  }
  auto made = std::make_unique<TRITONBACKEND_Output>();
  made->made.name = name;
  made->made.datatype = datatype;
  made->made.shape.assign(shape, shape + dims_count);
  *output = made.get();
  response->outputs.push_back(std::move(made));
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_OutputBuffer(
    TRITONBACKEND_Output* output, void** buffer, uint64_t size, TRITONSERVER_MemoryType* type,
    int64_t* id) {
  if (output->has_buffer) {
    *buffer = nullptr;
    return manta::failure(
        TRITONSERVER_ERROR_ALREADY_EXISTS,
        "allocated buffer for output '" + output->made.name + "' already exists");
  }
  output->has_buffer = true;
  return allocate(output->made, output->attributes, buffer, size, type, id);
}

TRITONSERVER_Error* TRITONBACKEND_OutputBufferAttributes(
    TRITONBACKEND_Output* output, TRITONSERVER_BufferAttributes** attributes) {
  *attributes = &output->attributes;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseSend(
    TRITONBACKEND_Response* response, uint32_t flags, TRITONSERVER_Error* error) {
  if (response == nullptr) return no_response();
  const std::unique_ptr<TRITONBACKEND_Response> owned(response);
  return response->answer->send(event_of(*response, error), flags);
}

TRITONSERVER_Error* TRITONBACKEND_InferenceResponseOutputByName(
    TRITONBACKEND_Response* response, const char* name, TRITONSERVER_DataType* datatype,
    const int64_t** shape, uint64_t* dims_count) {
  for (const auto& output : response->outputs) {
    if (output->made.name == name) {
      *datatype = output->made.datatype;
      *shape = output->made.shape.data();
      *dims_count = output->made.shape.size();
      return nullptr;
    }
  }
  return manta::failure(
      TRITONSERVER_ERROR_NOT_FOUND, std::string("Output name ") + name + "not found.");
}

TRITONSERVER_Error* TRITONBACKEND_InferenceResponseOutput(
    TRITONBACKEND_Response* response, uint32_t index, const char** name,
    TRITONSERVER_DataType* datatype, const int64_t** shape, uint64_t* dims_count) {
  if (index >= response->outputs.size()) {
    return manta::failure(
        TRITONSERVER_ERROR_INVALID_ARG,
        "out of bounds index " + std::to_string(index) + ": response has " +
            std::to_string(response->outputs.size()) + " outputs");
  }
  *name = response->outputs[index]->made.name.c_str();
  return TRITONBACKEND_InferenceResponseOutputByName(
      response, *name, datatype, shape, dims_count);
}

TRITONSERVER_Error* TRITONBACKEND_StateNew(
    TRITONBACKEND_State** state, TRITONBACKEND_Request* request, const char* name,
    TRITONSERVER_DataType datatype, const int64_t* shape, uint32_t dims_count) {
  const auto& states = request->model->states;
  if (states.empty()) {
    return manta::failure(
        TRITONSERVER_ERROR_INVALID_ARG, std::string("unable to add state '") + name +
                                            "'. State configuration is missing for model '" +
                                            request->model->name + "'.");
  }
  const auto found = states.find(name);
  if (found == states.end()) {
    return manta::failure(
        TRITONSERVER_ERROR_INVALID_ARG,
        std::string("state '") + name + "' is not a valid state name.");
  }
  auto made = std::make_unique<TRITONBACKEND_State>();
  made->answer = request->answer;
  made->made.name = name;
  made->made.datatype = datatype;
  made->made.shape.assign(shape, shape + dims_count);
  for (const TRITONBACKEND_Input& input : request->inputs) {
    if (input.name == found->second) made->initial = &input;
  }
  *state = made.get();
  request->states.push_back(std::move(made));
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_StateBuffer(
    TRITONBACKEND_State* state, void** buffer, uint64_t size, TRITONSERVER_MemoryType* type,
    int64_t* id) {
  TRITONSERVER_Error* error = allocate(state->made, state->attributes, buffer, size, type, id);
  if (error == nullptr && state->initial != nullptr && state->initial->attributes.size == size) {
    std::memcpy(*buffer, state->initial->data, size);
  }
  return error;
}

TRITONSERVER_Error* TRITONBACKEND_StateBufferAttributes(
    TRITONBACKEND_State* state, TRITONSERVER_BufferAttributes** attributes) {
  *attributes = &state->attributes;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_StateUpdate(TRITONBACKEND_State* state) {
  if (state->made.block.data() == nullptr) {
    return manta::failure(
        TRITONSERVER_ERROR_INVALID_ARG,
        "state '" + state->made.name + "' was updated without a buffer");
  }
  state->answer->update_state(std::move(state->made));
  return nullptr;
}
