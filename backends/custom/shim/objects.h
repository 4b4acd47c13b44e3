// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// What the handles of the binary interface are.

#ifndef MANTA_OBJECTS_H
#define MANTA_OBJECTS_H

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "answers.h"
#include "triton_abi.h"

struct TRITONSERVER_Error {
  TRITONSERVER_Error_Code code;
  std::string text;
};

struct TRITONSERVER_Message {
  std::string json;
};

struct TRITONSERVER_BufferAttributes {
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  size_t size = 0;
  void* cuda_ipc_handle = nullptr;
};

struct TRITONSERVER_Parameter {
  manta::Parameter value;
};

namespace manta {

// The functions of a library; null where it has none.
struct EntryPoints {
  TRITONSERVER_Error* (*initialize)(TRITONBACKEND_Backend*) = nullptr;
  TRITONSERVER_Error* (*finalize)(TRITONBACKEND_Backend*) = nullptr;
  TRITONSERVER_Error* (*attribute)(TRITONBACKEND_Backend*, TRITONBACKEND_BackendAttribute*) =
      nullptr;
  TRITONSERVER_Error* (*model_initialize)(TRITONBACKEND_Model*) = nullptr;
  TRITONSERVER_Error* (*model_finalize)(TRITONBACKEND_Model*) = nullptr;
  TRITONSERVER_Error* (*instance_initialize)(TRITONBACKEND_ModelInstance*) = nullptr;
  TRITONSERVER_Error* (*instance_finalize)(TRITONBACKEND_ModelInstance*) = nullptr;
  TRITONSERVER_Error* (*instance_ready)(TRITONBACKEND_ModelInstance*) = nullptr;
  TRITONSERVER_Error* (*execute)(TRITONBACKEND_ModelInstance*, TRITONBACKEND_Request**, uint32_t) =
      nullptr;
};

// A library that says which requests may be in one batch.
struct BatchStrategy {
  void* library = nullptr;
  TRITONBACKEND_Batcher* batcher = nullptr;
  TRITONSERVER_Error* (*batcher_initialize)(TRITONBACKEND_Batcher**, TRITONBACKEND_Model*) =
      nullptr;
  TRITONSERVER_Error* (*batcher_finalize)(TRITONBACKEND_Batcher*) = nullptr;
  TRITONSERVER_Error* (*initialize)(const TRITONBACKEND_Batcher*, void**) = nullptr;
  TRITONSERVER_Error* (*include)(TRITONBACKEND_Request*, void*, bool*) = nullptr;
  TRITONSERVER_Error* (*finalize)(void*) = nullptr;
};

}  // namespace manta

struct TRITONBACKEND_BackendAttribute {
  bool has_parallel_loading = false;
};

struct TRITONBACKEND_Backend {
  std::string name;
  std::string path;
  std::string directory;
  void* library = nullptr;
  manta::EntryPoints calls;
  TRITONSERVER_Message config;
  TRITONBACKEND_ExecutionPolicy policy = TRITONBACKEND_EXECUTION_BLOCKING;
  void* state = nullptr;
};

struct TRITONBACKEND_Model {
  TRITONBACKEND_Backend* backend = nullptr;
  std::string name;
  uint64_t version = 0;
  std::string directory;
  std::string config;
  bool may_complete = false;
  bool is_decoupled = false;
  std::set<std::string> outputs;
  // By the name of a state's output the name of its input, if both are one buffer; else "".
  std::map<std::string, std::string> states;
  manta::BatchStrategy strategy;
  void* state = nullptr;
};

struct TRITONBACKEND_ModelInstance {
  TRITONBACKEND_Model* model = nullptr;
  std::string name;
  TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_CPU;
  int32_t device_id = 0;
  bool is_passive = false;
  std::vector<std::string> profiles;
  std::vector<std::pair<std::string, int64_t>> secondary_devices;
  TRITONSERVER_Message host_policy;
  void* state = nullptr;
  // When the present execution had its inputs, first, and its outputs, last; 0 for not said.
  std::atomic<uint64_t> compute_start_ns{0};
  std::atomic<uint64_t> compute_end_ns{0};
};

struct TRITONBACKEND_Input {
  std::string name;
  TRITONSERVER_DataType datatype = TRITONSERVER_TYPE_INVALID;
  std::vector<int64_t> shape;
  // In the block, or in Python's memory.
  const void* data = nullptr;
  manta::Block block;
  TRITONSERVER_BufferAttributes attributes;
};

struct TRITONBACKEND_State {
  std::shared_ptr<manta::Answer> answer;
  manta::Made made;
  // What the buffer holds at first; null for anything.
  const TRITONBACKEND_Input* initial = nullptr;
  TRITONSERVER_BufferAttributes attributes;
};

struct TRITONBACKEND_Request {
  TRITONBACKEND_Model* model = nullptr;
  std::shared_ptr<manta::Answer> answer;
  std::string id;
  bool has_text_correlation_id = false;
  uint64_t correlation_id = 0;
  std::string correlation_text;
  uint32_t flags = 0;
  uint64_t timeout_us = 0;
  std::vector<manta::Parameter> parameters;
  std::vector<std::string> outputs;
  std::vector<TRITONBACKEND_Input> inputs;
  // Freed with the request, as Triton's are with their sequence.
  std::vector<std::unique_ptr<TRITONBACKEND_State>> states;

  // Before errors about a request.
  std::string prefix() const {
    return "[request id: " + (id.empty() ? "<id_unknown>" : id) + "] ";
  }
};

struct TRITONBACKEND_Output {
  manta::Made made;
  bool has_buffer = false;
  TRITONSERVER_BufferAttributes attributes;
};

struct TRITONBACKEND_ResponseFactory {
  TRITONBACKEND_Model* model = nullptr;
  std::shared_ptr<manta::Answer> answer;
};

struct TRITONBACKEND_Response {
  TRITONBACKEND_Model* model = nullptr;
  std::shared_ptr<manta::Answer> answer;
  // Handles of outputs stay valid when others are added.
  std::vector<std::unique_ptr<TRITONBACKEND_Output>> outputs;
  std::vector<manta::Parameter> parameters;
};

struct TRITONBACKEND_ModelInstanceResponseStatistics {};

namespace manta {

TRITONSERVER_Error* failure(TRITONSERVER_Error_Code code, const std::string& text);

// Python's functions, which libraries reach from any thread; null where there is no Python (any
// more).
struct Callbacks {
  void (*log)(int32_t level, const char* file, int32_t line, const char* text);
  int32_t (*is_cancelled)(uint64_t number);
  void (*deliver)(const char* events, size_t size);
  // Returns 0, or an error's code and 1; leaves a text with manta_put_text.
  int32_t (*set_config)(TRITONBACKEND_Model* model, const char* json, size_t size);
};
extern std::atomic<const Callbacks*> callbacks;
// Bit of each level that is logged.
extern std::atomic<uint32_t> log_mask;
// What a callback or a function has to say, of the calling thread.
std::string& spoken_text();

void log(TRITONSERVER_LogLevel level, const std::string& text);

// Names what a library was doing when the process crashes. The text has to outlive it.
class Stage {
 public:
  explicit Stage(const char* function);
  ~Stage();

 private:
  const char* const previous_;
};
void watch_for_crashes(const std::string& whose);

}  // namespace manta

#endif
