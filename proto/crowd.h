// Connections that anybody may open, so that only so many are kept: when one more comes, one has to go. Pure.
//
// Who goes is the oldest of the source that has the most. So a host that floods pushes out its own connections first,
// and one that has just come stays long enough to say who it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "proto/check.h"

namespace ringway {

class Crowd {
 public:
  // `source`: the host. `id`: rises with time, never repeats.
  void Add(const std::string& source, std::uint64_t id) {
    by_source_[source].insert(id);
    ++size_;
  }

  // It may be in no crowd.
  void Remove(const std::string& source, std::uint64_t id) {
    const auto found = by_source_.find(source);
    if (found == by_source_.end() || found->second.erase(id) == 0) return;
    --size_;
    if (found->second.empty()) by_source_.erase(found);
  }

  std::size_t size() const { return size_; }

  // REQUIRES: size() > 0.
  std::uint64_t Victim() const {
    const std::set<std::uint64_t>* most = nullptr;
    for (const auto& [source, ids] : by_source_) {
      const bool worse =
          most == nullptr || ids.size() > most->size() || (ids.size() == most->size() && *ids.begin() < *most->begin());
      if (worse) most = &ids;
    }
    RINGWAY_CHECK(most != nullptr);
    return *most->begin();
  }

 private:
  std::map<std::string, std::set<std::uint64_t>> by_source_;
  std::size_t size_ = 0;
};

}  // namespace ringway
