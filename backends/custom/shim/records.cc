// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

#include "records.h"

#include <cstring>

namespace {

// Smaller outputs are copied into the record: that is cheaper than to give memory away.
constexpr size_t copied_below = 16384;

std::string text(manta::Reader& in) { return std::string(in.text()); }

std::vector<std::string> texts(manta::Reader& in) {
  std::vector<std::string> found(in.array());
  for (std::string& each : found) each = text(in);
  return found;
}

manta::Parameter parameter(manta::Reader& in) {
  manta::Parameter found{text(in), TRITONSERVER_PARAMETER_STRING, ""};
  if (in.is_text()) {
    found.text = text(in);
  } else if (in.is_boolean()) {
    found.type = TRITONSERVER_PARAMETER_BOOL;
    found.boolean = in.boolean();
  } else if (in.is_number()) {
    found.type = TRITONSERVER_PARAMETER_DOUBLE;
    found.number = in.number();
  } else {
    found.type = TRITONSERVER_PARAMETER_INT;
    found.integer = in.integer();
  }
  return found;
}

// A backends.api.request.Tensor.
void read_input(manta::Reader& in, TRITONBACKEND_Input& input) {
  in.array();
  input.name = text(in);
  input.datatype = TRITONSERVER_StringToDataType(text(in).c_str());
  input.shape.resize(in.array());
  for (int64_t& dim : input.shape) dim = in.integer();
  const std::string_view data = in.text();
  in.nil();
  input.block = manta::Block(data.size());
  std::memcpy(input.block.data(), data.data(), data.size());
  input.data = input.block.data();
  input.attributes.size = data.size();
}

// Uses Python's memory where it is aligned; else copies it, as libraries cast pointers.
void place_input(TRITONBACKEND_Input& input, uint64_t address, uint64_t size) {
  const size_t element = TRITONSERVER_DataTypeByteSize(input.datatype);
  const void* data = reinterpret_cast<const void*>(address);
  if (element > 1 && address % element != 0) {
    input.block = manta::Block(size);
    std::memcpy(input.block.data(), data, size);
    data = input.block.data();
  }
  input.data = data;
  input.attributes.size = size;
}

void write_parameter(manta::Writer& out, const manta::Parameter& parameter) {
  out.text(parameter.name);
  switch (parameter.type) {
    case TRITONSERVER_PARAMETER_INT: out.integer(parameter.integer); break;
    case TRITONSERVER_PARAMETER_BOOL: out.boolean(parameter.boolean); break;
    case TRITONSERVER_PARAMETER_DOUBLE: out.number(parameter.number); break;
    default: out.text(parameter.text);
  }
}

// Writes tensors, and then of the large ones index, address and size: Python frees these.
void write_made(manta::Writer& out, std::vector<manta::Made>& made) {
  std::vector<size_t> large;
  out.array(made.size());
  for (size_t index = 0; index < made.size(); ++index) {
    manta::Made& each = made[index];
    out.array(4);
    out.text(each.name);
    out.text(TRITONSERVER_DataTypeString(each.datatype));
    out.array(each.shape.size());
    for (int64_t dim : each.shape) out.integer(dim);
    const size_t size = each.block.size();
    if (size < copied_below) {
      out.binary(each.block.data(), size);
    } else {
      out.binary("", 0);
      large.push_back(index);
    }
  }
  out.array(large.size());
  for (size_t index : large) {
    out.array(3);
    out.integer(index);
    out.integer(made[index].block.size());
    out.integer(reinterpret_cast<intptr_t>(made[index].block.give_away()));
  }
}

}  // namespace

namespace manta {

void read_backend(Reader& in, TRITONBACKEND_Backend& backend) {
  in.array();
  backend.name = text(in);
  backend.path = text(in);
  backend.directory = text(in);
  backend.config.json = text(in);
}

std::string read_model(Reader& in, TRITONBACKEND_Model& model) {
  in.array();
  model.name = text(in);
  model.version = in.integer();
  model.directory = text(in);
  model.config = text(in);
  model.may_complete = in.boolean();
  model.is_decoupled = in.boolean();
  model.outputs.clear();
  for (std::string& name : texts(in)) model.outputs.insert(std::move(name));
  model.states.clear();
  for (uint32_t left = in.map(); left > 0; --left) {
    std::string name = text(in);
    model.states[std::move(name)] = text(in);
  }
  return text(in);
}

void read_instance(Reader& in, TRITONBACKEND_ModelInstance& instance) {
  in.array();
  instance.name = text(in);
  instance.kind = static_cast<TRITONSERVER_InstanceGroupKind>(in.integer());
  instance.device_id = static_cast<int32_t>(in.integer());
  instance.is_passive = in.boolean();
  instance.profiles = texts(in);
  for (uint32_t left = in.array(); left > 0; --left) {
    in.array();
    std::string kind = text(in);
    instance.secondary_devices.emplace_back(std::move(kind), in.integer());
  }
  instance.host_policy.json = text(in);
}

std::unique_ptr<TRITONBACKEND_Request> read_request(
    Reader& in, TRITONBACKEND_Model& model, const std::shared_ptr<Mailbox>& mailbox) {
  auto request = std::make_unique<TRITONBACKEND_Request>();
  in.array();
  const uint64_t number = in.integer();
  request->model = &model;
  request->answer = std::make_shared<Answer>(
      mailbox, number, "model '" + model.name + "': its backend library");
  request->id = text(in);
  if (in.is_text()) {
    request->correlation_text = text(in);
    request->has_text_correlation_id = true;
  } else {
    request->correlation_id = in.integer();
  }
  request->flags = static_cast<uint32_t>(in.integer());
  request->timeout_us = in.integer();
  for (uint32_t left = in.map(); left > 0; --left) request->parameters.push_back(parameter(in));
  request->outputs = texts(in);
  // Never resized after, as handles point into it.
  request->inputs = std::vector<TRITONBACKEND_Input>(in.array());
  for (TRITONBACKEND_Input& input : request->inputs) read_input(in, input);
  for (uint32_t left = in.array(); left > 0; --left) {
    in.array();
    const size_t index = in.integer();
    const uint64_t size = in.integer();
    place_input(request->inputs.at(index), in.integer(), size);
  }
  return request;
}

void write_events(Writer& out, std::vector<Event>& events) {
  out.array(events.size());
  for (Event& event : events) {
    out.array(9);
    out.integer(event.number);
    out.integer(static_cast<int>(event.kind));
    out.boolean(event.is_final);
    out.integer(event.code);
    out.text(event.text);
    out.map(event.parameters.size());
    for (const Parameter& each : event.parameters) write_parameter(out, each);
    out.integer(event.outputs.size());
    // States behind outputs, in one list.
    for (Made& state : event.states) event.outputs.push_back(std::move(state));
    write_made(out, event.outputs);
  }
}

void deliver(Event&& event) {
  const Callbacks* python = callbacks.load();
  if (python == nullptr) return;
  std::vector<Event> events;
  events.push_back(std::move(event));
  Writer out;
  write_events(out, events);
  python->deliver(out.bytes().data(), out.bytes().size());
}

}  // namespace manta
