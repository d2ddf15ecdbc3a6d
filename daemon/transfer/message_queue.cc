#include "daemon/transfer/message_queue.h"

#include <cstddef>
#include <limits>

namespace ringway::transfer {

void MessageQueue::Remove(const MessageName& name) {
  const auto sending = sending_.find(name.stream.to);
  if (sending == sending_.end()) return;
  sending->second.erase(name);
  if (sending->second.empty()) sending_.erase(sending);
}

std::optional<MessageQueue::Popped> MessageQueue::Next(PeerId to, std::uint32_t bytes_max, StreamName& last) {
  const auto sending = sending_.find(to);
  if (sending == sending_.end()) return std::nullopt;
  auto& attempts = sending->second;
  auto next = attempts.upper_bound({last, std::numeric_limits<std::uint64_t>::max()});
  for (std::size_t seen = 0; seen < attempts.size(); ++seen, ++next) {
    if (next == attempts.end()) next = attempts.begin();
    const auto ready = next->second->executor().PopReady(kReceiver, bytes_max);
    if (!ready) continue;
    last = next->first.stream;
    return Popped{next->second, *ready};
  }
  return std::nullopt;
}

}  // namespace ringway::transfer
