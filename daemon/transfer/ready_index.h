// Which operations have a segment for which rank, so that a lane with room costs the same however many are open.
//
//   the next segment is                    of
//   usually                                the highest priority; of those, whose turn is longest ago
//   each kAgingPeriod-th that is sent      a lower priority; of those, whose turn is longest ago
//     while lower ones wait
//
// A turn begins anew when a segment was sent and when the operation has a segment after it had none. So everything that
// waits is sent, however long the stream of what is more urgent, or was submitted later.
//
//                 Changed(bytes)                       NotNow (eager window)
//   (nothing) -----------------------> ready ------------------------------------> blocked
//       ^  ^----- Changed(none) -------+  ^---- Unblock: the rank is ready for it --+
//       +------------------------------------------ Changed(none) ------------------+
//
// The executors report what changes (collective::ReadySink). A blocked operation is looked at again only when something
// has changed that may let it go: READY, room in the window, the operation before it on its channel.
//
// Pure. Every call costs the logarithm of what is open, Next one for each priority as well; Unblock as much for each
// that was blocked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "proto/ids.h"
#include "proto/lane_roles.h"

namespace ringway::transfer {

class Attempt;

// An operation and when it is due.
struct Turn {
  std::uint32_t priority = 0;
  OpName name;
  Attempt* attempt = nullptr;  // its own
  friend bool operator==(const Turn&, const Turn&) = default;
};

class ReadyIndex {
 public:
  static constexpr std::uint32_t kAgingPeriod = 16;

  struct Choice {
    Turn turn;
    bool is_aged = false;  // it goes before more urgent ones
    friend bool operator==(const Choice&, const Choice&) = default;
  };

  // The next segment of the operation for this rank has so many bytes on the wire; nothing: there is none.
  void Changed(const Turn& turn, Rank to, std::optional<std::uint32_t> bytes) {
    Queue& queue = queues_[to];
    const auto found = queue.known.find(turn.name);
    if (!bytes) {
      if (found == queue.known.end()) return;
      Leave(queue, found->second);
      Keep(spare_known_, queue.known.extract(found));
    } else if (found == queue.known.end()) {
      Join(queue, Add(queue, {.turn = turn, .since = ++turns_, .bytes = *bytes}));
    } else {
      const bool moves = IsSmall(found->second.bytes) != IsSmall(*bytes);
      if (moves) Leave(queue, found->second);
      found->second.bytes = *bytes;
      if (moves) Join(queue, found->second);
    }
  }

  // Whose next segment for this rank fits, and goes first.
  std::optional<Choice> Next(Rank to, std::uint32_t bytes_max) const {
    const auto queue = queues_.find(to);
    if (queue == queues_.end()) return std::nullopt;
    const Line& line = queue->second.LineFor(bytes_max);
    const auto fits = [bytes_max](const Place& place) { return place.waiting->bytes <= bytes_max; };
    const auto first = std::find_if(line.places.begin(), line.places.end(), fits);
    if (first == line.places.end()) return std::nullopt;
    const Waiting* oldest = nullptr;  // of the lower priorities
    if (line.passed + 1 >= kAgingPeriod) {
      for (auto at = AfterPriority(line, first->priority); at != line.places.end();) {
        const auto end = AfterPriority(line, at->priority);
        const auto found = std::find_if(at, end, fits);
        if (found != end && (oldest == nullptr || found->since < oldest->since)) oldest = found->waiting;
        at = end;
      }
    }
    return oldest != nullptr ? Choice{oldest->turn, true} : Choice{first->waiting->turn, false};
  }
  // It was sent to the rank, on a lane that takes so much: it is the others' turn.
  void Sent(const Choice& choice, Rank to, std::uint32_t bytes_max) {
    Queue& queue = queues_.at(to);
    Line& line = IsSmall(bytes_max) ? queue.small : queue.all;
    if (choice.is_aged) {
      line.passed = 0;
    } else if (AfterPriority(line, choice.turn.priority) != line.places.end()) {
      line.passed = std::min(line.passed + 1, kAgingPeriod);
    }
    const auto found = queue.known.find(choice.turn.name);
    if (found == queue.known.end()) return;  // it has no segment now
    Leave(queue, found->second);
    found->second.since = ++turns_;
    Join(queue, found->second);
  }

  // It may not be sent yet.
  void NotNow(const Turn& turn, Rank to) {
    Queue& queue = queues_.at(to);
    Waiting& waiting = queue.known.at(turn.name);
    Leave(queue, waiting);
    waiting.is_blocked = true;
    Join(queue, waiting);
  }
  void Unblock(Rank to) {
    if (const auto queue = queues_.find(to); queue != queues_.end()) UnblockAll(queue->second);
  }
  void Unblock(const Turn& turn) {
    for (auto& [to, queue] : queues_) {
      const auto found = queue.known.find(turn.name);
      if (found != queue.known.end() && found->second.is_blocked) Unblock(queue, found->second);
    }
  }
  void UnblockAll() {
    for (auto& [to, queue] : queues_) UnblockAll(queue);
  }

  template <typename F>
  void ForEachRank(F&& visit) const {
    for (const auto& [to, queue] : queues_) {
      if (!queue.all.places.empty()) visit(to);
    }
  }

 private:
  struct Waiting {
    Turn turn;
    std::uint64_t since = 0;  // its turn
    std::uint32_t bytes = 0;
    bool is_blocked = false;
  };
  struct Place {
    std::uint32_t priority = 0;
    std::uint64_t since = 0;
    Waiting* waiting = nullptr;
    friend bool operator<(const Place& a, const Place& b) {
      return a.priority != b.priority ? a.priority > b.priority : a.since < b.since;
    }
  };
  using Places = std::set<Place>;
  struct Line {
    Places places;
    std::uint32_t passed = 0;  // sent since the last aged one, while lower ones waited
  };
  using Known = std::map<OpName, Waiting>;
  struct Queue {
    Known known;
    Line all;        // those that may be sent
    Line small;      // those of them that lanes for small segments take
    Places blocked;  // all others

    // Lanes for small segments are asked as often as others and would have to pass over all large ones.
    const Line& LineFor(std::uint32_t bytes_max) const { return IsSmall(bytes_max) ? small : all; }
  };

  static bool IsSmall(std::uint32_t bytes) { return bytes <= kSmallLanePayloadBytes; }
  static Places::const_iterator AfterPriority(const Line& line, std::uint32_t priority) {
    return priority == 0 ? line.places.end() : line.places.lower_bound({.priority = priority - 1});
  }

  Waiting& Add(Queue& queue, const Waiting& waiting) {
    if (spare_known_.empty()) return queue.known.emplace(waiting.turn.name, waiting).first->second;
    Known::node_type node = Take(spare_known_);
    node.key() = waiting.turn.name;
    node.mapped() = waiting;
    return queue.known.insert(std::move(node)).position->second;
  }
  void Join(Queue& queue, Waiting& waiting) {
    Insert(waiting.is_blocked ? queue.blocked : queue.all.places, waiting);
    if (!waiting.is_blocked && IsSmall(waiting.bytes)) Insert(queue.small.places, waiting);
  }
  // REQUIRES: nothing in it has changed since it joined.
  void Leave(Queue& queue, Waiting& waiting) {
    Remove(waiting.is_blocked ? queue.blocked : queue.all.places, waiting);
    if (!waiting.is_blocked && IsSmall(waiting.bytes)) Remove(queue.small.places, waiting);
  }
  void Unblock(Queue& queue, Waiting& waiting) {
    Leave(queue, waiting);
    waiting.is_blocked = false;
    Join(queue, waiting);
  }
  void UnblockAll(Queue& queue) {
    while (!queue.blocked.empty()) Unblock(queue, *queue.blocked.begin()->waiting);
  }
  static Place PlaceOf(Waiting& waiting) { return {waiting.turn.priority, waiting.since, &waiting}; }
  void Remove(Places& places, Waiting& waiting) { Keep(spare_places_, places.extract(PlaceOf(waiting))); }
  void Insert(Places& places, Waiting& waiting) {
    if (spare_places_.empty()) {
      places.insert(PlaceOf(waiting));
      return;
    }
    Places::node_type node = Take(spare_places_);
    node.value() = PlaceOf(waiting);
    places.insert(std::move(node));
  }

  // Nodes of what has left, for what comes: a segment allocates nothing.
  static constexpr std::size_t kSparesMax = 64;
  template <typename Node>
  static void Keep(std::vector<Node>& spare, Node node) {
    if (!node.empty() && spare.size() < kSparesMax) spare.push_back(std::move(node));
  }
  template <typename Node>
  static Node Take(std::vector<Node>& spare) {
    Node node = std::move(spare.back());
    spare.pop_back();
    return node;
  }

  std::vector<Known::node_type> spare_known_;
  std::vector<Places::node_type> spare_places_;
  std::uint64_t turns_ = 0;
  std::map<Rank, Queue> queues_;
};

}  // namespace ringway::transfer
