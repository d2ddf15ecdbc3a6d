// Error handling of the example: prints one line and exits.
//
// A lost peer is no error: Ringway retries with the survivors. Nor is a restart of this rank's own daemon: the session
// rejoins as a newcomer, and so must the trainer. Errors are a daemon that stays away, or a wrong call.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <ringway/ringway.hpp>
#include <string>
#include <utility>

namespace train_text {

[[noreturn]] inline void Fail(const std::string& sentence, int exit_code = 1) {
  std::fprintf(stderr, "train_text: %s\n", sentence.c_str());
  std::exit(exit_code);
}

// For a wrong option or an unreadable text.
[[noreturn]] inline void FailUsage(const std::string& sentence) { Fail(sentence, 2); }

inline std::string Describe(const ringway::Error& error) {
  return std::string(ringway::NameOf(error.code())) + ": " + error.text();
}

// Thrown by Must for kRejoined, and caught where the trainer restarts as a newcomer.
struct Rejoined {
  std::string why;
};

template <typename T>
T Must(ringway::Expected<T> expected) {
  if (expected.error().code() == ringway::Code::kRejoined) throw Rejoined{Describe(expected.error())};
  if (!expected.ok()) Fail(Describe(expected.error()));
  return std::move(expected.value());
}

}  // namespace train_text
