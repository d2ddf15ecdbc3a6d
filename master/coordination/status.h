// The master's state as JSON, for ringwayctl. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "master/coordination/coordinator.h"

namespace ringway {

// What the coordinator does not know of its process.
struct ProcessFacts {
  Duration uptime{};
  std::string journal;       // "ok", "none", or why it cannot be written
  std::string version = {};  // of the program
};

// A report that is written in slices, so that a long one keeps nobody waiting: between two of them groups and daemons
// may come and go. At most `bytes_max` (no less than 4 KiB) long: what is beyond that is counted as left_out.
class StatusReport {
 public:
  explicit StatusReport(std::size_t bytes_max);

  // Goes on by one group or a few daemons; false when nothing is left.
  bool Step(const Coordinator& coordinator);
  // REQUIRES: Step has returned false.
  std::string Finish(const Coordinator& coordinator, const ProcessFacts& facts) const;

 private:
  void Add(std::string& list, const std::string& item);

  std::size_t bytes_left_;
  std::size_t left_out_ = 0;
  std::string groups_, daemons_;  // items, with commas between
  std::string last_group_;        // "": none yet; no group has this name
  bool groups_done_ = false;
  DaemonId last_daemon_;  // the same
};

// All slices at once.
std::string StatusJson(const Coordinator& coordinator, const ProcessFacts& facts, std::size_t bytes_max);

}  // namespace ringway
