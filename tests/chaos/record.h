// A chaos trainer's records, one line each, in a file that outlives it: the input of the checker.
//
//   t=81231 join peer=7
//   t=81240 op peer=7 life=4294967299 step=12 index=0 bytes=934 code=0 epoch=4294967301 retries=1 hash=9f.. wrong=0
//   intact=1 from=5,7,9 without=8 t=81260 end peer=7 code=10
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
  kEnd,   // this peer's membership has ended, not by its trainer's choice; `code`: why, kOk: its trainer was killed
};

// An operation of the group, whoever takes part. `life`: the epoch in which the group was formed from newcomers only.
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
  bool intact = true;       // the input is unchanged
  std::vector<std::uint64_t> contributors;
  std::vector<std::uint64_t> absent;  // members whose inputs came too late
};

// One line, including its newline.
std::string Format(const Record& record);
// nullopt if the line (without its newline) is no record.
std::optional<Record> Parse(std::string_view line);

// Returns the members of the view of a success: its contributors, then those that were late.
std::vector<std::uint64_t> MembersOf(const Record& record);

// Returns whether the code ends the membership, which leaves the operation's outcome open.
bool IsEndOfMembership(Code code);

}  // namespace ringway::chaos
