// The history (tests/history) of a chaos trainer: its submissions and their outcomes, for check_history.py.
//
// One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <ringway/ringway.hpp>
#include <string>

#include "client/bench/check_values.h"
#include "tests/chaos/record.h"
#include "tests/history/history.h"

namespace ringway::chaos {

// A collective of one rank, as it is submitted.
struct Submitted {
  OpName name;
  std::uint32_t channel = 0;
  OpKind kind = OpKind::kAllReduce;
  bench::Reduction reduction;
  std::size_t count = 0;
  std::optional<Algorithm> algorithm;
  std::uint64_t root = 0;   // a peer; 0: the kind has none
  std::uint32_t world = 0;  // that the session knows
  Quorum quorum = {};
};

class TrainerHistory {
 public:
  // An empty path: writes nothing.
  TrainerHistory(const std::string& path, std::string group) : writer_(path), group_(std::move(group)) {}

  void Join(std::uint64_t peer) const;
  void End(std::uint64_t peer, Code code) const;
  // `input`: `input_count` elements.
  void Submit(std::uint64_t peer, const Submitted& op, const void* input, std::size_t input_count) const;
  void Cancel(std::uint64_t peer, const Submitted& op) const;
  // `output` has `count` elements and more, as the collective has it; `intact`: the input is unchanged.
  void Outcome(std::uint64_t peer, const Submitted& op, const Result<OpResult>& outcome, const void* output,
               bool intact) const;

 private:
  history::Object Named(std::uint64_t peer, const Submitted& op) const;
  void Write(const char* event, const history::Object& members) const;

  history::Writer writer_;
  std::string group_;
};

}  // namespace ringway::chaos
