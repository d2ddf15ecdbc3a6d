// How the example treats errors: one line, then the end.
//
// Lost peers are none: Ringway retries with those that are left. What fails is this rank's own daemon, or a wrong call.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <ringway/ringway.hpp>
#include <string>
#include <utility>

namespace train_text {

[[noreturn]] inline void Fail(const std::string& sentence) {
  std::fprintf(stderr, "train_text: %s\n", sentence.c_str());
  std::exit(1);
}

inline std::string Describe(const ringway::Error& error) {
  return std::string(ringway::NameOf(error.code())) + ": " + error.text();
}

template <typename T>
T Must(ringway::Expected<T> expected) {
  if (!expected.ok()) Fail(Describe(expected.error()));
  return std::move(expected.value());
}

}  // namespace train_text
