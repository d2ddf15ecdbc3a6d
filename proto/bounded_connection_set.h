// Selects the connection to close when a bounded set of unauthenticated connections is full: one of the source that
// has the most. So a host that floods evicts its own connections first, and a new connection of another host stays long
// enough to identify itself. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "proto/check.h"

namespace ringway {

class BoundedConnectionSet {
 public:
  // `source`: the host. `id`: increasing, never repeats.
  void Add(const std::string& source, std::uint64_t id) {
    by_source_[source].insert(id);
    ++size_;
  }

  // No-op if it is not in the set.
  void Remove(const std::string& source, std::uint64_t id) {
    const auto found = by_source_.find(source);
    if (found == by_source_.end() || found->second.erase(id) == 0) return;
    --size_;
    if (found->second.empty()) by_source_.erase(found);
  }

  std::size_t size() const { return size_; }

  // Connections of the source that has the most. REQUIRES: size() > 0.
  std::uint64_t Oldest() const { return *Largest().begin(); }
  std::uint64_t Newest() const { return *Largest().rbegin(); }

 private:
  using Ids = std::set<std::uint64_t>;

  // Among sources with equally many, the one that has the oldest.
  const Ids& Largest() const {
    const Ids* most = nullptr;
    for (const auto& [source, ids] : by_source_) {
      const bool worse =
          most == nullptr || ids.size() > most->size() || (ids.size() == most->size() && *ids.begin() < *most->begin());
      if (worse) most = &ids;
    }
    RINGWAY_CHECK(most != nullptr);
    return *most;
  }

  std::map<std::string, Ids> by_source_;
  std::size_t size_ = 0;
};

}  // namespace ringway
