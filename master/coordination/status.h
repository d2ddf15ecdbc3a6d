// The master's state as JSON, for ringwayctl. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "master/coordination/coordinator.h"
#include "proto/identity.h"

namespace ringway {

// Facts about the process that the coordinator does not know.
struct ProcessFacts {
  Duration uptime{};
  std::string journal;            // "ok", "none", or why it cannot be written
  std::string journal_path = {};  // empty: none
  std::string version = {};       // of the program
  std::string utc = {};           // its time of day, for operators to compare with theirs
  SecurityFacts security = {};
};

// A report written in slices, so that a long one does not block the event loop; groups and daemons may change between
// two slices. At most `bytes_max` (at least 4 KiB) long: further items are only counted, in left_out.
class StatusReport {
 public:
  explicit StatusReport(std::size_t bytes_max);

  // Adds one group or a few daemons; returns false when nothing is left.
  bool Step(const Coordinator& coordinator);
  // REQUIRES: Step has returned false.
  std::string Finish(const Coordinator& coordinator, const ProcessFacts& facts) const;

 private:
  void Add(std::string& list, const std::string& item);

  std::size_t bytes_left_;
  std::size_t left_out_ = 0;
  std::string groups_, daemons_;  // items, with commas between
  std::string last_group_;        // the last one added; "": none, for no group has this name
  bool groups_done_ = false;
  DaemonId last_daemon_;  // likewise; 0: none
};

// Returns all slices at once.
std::string StatusJson(const Coordinator& coordinator, const ProcessFacts& facts, std::size_t bytes_max);

}  // namespace ringway
