// Any bytes, fed in any pieces: the reader yields the same frames as a plain reading of the lengths, or refuses.
#include <cstring>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "proto/frame_codec.h"
#include "proto/hash.h"
#include "tests/fuzz/input.h"

namespace ringway {
namespace {

std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The whole frames at the front of `bytes`, up to a length that is too large.
std::vector<std::string> PlainFrames(std::string bytes) {
  std::vector<std::string> frames;
  while (bytes.size() >= kFrameHeaderBytes) {
    std::uint32_t length = 0;
    std::memcpy(&length, bytes.data(), 3);
    if (length > kFrameBytesMax + kFrameChecksumBytes || bytes.size() - kFrameHeaderBytes < length) break;
    frames.push_back(bytes.substr(kFrameHeaderBytes, length));
    bytes.erase(0, kFrameHeaderBytes + length);
  }
  return frames;
}

// A frame with this message and its right checksum, as ParseFrame takes it.
std::string Summed(const std::string& body) {
  const std::uint64_t checksum = Hash64(std::as_bytes(std::span(body)));
  return std::string(reinterpret_cast<const char*>(&checksum), sizeof checksum) + body;
}

template <typename Message>
void RoundTrip(std::span<const std::byte> frame) {
  Message message;
  if (!ParseFrame(frame, message).ok()) return;
  std::string out;
  AppendFrame(message, out);
  FrameReader reader;
  REQUIRE(reader.Feed(std::as_bytes(std::span(out))).ok());
  const auto again = reader.Next();
  REQUIRE(again.has_value());
  Message other;
  REQUIRE(ParseFrame(*again, other).ok());
}

void RoundTripAll(std::span<const std::byte> frame) {
  RoundTrip<control::ToMaster>(frame);
  RoundTrip<control::FromMaster>(frame);
  RoundTrip<control::PeerMessage>(frame);
  RoundTrip<control::LinkHello>(frame);
}

}  // namespace
}  // namespace ringway

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringway;
  fuzz::Input input(data, size);
  const std::size_t piece_max = 1 + input.Below(256);
  FrameReader reader;
  std::string fed;
  std::vector<std::string> frames;
  while (!input.empty()) {
    const auto piece = input.Take(piece_max);
    fed += Text(piece);
    if (!reader.Feed(piece).ok()) break;
    while (const auto frame = reader.Next()) {
      frames.push_back(Text(*frame));
      RoundTripAll(*frame);
    }
    REQUIRE(reader.Rest().size() <= kFrameBytesMax + kFrameHeaderBytes + kFrameChecksumBytes + piece_max);
  }
  const std::string summed = Summed(fed);
  RoundTripAll(std::as_bytes(std::span(summed)));
  // If Feed refused, it may have withheld frames of the last piece.
  const std::vector<std::string> plain = PlainFrames(fed);
  REQUIRE(frames.size() <= plain.size());
  for (std::size_t i = 0; i < frames.size(); ++i) REQUIRE(frames[i] == plain[i]);
  return 0;
}
