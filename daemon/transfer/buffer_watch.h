// Distinguishes a trainer that writes to memory of an operation in flight from a link that flips bytes. Both make a
// payload fail its checksum; this is what a peer knows of it.
//
//   seen here                                                              judged
//   a segment was refused, and its source no longer has the hash it was    the trainer wrote to it
//     sent with
//   a segment was refused, and its source is what it was                   the link, or it was written back
//   a finished segment, about to be sent, does not fit its hash            the trainer wrote to it
//   a payload that was read straight into the output fails its checksum    not known yet
//   such a payload, if what failed has changed before it came again        the trainer wrote to it
//
// After the first failure that may be its trainer's fault a peer is cautious for a while: segments leave from copies
// that were compared with their hash, and payloads are verified before they are put into the output. So a trainer's
// writes close no more lanes then, each lane at most once in that time.
//
// Only memory that a trainer can write to is judged, and only for attempts that run: nobody else writes to hashed
// memory there. Pure; one thread; bounded.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "proto/clock.h"

namespace ringway::transfer {

class BufferWatch {
 public:
  // A trainer that nothing can be proven of (it writes back what was there) closes each lane once in this time: fewer
  // than make its neighbours accuse each other.
  static constexpr Duration kCautionTime = std::chrono::minutes(1);
  static constexpr std::size_t kFailedMax = 256;

  // A segment, of an attempt.
  struct Place {
    std::uint64_t attempt = 0;
    std::uint32_t arrival = 0;
    std::uint32_t segment = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };

  bool cautious(TimePoint now) const { return until_ && now < *until_; }
  void OnFailure(TimePoint now) { until_ = now + kCautionTime; }

  // A payload that was read into `target` failed its checksum. Nobody but the trainer writes there until the place is
  // read into again: then it must be forgotten.
  void OnFailedRead(const Place& place, std::span<const std::byte> target, TimePoint now);
  void Forget(const Place& place) { failed_.erase(place); }
  // Its payload has come elsewhere: whether `target` has changed meanwhile. Forgets the place.
  bool HasChanged(const Place& place, std::span<const std::byte> target);

 private:
  std::optional<TimePoint> until_;
  std::map<Place, std::uint64_t> failed_;  // the hash of what failed
};

}  // namespace ringway::transfer
