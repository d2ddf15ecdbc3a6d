// Which operations have a segment for which rank, so that a lane with room costs the same however many are open. Those
// of a higher priority go first; of the same one they take turns.
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

#include <algorithm>
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

// An operation and when it is due.
struct Turn {
  std::uint32_t priority = 0;
  OpName name;
  friend bool operator==(const Turn&, const Turn&) = default;
  friend bool operator<(const Turn& a, const Turn& b) {
    return a.priority != b.priority ? a.priority > b.priority : a.name < b.name;
  }
};

class ReadyIndex {
 public:
  // The next segment of the operation for this rank has so many bytes on the wire; nothing: there is none.
  void Changed(const Turn& turn, Rank to, std::optional<std::uint32_t> bytes) {
    Queue& queue = queues_[to];
    if (!bytes) {
      Remove(queue.ready, turn);
      Remove(queue.small, turn);
      Remove(queue.blocked, turn);
    } else if (const auto blocked = queue.blocked.find(turn); blocked != queue.blocked.end()) {
      blocked->second = *bytes;
    } else {
      Insert(queue, turn, *bytes);
    }
  }

  // Of those of the highest priority whose next segment for this rank fits the first one after `after`.
  std::optional<Turn> Next(Rank to, const OpName& after, std::uint32_t bytes_max) const {
    const auto queue = queues_.find(to);
    if (queue == queues_.end()) return std::nullopt;
    // Lanes for small segments are asked as often as others and would have to pass over all large ones.
    const Turns& turns = bytes_max <= kSmallLanePayloadBytes ? queue->second.small : queue->second.ready;
    const auto fits = [bytes_max](const auto& turn) { return turn.second <= bytes_max; };
    for (auto begin = turns.begin(); begin != turns.end();) {
      const std::uint32_t priority = begin->first.priority;
      const auto end = priority == 0 ? turns.end() : turns.lower_bound({priority - 1, OpName()});
      const auto first = turns.upper_bound({priority, after});
      if (const auto found = std::find_if(first, end, fits); found != end) return found->first;
      if (const auto found = std::find_if(begin, first, fits); found != first) return found->first;
      begin = end;
    }
    return std::nullopt;
  }

  // It may not be sent yet.
  void NotNow(const Turn& turn, Rank to) {
    Queue& queue = queues_.at(to);
    Remove(queue.small, turn);
    queue.blocked.insert(queue.ready.extract(turn));
  }
  void Unblock(Rank to) {
    if (const auto queue = queues_.find(to); queue != queues_.end()) UnblockAll(queue->second);
  }
  void Unblock(const Turn& turn) {
    for (auto& [to, queue] : queues_) {
      const auto found = queue.blocked.find(turn);
      if (found == queue.blocked.end()) continue;
      Insert(queue, turn, found->second);
      Remove(queue.blocked, turn);
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
  using Turns = std::map<Turn, std::uint32_t>;
  struct Queue {
    Turns ready;
    Turns small;  // of those, the ones that lanes for small segments take
    Turns blocked;
  };

  void Insert(Queue& queue, const Turn& turn, std::uint32_t bytes) {
    Set(queue.ready, turn, bytes);
    if (bytes <= kSmallLanePayloadBytes) {
      Set(queue.small, turn, bytes);
    } else {
      Remove(queue.small, turn);
    }
  }
  void UnblockAll(Queue& queue) {
    for (const auto& [turn, bytes] : queue.blocked) Insert(queue, turn, bytes);
    queue.blocked.clear();
  }
  void Set(Turns& turns, const Turn& turn, std::uint32_t bytes) {
    if (const auto found = turns.find(turn); found != turns.end()) {
      found->second = bytes;
    } else if (spare_.empty()) {
      turns.emplace(turn, bytes);
    } else {
      Turns::node_type node = std::move(spare_.back());
      spare_.pop_back();
      node.key() = turn;
      node.mapped() = bytes;
      turns.insert(std::move(node));
    }
  }
  void Remove(Turns& turns, const Turn& turn) {
    if (Turns::node_type node = turns.extract(turn); !node.empty() && spare_.size() < kSparesMax)
      spare_.push_back(std::move(node));
  }

  static constexpr std::size_t kSparesMax = 64;

  std::vector<Turns::node_type> spare_;  // of turns that have gone, for those that come: a segment allocates nothing
  std::map<Rank, Queue> queues_;
};

// What one operation's executor tells the index.
class ReadyReporter final : public collective::ReadySink {
 public:
  ReadyReporter(ReadyIndex* index, const Turn& turn) : index_(index), turn_(turn) {}
  void OnNextChanged(Rank to, std::optional<std::uint32_t> bytes) override { index_->Changed(turn_, to, bytes); }

 private:
  ReadyIndex* index_;
  Turn turn_;
};

}  // namespace ringway::agreement
