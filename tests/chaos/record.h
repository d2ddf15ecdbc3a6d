// What a chaos trainer writes down, a line each, in a file that outlives it: the material of the checker.
//
//   t=81231 join peer=7
//   t=81240 op peer=7 life=4294967299 step=12 index=0 bytes=934 code=0 epoch=4294967301 retries=1 hash=9f.. wrong=0
//   intact=1 from=5,7,9 t=81260 end peer=7 code=10
//
// Pure; any thread.
#pragma once

#include <ringway/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringway::chaos {

enum class RecordKind {
  kJoin,  // this peer is a member from here on
  kOp,    // one operation's outcome
  kEnd,   // this peer's membership is over, without its trainer's doing; `code` says why, kOk: its trainer was killed
};

// An operation of the group, whoever takes part. `life`: the epoch in which a group came into being from newcomers
// only.
struct OpName {
  std::uint64_t life = 0;
  std::uint64_t step = 0;
  std::uint32_t index = 0;

  auto operator<=>(const OpName&) const = default;
};

struct Record {
  RecordKind kind = RecordKind::kJoin;
  std::uint64_t time_ms = 0;  // of the host's monotonic clock, which all processes share
  std::uint64_t peer = 0;
  Code code = Code::kOk;
  OpName name;
  std::uint64_t bytes = 0;  // of the operation
  std::uint64_t epoch = 0;
  std::uint32_t retries = 0;
  std::uint64_t hash = 0;   // of the result
  std::uint64_t wrong = 0;  // elements
  bool intact = true;       // the input is as it was
  std::vector<std::uint64_t> contributors;
};

// One line, with its end.
std::string Format(const Record& record);
// Nothing if the line (without its end) is none.
std::optional<Record> Parse(std::string_view line);

// Of the membership, not of the operation: it may have come to anything.
bool IsEndOfMembership(Code code);

}  // namespace ringway::chaos
