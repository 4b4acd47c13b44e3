// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// Errors, messages, parameters, names of types, log lines.

#include <cstdio>
#include <cstring>
#include <iterator>

#include "objects.h"

namespace {

struct Datatype {
  const char* name;
  uint32_t size;
};

// In the order of TRITONSERVER_DataType.
constexpr Datatype datatypes[] = {
    {"<invalid>", 0}, {"BOOL", 1},  {"UINT8", 1}, {"UINT16", 2}, {"UINT32", 4},
    {"UINT64", 8},    {"INT8", 1},  {"INT16", 2}, {"INT32", 4},  {"INT64", 8},
    {"FP16", 2},      {"FP32", 4},  {"FP64", 8},  {"BYTES", 0},  {"BF16", 2},
};
constexpr const char* memory_types[] = {"CPU", "CPU_PINNED", "GPU"};
constexpr const char* parameter_types[] = {"STRING", "INT", "BOOL", "DOUBLE", "BYTES"};
constexpr const char* kinds[] = {"AUTO", "CPU", "GPU", "MODEL"};
constexpr const char* codes[] = {
    "Unknown",     "Internal",    "Not found",      "Invalid argument",
    "Unavailable", "Unsupported", "Already exists", "Cancelled",
};

template <size_t size>
const char* name_of(const char* const (&names)[size], int number) {
  return number >= 0 && static_cast<size_t>(number) < size ? names[number] : "<invalid>";
}

const Datatype& datatype_of(int number) {
  return datatypes[number >= 0 && static_cast<size_t>(number) < std::size(datatypes) ? number : 0];
}

}  // namespace

namespace manta {

std::atomic<const Callbacks*> callbacks{nullptr};
std::atomic<uint32_t> log_mask{0x7};

TRITONSERVER_Error* failure(TRITONSERVER_Error_Code code, const std::string& text) {
  return new TRITONSERVER_Error{code, text};
}

std::string& spoken_text() {
  // Never destroyed: threads of libraries end when they like.
  thread_local std::string* text = new std::string;
  return *text;
}

void log(TRITONSERVER_LogLevel level, const std::string& text) {
  TRITONSERVER_LogMessage(level, "", 0, text.c_str());
}

}  // namespace manta

TRITONSERVER_Error* TRITONSERVER_ApiVersion(uint32_t* major, uint32_t* minor) {
  *major = TRITONSERVER_API_VERSION_MAJOR;
  *minor = TRITONSERVER_API_VERSION_MINOR;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ApiVersion(uint32_t* major, uint32_t* minor) {
  *major = TRITONBACKEND_API_VERSION_MAJOR;
  *minor = TRITONBACKEND_API_VERSION_MINOR;
  return nullptr;
}

const char* TRITONSERVER_DataTypeString(TRITONSERVER_DataType datatype) {
  return datatype_of(datatype).name;
}

TRITONSERVER_DataType TRITONSERVER_StringToDataType(const char* name) {
  for (size_t each = 1; each < std::size(datatypes); ++each) {
    if (std::strcmp(datatypes[each].name, name) == 0) {
      return static_cast<TRITONSERVER_DataType>(each);
    }
  }
  return TRITONSERVER_TYPE_INVALID;
}

uint32_t TRITONSERVER_DataTypeByteSize(TRITONSERVER_DataType datatype) {
  return datatype_of(datatype).size;
}

const char* TRITONSERVER_MemoryTypeString(TRITONSERVER_MemoryType type) {
  return name_of(memory_types, type);
}

const char* TRITONSERVER_ParameterTypeString(TRITONSERVER_ParameterType type) {
  return name_of(parameter_types, type);
}

const char* TRITONSERVER_InstanceGroupKindString(TRITONSERVER_InstanceGroupKind kind) {
  return name_of(kinds, kind);
}

TRITONSERVER_Parameter* TRITONSERVER_ParameterNew(
    const char* name, TRITONSERVER_ParameterType type, const void* value) {
  manta::Parameter made{name, type, ""};
  switch (type) {
    case TRITONSERVER_PARAMETER_STRING: made.text = static_cast<const char*>(value); break;
    case TRITONSERVER_PARAMETER_INT: made.integer = *static_cast<const int64_t*>(value); break;
    case TRITONSERVER_PARAMETER_BOOL: made.boolean = *static_cast<const bool*>(value); break;
    case TRITONSERVER_PARAMETER_DOUBLE: made.number = *static_cast<const double*>(value); break;
    default: return nullptr;
  }
  return new TRITONSERVER_Parameter{std::move(made)};
}

TRITONSERVER_Parameter* TRITONSERVER_ParameterBytesNew(
    const char* name, const void* bytes, uint64_t size) {
  std::string text(static_cast<const char*>(bytes), size);
  return new TRITONSERVER_Parameter{{name, TRITONSERVER_PARAMETER_BYTES, std::move(text)}};
}

void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter* parameter) { delete parameter; }

bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel level) {
  return manta::log_mask.load(std::memory_order_relaxed) >> level & 1;
}

TRITONSERVER_Error* TRITONSERVER_LogMessage(
    TRITONSERVER_LogLevel level, const char* file, int line, const char* text) {
  if (!TRITONSERVER_LogIsEnabled(level)) return nullptr;
  if (const manta::Callbacks* python = manta::callbacks.load()) {
    python->log(level, file, line, text);
  } else {
    std::fprintf(stderr, "%s\n", text);
  }
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char* text) {
  return new TRITONSERVER_Error{code, text == nullptr ? "" : text};
}

void TRITONSERVER_ErrorDelete(TRITONSERVER_Error* error) { delete error; }

TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(TRITONSERVER_Error* error) { return error->code; }

const char* TRITONSERVER_ErrorCodeString(TRITONSERVER_Error* error) {
  return name_of(codes, error->code);
}

const char* TRITONSERVER_ErrorMessage(TRITONSERVER_Error* error) { return error->text.c_str(); }

TRITONSERVER_Error* TRITONSERVER_MessageNewFromSerializedJson(
    TRITONSERVER_Message** message, const char* base, size_t size) {
  *message = new TRITONSERVER_Message{std::string(base, size)};
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MessageDelete(TRITONSERVER_Message* message) {
  delete message;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_MessageSerializeToJson(
    TRITONSERVER_Message* message, const char** base, size_t* size) {
  *base = message->json.c_str();
  *size = message->json.size();
  return nullptr;
}
