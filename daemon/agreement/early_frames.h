// Frames and messages that came too early: for an operation not submitted here yet, or for a view not installed yet.
//
// Bounded twice: each sender has the plan's eager window (plus one segment) of payload, and all together have what the
// session's share of the daemon's memory has room for. A frame that finds no room there keeps its header only; when its
// turn has come, its sender is asked for it again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/memory_budget.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

struct EarlyFrame {
  PeerId from;
  SegmentHeader header;
  std::shared_ptr<std::vector<std::byte>> payload;  // null: there was no room
};

class EarlyFrames {
 public:
  static constexpr std::uint64_t kOverheadBytes = 256;  // charged for a frame beside its payload

  // `memory`: outlives this; null: no limit.
  explicit EarlyFrames(MemoryShare* memory = nullptr) : memory_(memory) {}
  ~EarlyFrames() { DropBelow(Epoch(std::numeric_limits<std::uint64_t>::max())); }
  EarlyFrames(const EarlyFrames&) = delete;
  EarlyFrames& operator=(const EarlyFrames&) = delete;

  static std::uint64_t Cost(const SegmentHeader& header) { return header.payload_bytes + kOverheadBytes; }
  std::uint64_t BytesFrom(PeerId from) const {
    const auto found = bytes_.find(from);
    return found == bytes_.end() ? 0 : found->second;
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [peer, bytes] : bytes_) sum += bytes;
    return sum;
  }
  // A frame whose payload is being read counts already. Its payload is null if there is no room for it.
  EarlyFrame Reserve(PeerId from, const SegmentHeader& header) {
    bytes_[from] += Cost(header);
    const bool has_room = memory_ == nullptr || memory_->TryTake(MemoryUse::kEarly, header.payload_bytes);
    return {from, header, has_room ? std::make_shared<std::vector<std::byte>>(header.payload_bytes) : nullptr};
  }
  void Unreserve(const EarlyFrame& frame) {
    bytes_[frame.from] -= Cost(frame.header);
    if (memory_ != nullptr && frame.payload != nullptr) memory_->Give(MemoryUse::kEarly, frame.payload->size());
  }
  // REQUIRES: reserved.
  void Add(EarlyFrame frame) { frames_[frame.header.op][frame.header.epoch].push_back(std::move(frame)); }

  bool Has(const OpName& name, Epoch epoch) const {
    const auto found = frames_.find(name);
    return found != frames_.end() && found->second.contains(epoch);
  }
  // Takes the next frame of an operation that belongs to `epoch`.
  std::optional<EarlyFrame> TakeNext(const OpName& name, Epoch epoch) {
    const auto found = frames_.find(name);
    if (found == frames_.end()) return std::nullopt;
    const auto queue = found->second.find(epoch);
    if (queue == found->second.end()) return std::nullopt;
    EarlyFrame frame = std::move(queue->second.front());
    queue->second.pop_front();
    Unreserve(frame);
    if (queue->second.empty()) found->second.erase(queue);
    if (found->second.empty()) frames_.erase(found);
    return frame;
  }
  // Drops an operation's frames up to `epoch`.
  void Drop(const OpName& name, Epoch epoch) {
    const auto found = frames_.find(name);
    if (found == frames_.end()) return;
    DropBelow(found->second, Epoch(epoch.value + 1));
    if (found->second.empty()) frames_.erase(found);
  }
  // Drops everything below `epoch`.
  void DropBelow(Epoch epoch) {
    for (auto it = frames_.begin(); it != frames_.end();) {
      DropBelow(it->second, epoch);
      it = it->second.empty() ? frames_.erase(it) : std::next(it);
    }
  }

 private:
  using ByEpoch = std::map<Epoch, std::deque<EarlyFrame>>;

  void DropBelow(ByEpoch& frames, Epoch epoch) {
    while (!frames.empty() && frames.begin()->first < epoch) {
      for (const EarlyFrame& frame : frames.begin()->second) Unreserve(frame);
      frames.erase(frames.begin());
    }
  }

  MemoryShare* memory_;
  std::map<OpName, ByEpoch> frames_;
  std::map<PeerId, std::uint64_t> bytes_;
};

}  // namespace ringway::agreement
