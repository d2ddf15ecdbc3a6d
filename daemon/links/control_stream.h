// The control messages of a pair of peers, exactly once and in order, over any number of control links one after the
// other.
//
//   sender:    Number --> sent and kept --Take(taken)--> forgotten; on a new link all that is kept is sent again
//   receiver:  Take(number): the next one is new, a lower one a duplicate, a higher one an error of that link
//
// Heartbeats have no number: each says everything anew. Every message says with `taken` how far its sender has got.
//
// Pure. What is kept is bounded by kKeptBytesMax: who does not acknowledge that much is lost, and its pair with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "proto/control.pb.h"

namespace ringway::links {

class ControlStream {
 public:
  static constexpr std::size_t kKeptBytesMax = 4 << 20;
  // Messages that are taken without a word; what is kept for longer is memory of the other side.
  static constexpr std::uint64_t kTakenUntoldMax = 256;

  // Numbers the message and keeps a copy. REQUIRES: no heartbeat, not stamped. False if there is no room: then it is
  // neither kept nor to be sent, nor is any that comes after it.
  bool Number(control::PeerMessage& message);
  bool is_full() const { return is_full_; }
  // All that the other side may lack, oldest first.
  const std::deque<control::PeerMessage>& kept() const { return kept_; }

  // What to do with a message that came: its number is 0 where it has none.
  enum class Verdict : std::uint8_t { kNew, kDuplicate, kBroken };
  Verdict Take(const control::PeerMessage& message);

  // For each message that leaves.
  void Stamp(control::PeerMessage& message);
  // So many were taken that the other side should be told without waiting for a heartbeat.
  bool MustTell() const { return taken_ - told_ >= kTakenUntoldMax; }

 private:
  static std::size_t SizeOf(const control::PeerMessage& message);

  std::deque<control::PeerMessage> kept_;
  std::size_t kept_bytes_ = 0;
  bool is_full_ = false;
  std::uint64_t last_ = 0;   // number of the newest that was sent
  std::uint64_t taken_ = 0;  // .. of the newest that came
  std::uint64_t told_ = 0;   // .. of the newest that the other side knows has come
};

}  // namespace ringway::links
