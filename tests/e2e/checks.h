// Checks that several end-to-end tests share: of a group that loses one, of a group that works, of ranks that disagree.
//
// Failures are reported to GoogleTest. Threads: one, as the cluster's.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"

namespace ringway::e2e {

inline constexpr std::size_t kLargeCount = 2'000'000;  // 8 MB: beyond the eager window

struct StruckOptions {
  std::uint64_t rounds = 4;    // every other one large
  std::uint32_t channels = 1;  // an odd number, so that each has small and large ones
};

// The rounds of a group that is about to lose one: some that all have submitted, so that data of everyone travels, and
// a last one that the victim has not, so that nothing before it can be the end.
class Struck {
 public:
  // `victim`: an index into `ranks`, which outlive this.
  Struck(const Sessions& ranks, std::size_t victim, const StruckOptions& options = {});

  void Submit();
  // Everybody but the victim has right and equal bytes, from all or from the survivors.
  void CheckSurvivors();
  // The victim's works end with one of these codes, or with success where success was reported to all.
  void CheckVictim(const std::vector<Code>& codes);

 private:
  const Sessions& ranks_;
  std::size_t victim_;
  std::vector<std::unique_ptr<Round>> rounds_;
  std::vector<Work> victims_works_;
};

// Puts them into the order of their ranks. Returns the index that each had before, after JoinWorld its daemon's.
std::vector<std::size_t> SortByRank(Sessions* ranks);

Sessions Without(Sessions ranks, std::size_t gone);

// One more operation, of exactly these ranks, at the first attempt.
void ExpectWorks(const Sessions& ranks);

// Expects that an impatient join fails with `code`; repeats it until the error names the cause.
void ExpectJoinFails(const JoinOptions& impatient, Code code, const std::string& text);

// The last rank submits something else than the others as the same operation; the text that all get names both.
void ExpectMismatch(const Sessions& ranks, const RoundOptions& usual, const RoundOptions& other,
                    const std::string& usual_text, const std::string& other_text);

// Every collective of device memory, in place or not, of no element to some millions.
void ExpectDeviceMemoryIsRight(const Sessions& ranks);

// Loads the driver of this host's GPU. Returns why device 0 cannot be used; "" if it can.
std::string WhyNoGpu();

// The program ends with code 2, and stderr has, besides lines of the log, which start with the time, one line: it
// starts with the program's name and holds `what`.
void ExpectRefusal(const std::vector<std::string>& argv, const std::string& program, const std::string& what);

}  // namespace ringway::e2e
