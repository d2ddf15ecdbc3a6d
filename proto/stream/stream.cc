#include "proto/stream/stream.h"

#include <algorithm>
#include <cstring>

namespace ringway::net {

StreamIo Stream::Read(ReadParts into) {
  if (unread_.empty()) return Receive(into);
  std::size_t read = 0;
  for (const std::span<std::byte> part : into) {
    const std::size_t bytes = std::min(part.size(), unread_.size() - read);
    if (bytes > 0) std::memcpy(part.data(), unread_.data() + read, bytes);
    read += bytes;
  }
  unread_.erase(0, read);
  return {.kind = StreamIo::Kind::kBytes, .bytes = read};
}

void Stream::Unread(std::span<const std::byte> bytes) {
  unread_.insert(0, reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace ringway::net
