// Status and Result<T>: expected failures as values, with a code (ringway/types.h) and a sentence of advice.
//
// Both are [[nodiscard]]. No exception carries a failure.
#pragma once

#include <ringway/types.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

namespace ringway {

// The outcome of a call: a code and, unless ok, a sentence.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string text) : code_(code), text_(std::move(text)) {}
  static Status Ok() { return {}; }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  Code code_ = Code::kOk;
  std::string text_;
};

// A value, or the Status that prevented it. To ask a failure for its value ends the process.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}        // NOLINT(google-explicit-constructor): a value is a result
  Result(Status status) : state_(std::move(status)) {  // NOLINT(google-explicit-constructor): so is a failure
    if (std::get<1>(state_).ok()) Die("a Result is made of a Status that is ok");
  }
  Result(Code code, std::string text) : Result(Status(code, std::move(text))) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  // REQUIRES: ok().
  T& value() & { return *Get(*this); }
  const T& value() const& { return *Get(*this); }
  T&& value() && { return std::move(*Get(*this)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

 private:
  template <typename Self>
  static auto Get(Self& self) {
    auto* const value = std::get_if<0>(&self.state_);
    if (value == nullptr) Die(std::get<1>(self.state_).text().c_str());
    return value;
  }
  [[noreturn]] static void Die(const char* why) {
    (void)std::fprintf(stderr, "ringway: invariant broken: %s\n", why);
    std::abort();
  }

  std::variant<T, Status> state_;
};

}  // namespace ringway
