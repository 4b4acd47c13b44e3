// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// How answers of a library reach Python. Those of a model that is not decoupled wait in a mailbox
// until the execution is over; those of a decoupled one are delivered at once, by the thread that
// sends them, so that it waits where its client does not take more.

#ifndef MANTA_ANSWERS_H
#define MANTA_ANSWERS_H

#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triton_abi.h"

namespace manta {

// Memory that is aligned as frameworks like it; may be given away.
class Block {
 public:
  Block() = default;
  explicit Block(size_t size);
  Block(Block&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Block& operator=(Block&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Block() { std::free(data_); }

  void* data() const { return data_; }
  size_t size() const { return size_; }
  // The caller frees it.
  void* give_away() { return std::exchange(data_, nullptr); }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

struct Parameter {
  std::string name;
  TRITONSERVER_ParameterType type;
  std::string text;
  int64_t integer = 0;
  double number = 0;
  bool boolean = false;
};

// What is made: an output or a state.
struct Made {
  std::string name;
  TRITONSERVER_DataType datatype;
  std::vector<int64_t> shape;
  Block block;
};

enum class EventKind { response, error, empty, reschedule, gone };

struct Event {
  uint64_t number = 0;
  EventKind kind = EventKind::empty;
  bool is_final = false;
  TRITONSERVER_Error_Code code = TRITONSERVER_ERROR_UNKNOWN;
  std::string text;
  std::vector<Made> outputs;
  std::vector<Made> states;
  std::vector<Parameter> parameters;
};

// Events of one execution, in order.
class Mailbox {
 public:
  void post(Event&& event);
  // Counts requests that are not done with.
  void open();
  void close();
  // Waits until all requests are done with.
  std::vector<Event> wait_closed();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_;
  size_t open_count_ = 0;
};

// Hands an event of a decoupled model to Python; blocks as long as its client does not take more.
void deliver(Event&& event);

// What becomes of one request; shared by it, its responses and its response factories, so that
// the last of them to go notices if there can be no answer any more.
class Answer {
 public:
  // Without a mailbox for a decoupled model.
  Answer(std::shared_ptr<Mailbox> mailbox, uint64_t number, std::string where);
  ~Answer();
  Answer(const Answer&) = delete;

  uint64_t number() const { return number_; }
  // An error if there was a final one before.
  TRITONSERVER_Error* send(Event&& event, uint32_t flags);
  void update_state(Made&& state);
  // The request's inputs are not needed any more.
  void release(uint32_t flags);
  bool is_released() const;
  // Ends it whatever was sent, because the execution failed.
  void fail(TRITONSERVER_Error_Code code, const std::string& text);

 private:
  // What follows for the sender, once the lock is gone: nobody may wait for a client with it.
  std::optional<Event> admit(Event&& event, TRITONSERVER_Error** error);
  void post(Event&& event);

  const std::shared_ptr<Mailbox> mailbox_;
  const uint64_t number_;
  const std::string where_;
  mutable std::mutex mutex_;
  // Keeps events in order.
  std::mutex sending_;
  bool is_released_ = false;
  bool is_rescheduled_ = false;
  bool is_final_ = false;
  // The final event waits for the release, before which inputs may still be read.
  std::optional<Event> held_;
  std::vector<Made> states_;
};

}  // namespace manta

#endif
