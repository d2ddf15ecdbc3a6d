// Control messages of a pair of peers, delivered exactly once and in order across successive control links.
//
//   sender:    Number --> sent and kept --Take(taken)--> dropped; on a new link all that is kept is resent
//   receiver:  Take(number): the next one is new, a lower one a duplicate, a higher one breaks the link
//
// Heartbeats are not numbered: each carries its whole state. Every message acknowledges with `taken`.
//
// Pure. Kept messages are bounded by kKeptBytesMax: a peer that does not acknowledge within that is lost, and so is its
// pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "proto/control.pb.h"

namespace ringway::links {

class ControlStream {
 public:
  static constexpr std::size_t kKeptBytesMax = 4 << 20;
  // Messages that may be unacknowledged; until then the other side keeps them in memory.
  static constexpr std::uint64_t kUnacknowledgedMax = 256;

  // Numbers the message and keeps a copy. REQUIRES: no heartbeat, not stamped. Returns false if there is no room: then
  // neither this message nor any later one is kept or may be sent.
  bool Number(control::PeerMessage& message);
  bool is_full() const { return is_full_; }
  // All messages that are not acknowledged, oldest first.
  const std::deque<control::PeerMessage>& kept() const { return kept_; }

  // Judges a received message, and takes its acknowledgement. A heartbeat has number 0.
  enum class Verdict : std::uint8_t { kNew, kDuplicate, kBroken };
  Verdict Take(const control::PeerMessage& message);

  // Adds the acknowledgement. To be called for each message that is sent.
  void Stamp(control::PeerMessage& message);
  // Enough are unacknowledged to send an acknowledgement without waiting for the next heartbeat.
  bool MustAcknowledge() const { return taken_ - acknowledged_ >= kUnacknowledgedMax; }

 private:
  static std::size_t SizeOf(const control::PeerMessage& message);

  std::deque<control::PeerMessage> kept_;
  std::size_t kept_bytes_ = 0;
  bool is_full_ = false;
  std::uint64_t last_ = 0;          // number of the newest message sent
  std::uint64_t taken_ = 0;         // newest received
  std::uint64_t acknowledged_ = 0;  // newest acknowledged
};

}  // namespace ringway::links
