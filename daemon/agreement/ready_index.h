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

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

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
      Remove(queue.ready, name);
      Remove(queue.small, name);
      Remove(queue.blocked, name);
    } else if (const auto blocked = queue.blocked.find(name); blocked != queue.blocked.end()) {
      blocked->second = *bytes;
    } else {
      Insert(queue, name, *bytes);
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
    Remove(queue.small, name);
    queue.blocked.insert(queue.ready.extract(name));
  }
  void Unblock(Rank to) {
    if (const auto queue = queues_.find(to); queue != queues_.end()) UnblockAll(queue->second);
  }
  void Unblock(const OpName& name) {
    for (auto& [to, queue] : queues_) {
      const auto found = queue.blocked.find(name);
      if (found == queue.blocked.end()) continue;
      Insert(queue, name, found->second);
      Remove(queue.blocked, name);
    }
  }
  void UnblockAll() {
    for (auto& [to, queue] : queues_) UnblockAll(queue);
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
  };

  void Insert(Queue& queue, const OpName& name, std::uint32_t bytes) {
    Set(queue.ready, name, bytes);
    if (bytes <= kSmallLanePayloadBytes) {
      Set(queue.small, name, bytes);
    } else {
      Remove(queue.small, name);
    }
  }
  void UnblockAll(Queue& queue) {
    for (const auto& [name, bytes] : queue.blocked) Insert(queue, name, bytes);
    queue.blocked.clear();
  }
  void Set(Names& names, const OpName& name, std::uint32_t bytes) {
    if (const auto found = names.find(name); found != names.end()) {
      found->second = bytes;
    } else if (spare_.empty()) {
      names.emplace(name, bytes);
    } else {
      Names::node_type node = std::move(spare_.back());
      spare_.pop_back();
      node.key() = name;
      node.mapped() = bytes;
      names.insert(std::move(node));
    }
  }
  void Remove(Names& names, const OpName& name) {
    if (Names::node_type node = names.extract(name); !node.empty() && spare_.size() < kSparesMax)
      spare_.push_back(std::move(node));
  }

  static constexpr std::size_t kSparesMax = 64;

  std::vector<Names::node_type> spare_;  // of names that have gone, for those that come: a segment allocates nothing
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
