// Frames that came too early: for an operation or a message not submitted here yet, or for a view not installed yet.
//
//   EarlyRoom    how much may wait, by sender, and whether the daemon's memory has room for a payload
//   EarlyFrame   one of them; its room is free again when it goes
//   EarlyFrames  those of operations, in the order in which they came
//
// Bounded twice: each sender has the plan's eager window (plus one segment) of payload, and all together have what the
// session's share of the daemon's memory has room for. A frame that finds no room there keeps its header only; when its
// turn has come, its sender is asked to resend it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "proto/ids.h"
#include "proto/memory_budget.h"
#include "proto/segment_header.h"

namespace ringway::transfer {

struct EarlyFrame;

class EarlyRoom {
 public:
  static constexpr std::uint64_t kOverheadBytes = 256;  // charged for a frame beside its payload

  // `memory`: outlives this; null: no limit.
  explicit EarlyRoom(MemoryShare* memory) : memory_(memory) {}
  EarlyRoom(const EarlyRoom&) = delete;
  EarlyRoom& operator=(const EarlyRoom&) = delete;

  static std::uint64_t Cost(const SegmentHeader& header) { return header.payload_bytes + kOverheadBytes; }
  // A frame whose payload is being read counts already. Its payload is null if there is no room for it.
  EarlyFrame Reserve(PeerId from, const SegmentHeader& header);
  std::uint64_t BytesFrom(PeerId from) const {
    const auto found = bytes_.find(from);
    return found == bytes_.end() ? 0 : found->second;
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [peer, bytes] : bytes_) sum += bytes;
    return sum;
  }

  // A frame's part of it, until this goes. The room outlives it.
  class Part {
   public:
    Part() = default;
    Part(EarlyRoom* room, PeerId from, std::uint64_t cost, std::uint64_t memory_bytes)
        : room_(room), from_(from), cost_(cost), memory_bytes_(memory_bytes) {}
    Part(Part&& other) noexcept { *this = std::move(other); }
    Part& operator=(Part&& other) noexcept {
      std::swap(room_, other.room_);
      std::swap(from_, other.from_);
      std::swap(cost_, other.cost_);
      std::swap(memory_bytes_, other.memory_bytes_);
      return *this;
    }
    ~Part() { Release(); }
    void Release() {
      EarlyRoom* const room = std::exchange(room_, nullptr);
      if (room == nullptr) return;
      const auto bytes = room->bytes_.find(from_);
      bytes->second -= cost_;
      if (bytes->second == 0) room->bytes_.erase(bytes);
      if (room->memory_ != nullptr && memory_bytes_ > 0) room->memory_->Give(MemoryUse::kEarly, memory_bytes_);
    }

   private:
    EarlyRoom* room_ = nullptr;
    PeerId from_;
    std::uint64_t cost_ = 0;
    std::uint64_t memory_bytes_ = 0;
  };

 private:
  MemoryShare* const memory_;
  std::map<PeerId, std::uint64_t> bytes_;
};

struct EarlyFrame {
  PeerId from;
  SegmentHeader header;
  std::shared_ptr<std::vector<std::byte>> payload;  // null: there was no room
  EarlyRoom::Part room;
};

inline EarlyFrame EarlyRoom::Reserve(PeerId from, const SegmentHeader& header) {
  const std::uint64_t bytes = header.payload_bytes;
  const bool has_room = memory_ == nullptr || memory_->TryTake(MemoryUse::kEarly, bytes);
  bytes_[from] += Cost(header);
  return {from, header, has_room ? std::make_shared<std::vector<std::byte>>(bytes) : nullptr,
          Part(this, from, Cost(header), has_room ? bytes : 0)};
}

class EarlyFrames {
 public:
  void Add(EarlyFrame frame) { frames_[frame.header.op][frame.header.epoch].push_back(std::move(frame)); }

  bool Has(const OpName& name, Epoch epoch) const {
    const auto found = frames_.find(name);
    return found != frames_.end() && found->second.contains(epoch);
  }
  // Takes the next frame of an operation that belongs to `epoch`; its room is free.
  std::optional<EarlyFrame> TakeNext(const OpName& name, Epoch epoch) {
    const auto found = frames_.find(name);
    if (found == frames_.end()) return std::nullopt;
    const auto queue = found->second.find(epoch);
    if (queue == found->second.end()) return std::nullopt;
    EarlyFrame frame = std::move(queue->second.front());
    queue->second.pop_front();
    frame.room.Release();
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

  static void DropBelow(ByEpoch& frames, Epoch epoch) { frames.erase(frames.begin(), frames.lower_bound(epoch)); }

  std::map<OpName, ByEpoch> frames_;
};

}  // namespace ringway::transfer
