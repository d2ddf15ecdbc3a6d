// One attempt of one operation in one epoch: takes arriving segments, reduces or copies them, and says what to send
// next. No I/O, no time, no allocation per segment.
//
// Memory: `input` is read only; `output` holds partial results until complete(), then the result. Both `count`
// elements.
//
//   position of an arrival:  empty --Claim--> claimed --Accept--> done
//                                     ^---------Release (lane lost, checksum failed)
//
// A departure's segment becomes ready when the arrival it follows is done there (cut-through), or when the input is
// staged that far. Finished chunks are encoded from the output: Q(D(codes)) == codes makes that the same as forwarding
// the codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/collective/grid.h"
#include "daemon/collective/schedule.h"
#include "proto/ids.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::collective {

// Holds whatever backs a pointer. The only shared ownership on the data path: frames outlive operations.
using Keep = std::shared_ptr<const void>;

struct ExecutorOptions {
  Descriptor descriptor;
  std::uint32_t world_size = 1;
  std::uint64_t segment_bytes_max = 256 * 1024;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t input_bytes_ready = 0;
  Stamp stamp;  // this rank's own, frozen at the start
};

class Executor {
 public:
  Executor(Schedule schedule, const ExecutorOptions& options);

  // A claimed position: where its payload goes.
  struct Claim {
    std::uint32_t arrival = kNone;
    std::uint32_t segment = 0;
    std::byte* direct = nullptr;  // read the payload straight here; null: into scratch
    bool duplicate = false;       // done or claimed already: skip the payload
  };
  // Never copies the payload. kProtocol if the position, sender or length is not of this schedule. REQUIRES: the
  // descriptor matches.
  Result<Claim> Take(const SegmentHeader& header, Rank from);
  // The claimed payload, verified by the caller. `payload` is claim.direct's memory or scratch.
  void Accept(const Claim& claim, const SegmentHeader& header, std::span<const std::byte> payload);
  void Release(const Claim& claim);

  // The input is valid up to here (bytes). Only grows.
  void InputReady(std::uint64_t bytes);

  struct Ready {
    std::uint32_t departure = kNone;
    std::uint32_t segment = 0;
  };
  // The next segment for `to` that fits, or nothing. `wire_bytes_max` bounds the encoded payload.
  std::optional<Ready> PopReady(Rank to, std::uint32_t wire_bytes_max);
  // A popped segment that was lost on its way. What was lost was not consumed, so its source still holds it.
  void Requeue(const Ready& ready);
  // Encoded size of the segment that PopReady(to) would give, if there is one.
  std::optional<std::uint32_t> NextBytes(Rank to) const;
  template <typename F>
  void ForEachReady(F&& visit) const {
    for (const auto& [to, queue] : ready_) {
      if (!queue.empty()) visit(to);
    }
  }
  std::span<const Arrival> arrivals() const { return schedule_.arrivals; }

  struct Encoded {
    SegmentHeader header;  // epoch and op are the caller's to fill
    std::span<const std::byte> payload;
  };
  // `scratch` holds the codec's bytes where there is a codec. The payload's hash is in the header.
  Encoded Encode(const Ready& ready, std::span<std::byte> scratch);

  // Every arrival is done and the own input was whole: the output is the result.
  bool complete() const { return open_segments_ == 0 && input_ready_ == input_bytes_; }
  // Min over all contributors. REQUIRES: complete().
  Stamp stamp() const { return stamp_; }
  const Descriptor& descriptor() const { return options_.descriptor; }
  const Grid& grid() const { return grid_; }

 private:
  enum class Position : std::uint8_t { kEmpty, kClaimed, kDone };
  // What a departure of this segment must carry.
  struct SegmentState {
    Stamp stamp;
    std::uint64_t final_hash = 0;  // of the finished segment's wire bytes; 0: not known yet
  };

  void QueueInputSegments();
  void Combine(std::uint32_t arrival, std::uint32_t segment, std::span<const std::byte> payload);
  void Finish(std::uint32_t arrival, std::uint32_t segment);
  void Spread(std::uint32_t arrival, std::uint32_t segment);
  void Queue(std::uint32_t departure, std::uint32_t segment);
  SegmentState& StateOf(std::uint32_t chunk, std::uint32_t segment) {
    return segments_[first_segment_[chunk] + segment];
  }
  std::uint32_t WireBytes(std::uint32_t chunk, std::uint32_t segment) const;
  std::uint64_t InputBytesNeeded(std::uint32_t chunk, std::uint32_t segment) const;
  std::byte* OutputAt(const Range& range) const;
  const std::byte* InputAt(const Range& range) const;

  ExecutorOptions options_;
  Schedule schedule_;
  Grid grid_;
  std::map<std::uint32_t, std::uint32_t> arrival_of_;  // step << 16 | chunk -> arrival
  std::vector<std::vector<Position>> positions_;       // by arrival, segment
  std::vector<std::vector<std::uint32_t>> followers_;  // by arrival: the departures that it feeds
  std::vector<std::uint32_t> first_segment_;           // by chunk: index into segments_
  std::vector<SegmentState> segments_;
  std::map<Rank, std::deque<Ready>> ready_;
  // Work that needs input which is not staged yet, by the input bytes that it needs.
  std::multimap<std::uint64_t, Ready> unstaged_departures_;
  struct Raw {  // received into the output, not combined with the own input yet
    std::uint32_t arrival = 0;
    std::uint32_t segment = 0;
  };
  std::multimap<std::uint64_t, Raw> unstaged_arrivals_;
  std::uint64_t open_segments_ = 0;
  std::uint64_t input_bytes_ = 0;
  std::uint64_t input_ready_ = 0;
  Stamp stamp_;
};

}  // namespace ringway::collective
