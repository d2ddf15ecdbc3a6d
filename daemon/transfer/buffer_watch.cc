#include "daemon/transfer/buffer_watch.h"

#include "proto/hash.h"

namespace ringway::transfer {

void BufferWatch::OnFailedRead(const Place& place, std::span<const std::byte> target, TimePoint now) {
  OnFailure(now);
  if (failed_.size() >= kFailedMax) failed_.erase(failed_.begin());  // of the oldest attempt
  failed_[place] = Hash64(target);
}

bool BufferWatch::HasChanged(const Place& place, std::span<const std::byte> target) {
  const auto found = failed_.find(place);
  if (found == failed_.end()) return false;
  const std::uint64_t failed = found->second;
  failed_.erase(found);
  return Hash64(target) != failed;
}

}  // namespace ringway::transfer
