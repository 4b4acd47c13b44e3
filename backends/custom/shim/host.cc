// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// What Python calls, without its lock: backends/custom/calls.py declares the same functions.
//
// A function returns 0, or an error's code and 1; manta_text() is the error's text then, and else
// what the function answers, until the thread calls the next one.

#include "library.h"
#include "metrics.h"
#include "records.h"

#define MANTA_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using manta::call;
using manta::Reader;
using manta::spoken_text;
using manta::Writer;

int32_t told(TRITONSERVER_Error* error) {
  if (error == nullptr) return 0;
  const int32_t code = error->code + 1;
  spoken_text() = error->text;
  TRITONSERVER_ErrorDelete(error);
  return code;
}

// Runs a function of Python's; nothing may be thrown into Python.
template <typename F>
int32_t guarded(F function) {
  try {
    return told(function());
  } catch (const std::exception& thrown) {
    spoken_text() = thrown.what();
    return TRITONSERVER_ERROR_INTERNAL + 1;
  }
}

// Requests on their way into a library, and what becomes of them if it does not take them.
struct Batch {
  std::vector<TRITONBACKEND_Request*> requests;
  std::vector<std::shared_ptr<manta::Answer>> answers;

  void add(std::unique_ptr<TRITONBACKEND_Request> request) {
    answers.push_back(request->answer);
    requests.push_back(request.release());
  }

  // The library has failed, and the requests are ours, but for those it released nevertheless.
  void fail(TRITONSERVER_Error* error) {
    for (size_t each = 0; each < requests.size(); ++each) {
      const bool is_ours = !answers[each]->is_released();
      answers[each]->fail(error->code, error->text);
      if (is_ours) delete requests[each];
    }
    TRITONSERVER_ErrorDelete(error);
  }
};

void execute(TRITONBACKEND_ModelInstance& instance, Batch batch) {
  TRITONSERVER_Error* error = call(
      "TRITONBACKEND_ModelInstanceExecute", instance.model->backend->calls.execute, &instance,
      batch.requests.data(), static_cast<uint32_t>(batch.requests.size()));
  if (error != nullptr) batch.fail(error);
}

// Asks the batching library whether a request may join the batch.
class Admission {
 public:
  explicit Admission(const TRITONBACKEND_Model& model) : model_(model) { begin(); }
  ~Admission() { end(); }

  bool admits(TRITONBACKEND_Request* request) {
    bool should_include = false;
    manta::log_failure(
        call(
            "TRITONBACKEND_ModelBatchIncludeRequest", model_.strategy.include, request, user_,
            &should_include),
        "Custom batching include function failed for model " + model_.name);
    return should_include;
  }

  void restart() {
    end();
    begin();
  }

 private:
  void begin() {
    manta::log_failure(
        call(
            "TRITONBACKEND_ModelBatchInitialize", model_.strategy.initialize,
            static_cast<const TRITONBACKEND_Batcher*>(model_.strategy.batcher), &user_),
        "Custom batching initialization function failed for model " + model_.name);
  }
  void end() {
    manta::log_failure(
        call("TRITONBACKEND_ModelBatchFinalize", model_.strategy.finalize, user_),
        "Custom batching finalization function failed for model " + model_.name);
    user_ = nullptr;
  }

  const TRITONBACKEND_Model& model_;
  void* user_ = nullptr;
};

// Divides a batch where the model's batching library ends one. The scheduler has seen to sizes
// and delays; a batch never grows here.
std::vector<Batch> divided(Batch batch, const TRITONBACKEND_Model& model) {
  std::vector<Batch> parts;
  if (model.strategy.library == nullptr) {
    parts.push_back(std::move(batch));
    return parts;
  }
  Admission admission(model);
  for (size_t each = 0; each < batch.requests.size(); ++each) {
    TRITONBACKEND_Request* request = batch.requests[each];
    const bool joins = admission.admits(request);
    if (parts.empty() || !joins) {
      if (!parts.empty()) {
        // The first of a batch is asked about too, but is in it whatever the answer is.
        admission.restart();
        admission.admits(request);
      }
      parts.emplace_back();
    }
    parts.back().requests.push_back(request);
    parts.back().answers.push_back(std::move(batch.answers[each]));
  }
  return parts;
}

}  // namespace

MANTA_EXPORT const char* manta_text(size_t* size) {
  *size = spoken_text().size();
  return spoken_text().data();
}

MANTA_EXPORT void manta_put_text(const char* text, size_t size) {
  spoken_text().assign(text, size);
}

MANTA_EXPORT void manta_free(void* data) { std::free(data); }

MANTA_EXPORT void manta_set_callbacks(
    void (*log)(int32_t, const char*, int32_t, const char*), int32_t (*is_cancelled)(uint64_t),
    void (*deliver)(const char*, size_t),
    int32_t (*set_config)(TRITONBACKEND_Model*, const char*, size_t)) {
  // Those before are kept: a thread may be about to call one.
  manta::callbacks.store(
      log == nullptr ? nullptr : new manta::Callbacks{log, is_cancelled, deliver, set_config});
}

MANTA_EXPORT void manta_set_log_mask(uint32_t mask) { manta::log_mask.store(mask); }

MANTA_EXPORT int32_t manta_open_backend(
    const uint8_t* record, size_t size, TRITONBACKEND_Backend** made) {
  return guarded([=]() -> TRITONSERVER_Error* {
    auto backend = std::make_unique<TRITONBACKEND_Backend>();
    Reader in(record, size);
    manta::read_backend(in, *backend);
    manta::watch_for_crashes("backend library '" + backend->path + "'");
    if (TRITONSERVER_Error* error = manta::open_backend(*backend)) return error;
    *made = backend.release();
    return nullptr;
  });
}

// What is closed is not freed, and the library stays open: a thread that the library forgot may
// still report something or run its code, and the process is about to end.

MANTA_EXPORT int32_t manta_close_backend(TRITONBACKEND_Backend* backend) {
  return told(call("TRITONBACKEND_Finalize", backend->calls.finalize, backend));
}

MANTA_EXPORT int32_t manta_open_model(
    TRITONBACKEND_Backend* backend, const uint8_t* record, size_t size,
    TRITONBACKEND_Model** made) {
  return guarded([=]() -> TRITONSERVER_Error* {
    auto model = std::make_unique<TRITONBACKEND_Model>();
    model->backend = backend;
    Reader in(record, size);
    manta::read_model(in, *model);
    manta::watch_for_crashes(
        "backend library '" + backend->path + "' of model '" + model->name + "'");
    *made = model.get();
    TRITONSERVER_Error* error =
        call("TRITONBACKEND_ModelInitialize", backend->calls.model_initialize, model.get());
    if (error != nullptr) {
      *made = nullptr;
      return error;
    }
    model.release();
    return nullptr;
  });
}

// Gives a model its complete config, and the batching library that this names.
MANTA_EXPORT int32_t manta_complete_model(
    TRITONBACKEND_Model* model, const uint8_t* record, size_t size) {
  return guarded([=] {
    Reader in(record, size);
    const std::string strategy = manta::read_model(in, *model);
    return strategy.empty() ? nullptr : manta::open_strategy(*model, strategy);
  });
}

MANTA_EXPORT int32_t manta_close_model(TRITONBACKEND_Model* model) {
  manta::close_strategy(*model);
  return told(
      call("TRITONBACKEND_ModelFinalize", model->backend->calls.model_finalize, model));
}

MANTA_EXPORT int32_t manta_open_instance(
    TRITONBACKEND_Model* model, const uint8_t* record, size_t size,
    TRITONBACKEND_ModelInstance** made) {
  return guarded([=]() -> TRITONSERVER_Error* {
    auto instance = std::make_unique<TRITONBACKEND_ModelInstance>();
    instance->model = model;
    Reader in(record, size);
    manta::read_instance(in, *instance);
    TRITONSERVER_Error* error = call(
        "TRITONBACKEND_ModelInstanceInitialize", model->backend->calls.instance_initialize,
        instance.get());
    if (error == nullptr) *made = instance.release();
    return error;
  });
}

MANTA_EXPORT int32_t manta_close_instance(TRITONBACKEND_ModelInstance* instance) {
  return told(call(
      "TRITONBACKEND_ModelInstanceFinalize", instance->model->backend->calls.instance_finalize,
      instance));
}

MANTA_EXPORT int32_t manta_has_ready(TRITONBACKEND_ModelInstance* instance) {
  return instance->model->backend->calls.instance_ready != nullptr;
}

MANTA_EXPORT int32_t manta_ready(TRITONBACKEND_ModelInstance* instance) {
  return told(call(
      "TRITONBACKEND_ModelInstanceReady", instance->model->backend->calls.instance_ready,
      instance));
}

// Executes requests. Of a model that is not decoupled the answers are in the text; those of
// others are delivered.
MANTA_EXPORT int32_t manta_execute(
    TRITONBACKEND_ModelInstance* instance, const uint8_t* record, size_t size) {
  return guarded([=]() -> TRITONSERVER_Error* {
    TRITONBACKEND_Model& model = *instance->model;
    const auto mailbox = model.is_decoupled ? nullptr : std::make_shared<manta::Mailbox>();
    instance->compute_start_ns.store(0);
    instance->compute_end_ns.store(0);
    Reader in(record, size);
    Batch batch;
    for (uint32_t left = in.array(); left > 0; --left) {
      batch.add(manta::read_request(in, model, mailbox));
    }
    for (Batch& part : divided(std::move(batch), model)) {
      execute(*instance, std::exchange(part, {}));
    }
    std::vector<manta::Event> events;
    if (mailbox) events = mailbox->wait_closed();
    Writer out;
    out.array(3);
    out.integer(instance->compute_start_ns.load());
    out.integer(instance->compute_end_ns.load());
    manta::write_events(out, events);
    spoken_text() = out.bytes();
    return nullptr;
  });
}

MANTA_EXPORT void manta_metrics() {
  Writer out;
  manta::write_metrics(out);
  spoken_text() = out.bytes();
}
