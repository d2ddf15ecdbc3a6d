#include "daemon/collective/result_seal.h"

#include <algorithm>

#include "proto/hash.h"

namespace ringway::collective {

std::uint64_t WireHash(const Descriptor& descriptor, const std::byte* source, std::uint64_t count,
                       const kernels::Dither* dither) {
  if (descriptor.codec == Codec::kNone) return Hash64({source, count * SizeOf(descriptor.dtype)});
  std::vector<std::byte> encoded(EncodedBytes(descriptor.codec, descriptor.dtype, count));
  kernels::Encode(descriptor.codec, descriptor.dtype, encoded.data(), source, count, dither);
  return Hash64(encoded);
}

std::optional<std::vector<std::byte>> ResultSeal::Copy(const std::byte* output, const Range& range) {
  const std::uint64_t element_bytes = SizeOf(descriptor_.dtype);
  const std::uint64_t end = range.begin + range.count;
  std::vector<std::byte> copy;
  copy.reserve(range.count * element_bytes);
  std::vector<std::byte> bytes;
  const auto first = std::partition_point(segments_.begin(), segments_.end(), [&](const Segment& segment) {
    return segment.range.begin + segment.range.count <= range.begin;
  });
  for (auto segment = first; segment != segments_.end() && segment->range.begin < end; ++segment) {
    const Range& whole = segment->range;
    const std::byte* const at = output + whole.begin * element_bytes;
    bytes.assign(at, at + whole.count * element_bytes);
    const std::uint64_t hash = WireHash(descriptor_, bytes.data(), whole.count);
    if (segment->hash == 0) segment->hash = hash;
    if (segment->hash != hash) return std::nullopt;
    const std::uint64_t from = std::max(range.begin, whole.begin) - whole.begin;
    const std::uint64_t upto = std::min(end, whole.begin + whole.count) - whole.begin;
    copy.insert(copy.end(), bytes.data() + from * element_bytes, bytes.data() + upto * element_bytes);
  }
  return copy;
}

}  // namespace ringway::collective
