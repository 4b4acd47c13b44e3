// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0

#include "answers.h"

#include <new>

#include "objects.h"

namespace manta {

namespace {
constexpr size_t alignment = 64;
}

Block::Block(size_t size) : size_(size) {
  // Rounded up, as aligned_alloc wants it; never null, which libraries take for a failure.
  const size_t rounded = (size / alignment + 1) * alignment;
  data_ = std::aligned_alloc(alignment, rounded);
  if (data_ == nullptr) throw std::bad_alloc();
}

void Mailbox::post(Event&& event) {
  std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

void Mailbox::open() {
  std::lock_guard lock(mutex_);
  ++open_count_;
}

void Mailbox::close() {
  std::lock_guard lock(mutex_);
  --open_count_;
  changed_.notify_all();
}

std::vector<Event> Mailbox::wait_closed() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return open_count_ == 0; });
  return std::exchange(events_, {});
}

Answer::Answer(std::shared_ptr<Mailbox> mailbox, uint64_t number, std::string where)
    : mailbox_(std::move(mailbox)), number_(number), where_(std::move(where)) {
  if (mailbox_) mailbox_->open();
}

Answer::~Answer() {
  // Held events are posted by the release, which comes before this.
  if (is_final_) return;
  if (is_rescheduled_) {
    Event event;
    event.number = number_;
    event.kind = EventKind::gone;
    event.is_final = true;
    post(std::move(event));
    return;
  }
  fail(
      TRITONSERVER_ERROR_INTERNAL,
      where_ + " has released a request and everything it could be answered with, without a " +
          (mailbox_ ? "response" : "final response"));
}

TRITONSERVER_Error* Answer::send(Event&& event, uint32_t flags) {
  TRITONSERVER_Error* error = nullptr;
  event.number = number_;
  event.is_final = flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL;
  if (std::optional<Event> due = admit(std::move(event), &error)) post(std::move(*due));
  return error;
}

std::optional<Event> Answer::admit(Event&& event, TRITONSERVER_Error** error) {
  std::lock_guard lock(mutex_);
  if (event.kind == EventKind::empty) {
    if (!event.is_final) return std::nullopt;
    if (mailbox_) {
      // There was the one response, and that there is no other may be said later.
      if (is_final_) return std::nullopt;
      event.kind = EventKind::error;
      event.code = TRITONSERVER_ERROR_INTERNAL;
      event.text = where_ + " has ended a request without a response; the model is not decoupled";
    }
  }
  if (mailbox_) event.is_final = true;
  if (is_final_) {
    *error = failure(
        TRITONSERVER_ERROR_INTERNAL, where_ + " sent a response after the final one of a request");
    return std::nullopt;
  }
  is_final_ = event.is_final;
  if (is_final_ && !is_released_) {
    held_ = std::move(event);
    return std::nullopt;
  }
  return std::move(event);
}

void Answer::update_state(Made&& state) {
  std::lock_guard lock(mutex_);
  states_.push_back(std::move(state));
}

void Answer::release(uint32_t flags) {
  std::optional<Event> due;
  {
    std::lock_guard lock(mutex_);
    is_released_ = true;
    due = std::exchange(held_, std::nullopt);
    if (!due && (flags & TRITONSERVER_REQUEST_RELEASE_RESCHEDULE) && !is_final_) {
      is_rescheduled_ = true;
      // A decoupled model may send what it has made so far after this.
      is_final_ = mailbox_ != nullptr;
      due.emplace();
      due->number = number_;
      due->kind = EventKind::reschedule;
      due->is_final = is_final_;
    }
  }
  if (due) post(std::move(*due));
}

bool Answer::is_released() const {
  std::lock_guard lock(mutex_);
  return is_released_;
}

void Answer::fail(TRITONSERVER_Error_Code code, const std::string& text) {
  {
    std::lock_guard lock(mutex_);
    const bool is_sent = is_final_ && !held_;
    if (is_sent) return;
    is_final_ = true;
    held_.reset();
  }
  Event event;
  event.number = number_;
  event.kind = EventKind::error;
  event.is_final = true;
  event.code = code;
  event.text = text;
  post(std::move(event));
}

void Answer::post(Event&& event) {
  if (event.kind == EventKind::response) {
    std::lock_guard lock(mutex_);
    event.states = std::exchange(states_, {});
  }
  const bool is_final = event.is_final;
  std::lock_guard lock(sending_);
  if (!mailbox_) {
    deliver(std::move(event));
    return;
  }
  mailbox_->post(std::move(event));
  if (is_final) mailbox_->close();
}

}  // namespace manta
