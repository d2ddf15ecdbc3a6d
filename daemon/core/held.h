// Frames and messages that came too early: for an operation not submitted here yet, or for a view not installed yet.
//
// Bounded: each sender has the plan's eager window (plus one segment) of payload; messages are counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::core {

struct HeldFrame {
  PeerId from;
  SegmentHeader header;
  std::shared_ptr<std::vector<std::byte>> payload;
};

class HeldFrames {
 public:
  static constexpr std::uint64_t kOverheadBytes = 256;  // charged for a frame beside its payload

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
  // A frame whose payload is being read counts already.
  void Reserve(PeerId from, const SegmentHeader& header) { bytes_[from] += Cost(header); }
  void Unreserve(PeerId from, const SegmentHeader& header) { bytes_[from] -= Cost(header); }
  // REQUIRES: reserved.
  void Add(HeldFrame frame) { frames_[frame.header.op].push_back(std::move(frame)); }

  // Takes the frames of an operation that belong to `epoch`; older ones are dropped.
  std::vector<HeldFrame> Take(const OpName& name, Epoch epoch) {
    std::vector<HeldFrame> out;
    const auto found = frames_.find(name);
    if (found == frames_.end()) return out;
    std::vector<HeldFrame> rest;
    for (HeldFrame& frame : found->second) {
      if (frame.header.epoch > epoch) {
        rest.push_back(std::move(frame));
        continue;
      }
      Unreserve(frame.from, frame.header);
      if (frame.header.epoch == epoch) out.push_back(std::move(frame));
    }
    if (rest.empty()) {
      frames_.erase(found);
    } else {
      found->second = std::move(rest);
    }
    return out;
  }

  // Drops everything below `epoch`.
  void DropBelow(Epoch epoch) {
    for (auto it = frames_.begin(); it != frames_.end();) {
      std::erase_if(it->second, [&](const HeldFrame& frame) {
        const bool old = frame.header.epoch < epoch;
        if (old) Unreserve(frame.from, frame.header);
        return old;
      });
      it = it->second.empty() ? frames_.erase(it) : std::next(it);
    }
  }

 private:
  std::map<OpName, std::vector<HeldFrame>> frames_;
  std::map<PeerId, std::uint64_t> bytes_;
};

}  // namespace ringway::core
