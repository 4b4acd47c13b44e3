// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// Names the library when it crashes: a line to stderr before the process ends as it would have.

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <array>

#include "objects.h"

namespace {

struct Watched {
  int number;
  const char* name;
};
constexpr std::array<Watched, 5> watched = {{
    {SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},
    {SIGFPE, "SIGFPE"},   {SIGILL, "SIGILL"},
}};
struct sigaction previous_actions[watched.size()];

// Plain memory, as a handler may use nothing else.
char victim[1024];
thread_local const char* stage = nullptr;

void say(const char* text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

void on_crash(int number) {
  for (size_t each = 0; each < watched.size(); ++each) {
    if (watched[each].number != number) continue;
    say(victim);
    say(" crashed with ");
    say(watched[each].name);
    say(stage == nullptr ? ", outside of its functions' calls (perhaps in a thread of its own)"
                         : " in ");
    if (stage != nullptr) say(stage);
    say("\n");
    // Whoever was there before, such as a printer of stacks, has the signal again.
    sigaction(number, &previous_actions[each], nullptr);
  }
  raise(number);
}

}  // namespace

namespace manta {

Stage::Stage(const char* function) : previous_(stage) { stage = function; }
Stage::~Stage() { stage = previous_; }

void watch_for_crashes(const std::string& whose) {
  static bool is_watching = false;
  strncpy(victim, whose.c_str(), sizeof victim - 1);
  if (is_watching) return;
  is_watching = true;
  struct sigaction action = {};
  action.sa_handler = on_crash;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (size_t each = 0; each < watched.size(); ++each) {
    sigaction(watched[each].number, &action, &previous_actions[each]);
  }
}

}  // namespace manta
