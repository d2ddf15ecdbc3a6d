// Any 96 bytes, once as they are and once with their hash put right: what is accepted encodes to the same bytes again.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "proto/hash.h"
#include "proto/segment_header.h"
#include "tests/fuzz/input.h"

namespace ringway {
namespace {

using Bytes = std::array<std::byte, kSegmentHeaderBytes>;
constexpr std::size_t kHashedBytes = 88;
constexpr std::size_t kReservedOffset = 74;

void Decode(const Bytes& bytes) {
  const Result<SegmentHeader> header = DecodeSegmentHeader(bytes);
  if (!header.ok()) return;
  REQUIRE(header.value().payload_bytes <= kPayloadBytesMax);
  REQUIRE(static_cast<std::uint8_t>(header.value().descriptor.schedule) < kAlgorithmCount);
  REQUIRE(!ToString(header.value().descriptor).empty());
  Bytes again{};
  EncodeSegmentHeader(header.value(), again);
  REQUIRE(std::equal(again.begin(), again.begin() + kReservedOffset, bytes.begin()));
}

}  // namespace
}  // namespace ringway

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringway;
  fuzz::Input input(data, size);
  auto bytes = input.Number<Bytes>();
  Decode(bytes);
  const std::uint64_t hash = Hash64(std::span(bytes).first(kHashedBytes));
  std::memcpy(bytes.data() + kHashedBytes, &hash, sizeof hash);
  Decode(bytes);
  return 0;
}
