// Groups whose changes are not in the store yet, and the messages to their peers, which are held back until they are.
//
//   Add --> Begin: a record of all groups here is written --> Finish: those that have not changed since are released
//
// Pure. Threads: one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proto/control.pb.h"

namespace ringway {

class UnrecordedGroups {
 public:
  struct Held {
    std::string group;
    std::uint64_t connection = 0;
    control::FromMaster message;
  };

  bool empty() const { return changed_.empty(); }
  bool Contains(const std::string& group) const { return changed_.contains(group); }
  std::size_t held() const { return held_.size(); }

  // The group has changed.
  void Add(const std::string& group) { changed_[group] = ++changes_; }
  // REQUIRES: Contains(held.group).
  void Hold(Held held) { held_.push_back(std::move(held)); }
  void Forget(std::uint64_t connection) {
    std::erase_if(held_, [connection](const Held& held) { return held.connection == connection; });
  }

  // Returns the groups that belong into the record which begins now.
  std::vector<std::string> Begin() {
    recording_ = changes_;
    std::vector<std::string> groups;
    for (const auto& [group, change] : changed_) groups.push_back(group);
    return groups;
  }
  // That record is written. Returns the messages to be sent, in order.
  std::vector<Held> Finish() {
    std::erase_if(changed_, [this](const auto& entry) { return entry.second <= recording_; });
    const auto released =
        std::stable_partition(held_.begin(), held_.end(), [this](const Held& held) { return Contains(held.group); });
    std::vector<Held> out(std::make_move_iterator(released), std::make_move_iterator(held_.end()));
    held_.erase(released, held_.end());
    return out;
  }

 private:
  std::uint64_t changes_ = 0;                     // so far
  std::uint64_t recording_ = 0;                   // of them in the record that is being written, or was last
  std::map<std::string, std::uint64_t> changed_;  // by group: its last change
  std::vector<Held> held_;
};

}  // namespace ringway
