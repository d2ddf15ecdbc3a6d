// Compares the outcomes that were reported to all trainers.
//
// The promise: every report of an operation has the same outcome; success means the correct bytes, the same ones, from
// the same contributors, in the same view, and an unchanged input. It holds for peers that stay, and for the success of
// a large operation at any peer. Other outcomes of a peer that did not stay may differ, because the survivors may have
// repeated the operation without it: success of a small operation, which does not wait for the others to finish, or a
// failure agreed in its last view.
//
// Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/chaos/record.h"

namespace ringway::chaos {

inline constexpr std::uint64_t kSmallBytesMax = 64 * 1024;  // the master's default plan

struct Tally {
  std::uint64_t operations = 0;                 // with at least one reported outcome
  std::uint64_t succeeded = 0;                  // of those
  std::uint64_t outcomes = 0;                   // reported, over all ranks
  std::uint64_t excused = 0;                    // reported to a peer that did not stay, and repeated without it
  std::uint64_t retried = 0;                    // outcomes that took more than one attempt
  std::uint64_t late = 0;                       // outcomes that came without the input of their rank
  std::uint64_t memberships = 0;                // joins
  std::uint64_t lives = 0;                      // groups formed
  std::uint64_t longest_gap_ms = 0;             // between two outcomes of any ranks
  std::map<Code, std::uint64_t> codes;          // outcomes, and ends of memberships
  std::map<std::size_t, std::uint64_t> worlds;  // successful outcomes by world size
};

class Checker {
 public:
  void Add(const Record& record);
  // The checks that need all records. Call once, last.
  void Finish();

  const Tally& tally() const { return tally_; }
  // One line each, the first kViolationsMax; empty: the promise was kept.
  const std::vector<std::string>& violations() const { return violations_; }
  std::uint64_t violation_count() const { return violation_count_; }

 private:
  static constexpr std::size_t kViolationsMax = 20;
  // Outcomes that differ only in peer and time.
  struct Reported {
    Record outcome;
    std::vector<std::uint64_t> peers;
  };

  void AddOp(const Record& record);
  void CheckAlone(const Record& record);
  bool Excused(const Reported& gone, const Reported& stood) const;
  void CheckLives();
  void Violated(const Record& record, const std::string& what);

  Tally tally_;
  std::map<OpName, std::vector<Reported>> reported_;
  struct Progress {
    OpName step;                                  // the newest with a success
    std::uint64_t newest = 0, newest_before = 0;  // epochs of successes; before that step
  };
  std::map<std::uint64_t, Progress> progress_;        // by peer
  std::map<std::uint64_t, std::uint64_t> life_ends_;  // the newest epoch of a success, by life
  std::set<std::uint64_t> peers_, ended_;
  std::set<std::uint64_t> times_ms_;
  std::vector<std::string> violations_;
  std::uint64_t violation_count_ = 0;
};

}  // namespace ringway::chaos
