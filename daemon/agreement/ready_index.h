// Which operations have a segment for which rank, so that a lane with room costs the same however many are open.
//
//                 Changed(bytes)                       NotNow (eager window)
//   (nothing) -----------------------> ready ------------------------------------> blocked
//       ^  ^----- Changed(none) -------+  ^---- Unblock: the rank is ready for it --+
//       +------------------------------------------ Changed(none) ------------------+
//
// The executors say what changes (collective::ReadySink). A blocked operation is looked at again only when something
// has changed that may let it go: READY, room in the window, the operation before it on its channel.
//
// Pure. Every call costs the logarithm of what is open; Unblock as much for each that was blocked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "daemon/collective/executor.h"
#include "proto/ids.h"
#include "proto/lane_roles.h"

namespace ringway::agreement {

class ReadyIndex {
 public:
  // The next segment of the operation for this rank has so many bytes on the wire; nothing: there is none.
  void Changed(const OpName& name, Rank to, std::optional<std::uint32_t> bytes) {
    Queue& queue = queues_[to];
    if (!bytes) {
      queue.ready.erase(name);
      queue.small.erase(name);
      queue.blocked.erase(name);
      if (queue.ready.empty() && queue.blocked.empty()) queues_.erase(to);
    } else if (const auto blocked = queue.blocked.find(name); blocked != queue.blocked.end()) {
      blocked->second = *bytes;
    } else {
      queue.Insert(name, *bytes);
    }
  }

  // The first operation whose turn it is whose next segment for this rank fits, beginning after `after`.
  std::optional<OpName> Next(Rank to, const OpName& after, std::uint32_t bytes_max) const {
    const auto queue = queues_.find(to);
    if (queue == queues_.end()) return std::nullopt;
    // Lanes for small segments are asked as often as others and would have to pass over all large ones.
    const Names& names = bytes_max <= kSmallLanePayloadBytes ? queue->second.small : queue->second.ready;
    const auto first = names.upper_bound(after);
    for (auto it = first; it != names.end(); ++it) {
      if (it->second <= bytes_max) return it->first;
    }
    for (auto it = names.begin(); it != first; ++it) {
      if (it->second <= bytes_max) return it->first;
    }
    return std::nullopt;
  }

  // It may not be sent yet.
  void NotNow(const OpName& name, Rank to) {
    Queue& queue = queues_.at(to);
    queue.small.erase(name);
    queue.blocked.insert(queue.ready.extract(name));
  }
  void Unblock(Rank to) {
    if (const auto queue = queues_.find(to); queue != queues_.end()) queue->second.UnblockAll();
  }
  void Unblock(const OpName& name) {
    for (auto& [to, queue] : queues_) {
      if (auto node = queue.blocked.extract(name); !node.empty()) queue.Insert(name, node.mapped());
    }
  }
  void UnblockAll() {
    for (auto& [to, queue] : queues_) queue.UnblockAll();
  }

  template <typename F>
  void ForEachRank(F&& visit) const {
    for (const auto& [to, queue] : queues_) {
      if (!queue.ready.empty()) visit(to);
    }
  }

 private:
  using Names = std::map<OpName, std::uint32_t>;
  struct Queue {
    Names ready;
    Names small;  // of those, the ones that lanes for small segments take
    Names blocked;
    void Insert(const OpName& name, std::uint32_t bytes) {
      ready[name] = bytes;
      if (bytes <= kSmallLanePayloadBytes) {
        small[name] = bytes;
      } else {
        small.erase(name);
      }
    }
    void UnblockAll() {
      for (const auto& [name, bytes] : blocked) Insert(name, bytes);
      blocked.clear();
    }
  };
  std::map<Rank, Queue> queues_;
};

// What one operation's executor tells the index.
class ReadyReporter final : public collective::ReadySink {
 public:
  ReadyReporter(ReadyIndex* index, const OpName& name) : index_(index), name_(name) {}
  void OnNextChanged(Rank to, std::optional<std::uint32_t> bytes) override { index_->Changed(name_, to, bytes); }

 private:
  ReadyIndex* index_;
  OpName name_;
};

}  // namespace ringway::agreement
