#include "daemon/links/control_stream.h"

#include "proto/mutation.h"

namespace ringway::links {

// An object in memory is larger than its encoding.
std::size_t ControlStream::SizeOf(const control::PeerMessage& message) {
  return sizeof message + 2 * message.ByteSizeLong();
}

bool ControlStream::Number(control::PeerMessage& message) {
  message.set_number(last_ + 1);
  const std::size_t bytes = SizeOf(message);
  is_full_ = is_full_ || kept_bytes_ + bytes > kKeptBytesMax;
  if (is_full_) return false;
  ++last_;
  kept_bytes_ += bytes;
  kept_.push_back(message);
  return true;
}

ControlStream::Verdict ControlStream::Take(const control::PeerMessage& message) {
  if (message.taken() > last_) return Verdict::kBroken;
  while (!kept_.empty() && kept_.front().number() <= message.taken()) {
    kept_bytes_ -= SizeOf(kept_.front());
    kept_.pop_front();
  }
  const bool is_heartbeat = message.has_heartbeat();
  if (is_heartbeat != (message.number() == 0)) return Verdict::kBroken;
  if (is_heartbeat) return Verdict::kNew;
  if (message.number() <= taken_ && !RINGWAY_MUTANT(kTakeMessagesTwice)) return Verdict::kDuplicate;
  if (message.number() > taken_ + 1 && !RINGWAY_MUTANT(kForgetMessages)) return Verdict::kBroken;
  taken_ = message.number();
  return Verdict::kNew;
}

void ControlStream::Stamp(control::PeerMessage& message) {
  message.set_taken(taken_);
  acknowledged_ = taken_;
}

}  // namespace ringway::links
