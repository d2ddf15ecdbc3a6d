// Status and Result<T>: expected failures as values, with a code and a sentence of context.
//
// Both are [[nodiscard]]. No exception crosses a module.
#pragma once

#include <ringway/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "proto/check.h"

namespace ringway {

// Convert a number from the wire to a code; nothing else may. `unknown`: returned for codes that this build does not
// know. FailureFromWire returns it for kOk, too.
constexpr Code CodeFromWire(std::uint32_t wire, Code unknown = Code::kProtocol) {
  return wire < kCodeCount ? static_cast<Code>(wire) : unknown;
}
constexpr Code FailureFromWire(std::uint32_t wire, Code unknown = Code::kProtocol) {
  return wire == static_cast<std::uint32_t>(Code::kOk) ? unknown : CodeFromWire(wire, unknown);
}

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

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}        // NOLINT(google-explicit-constructor): a value is a result
  Result(Status status) : state_(std::move(status)) {  // NOLINT(google-explicit-constructor): so is a failure
    RINGWAY_CHECK(!std::get<Status>(state_).ok());
  }
  Result(Code code, std::string text) : Result(Status(code, std::move(text))) {}

  bool ok() const { return std::holds_alternative<T>(state_); }
  // REQUIRES: ok().
  T& value() & {
    RINGWAY_CHECK(ok());
    return std::get<T>(state_);
  }
  const T& value() const& {
    RINGWAY_CHECK(ok());
    return std::get<T>(state_);
  }
  T&& value() && {
    RINGWAY_CHECK(ok());
    return std::get<T>(std::move(state_));
  }
  Status status() const { return ok() ? Status::Ok() : std::get<Status>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace ringway
