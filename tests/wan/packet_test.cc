#include "tests/wan/packet.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ringway::wan {
namespace {

constexpr std::size_t kVirtio = 10, kIp = 20, kTcp = 32;
constexpr std::size_t kHeaders = kVirtio + kIp + kTcp;

// Makes a frame from 10.0.0.1 to 10.0.0.2, sequence number 1000, PSH and ACK, payload 0, 1, 2 ... in segments of
// `segment` bytes.
Bytes Frame(std::size_t payload, std::uint16_t segment) {
  Bytes frame(kHeaders + payload);
  const auto put = [&](std::size_t at, std::initializer_list<int> values) {
    for (const int value : values) frame[at++] = static_cast<std::byte>(value);
  };
  const std::size_t total = kIp + kTcp + payload;
  put(0, {1, 1, 52, 0, segment & 255, segment >> 8, 20, 0, 16, 0});  // needs checksum, TSO
  put(kVirtio, {0x45, 0, static_cast<int>(total >> 8), static_cast<int>(total & 255)});
  put(kVirtio + 8, {64, 6});
  put(kVirtio + 12, {10, 0, 0, 1, 10, 0, 0, 2});
  put(kVirtio + kIp + 4, {0, 0, 1000 >> 8, 1000 & 255});
  put(kVirtio + kIp + 12, {8 << 4, 0x18});
  for (std::size_t i = 0; i < payload; ++i) frame[kHeaders + i] = static_cast<std::byte>(i);
  return frame;
}

int At(const Bytes& frame, std::size_t at) { return static_cast<int>(frame[at]); }
int Word(const Bytes& frame, std::size_t at) { return At(frame, at) << 8 | At(frame, at + 1); }

// Returns the ones' complement sum of the bytes, including their checksum: 0xffff if that is right.
int OnesSum(const Bytes& frame, std::size_t at, std::size_t bytes) {
  int sum = 0;
  for (std::size_t i = 0; i < bytes; i += 2) sum += Word(frame, at + i);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

TEST(WanPacket, SuperPacketIsCountedInSegments) {
  const auto info = Inspect(Frame(2500, 1000));
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->destination, 0x0a000002u);
  EXPECT_EQ(info->segments, 3u);
  EXPECT_EQ(info->WireBytes(0), kIp + kTcp + 1000);
  EXPECT_EQ(info->WireBytes(2), kIp + kTcp + 500);
  EXPECT_EQ(Inspect(Frame(1000, 1000))->segments, 1u);
}

TEST(WanPacket, OnlySynWithoutAckOpensAConnection) {
  Bytes frame = Frame(0, 0);
  const auto opens = [&](int flags) {
    frame[kVirtio + kIp + 13] = static_cast<std::byte>(flags);
    return Inspect(frame)->opens;
  };
  EXPECT_FALSE(opens(0x10));
  EXPECT_TRUE(opens(0x02));
  EXPECT_TRUE(opens(0xc2)) << "with ECN";
  EXPECT_FALSE(opens(0x12));
}

TEST(WanPacket, WhatIsNotWholeIsRefused) {
  const Bytes whole = Frame(100, 1000);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(Inspect(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes))).has_value());
  }
  Bytes six = whole;
  six[kVirtio] = std::byte{0x60};
  EXPECT_FALSE(Inspect(six).has_value());
}

TEST(WanPacket, SliceIsAPacketOfItsOwn) {
  const Bytes frame = Frame(2500, 1000);
  const auto info = *Inspect(frame);
  const Bytes middle = Slice(frame, info, 1, 1);
  ASSERT_EQ(middle.size(), kHeaders + 1000);
  EXPECT_EQ(At(middle, 1), 0) << "no TSO left";
  EXPECT_EQ(Word(middle, kVirtio + kIp + 6), 2000) << "sequence number";
  EXPECT_EQ(At(middle, kVirtio + kIp + 13), 0x10) << "PSH belongs to the last";
  EXPECT_EQ(OnesSum(middle, kVirtio, kIp), 0xffff);
  EXPECT_EQ(At(middle, kHeaders), 1000 % 256);
  const Bytes end = Slice(frame, info, 1, 2);
  EXPECT_EQ(end.size(), kHeaders + 1500);
  EXPECT_EQ(At(end, 1), 1);
  EXPECT_EQ(At(end, kVirtio + kIp + 13), 0x18);
  EXPECT_EQ(Slice(frame, info, 0, 3), frame);
}

TEST(WanPacket, SlicesInOrderMergeIntoTheirPacket) {
  const Bytes frame = Frame(2500, 1000);
  const auto info = *Inspect(frame);
  Bytes merged = Slice(frame, info, 0, 1);
  ASSERT_TRUE(Merge(&merged, Slice(frame, info, 1, 1)));
  ASSERT_TRUE(Merge(&merged, Slice(frame, info, 2, 1)));
  EXPECT_EQ(Inspect(merged)->segments, 3u);
  EXPECT_EQ(Inspect(merged)->segment_bytes, 1000u);
  EXPECT_EQ(OnesSum(merged, kVirtio, kIp), 0xffff);
  EXPECT_TRUE(std::equal(merged.begin() + kHeaders, merged.end(), frame.begin() + kHeaders, frame.end()));
  EXPECT_EQ(Slice(merged, *Inspect(merged), 1, 1), Slice(frame, info, 1, 1));
}

TEST(WanPacket, OnlyWhatFollowsWholeSegmentsOfTheSameStreamMerges) {
  const Bytes frame = Frame(3500, 1000);
  const auto info = *Inspect(frame);
  const Bytes first = Slice(frame, info, 0, 1);
  const Bytes second = Slice(frame, info, 1, 1);
  const auto refuses = [](Bytes before, const Bytes& next) {
    const Bytes whole = before;
    return !Merge(&before, next) && before == whole;
  };
  EXPECT_TRUE(refuses(first, Slice(frame, info, 2, 1))) << "a gap";
  EXPECT_TRUE(refuses(second, first));
  EXPECT_TRUE(refuses(Slice(frame, info, 3, 1), first)) << "PSH ends a packet";
  for (const std::size_t at :
       {kVirtio + 12, kVirtio + kIp + 1, kVirtio + kIp + 8, kVirtio + kIp + 14, kVirtio + kIp + 24}) {
    Bytes other = second;
    other[at] ^= std::byte{1};
    EXPECT_TRUE(refuses(first, other)) << "another header at " << at;
  }
  Bytes long_one = first;
  std::size_t merges = 0;
  for (; merges < 100; ++merges) {
    Bytes next = first;
    const std::size_t sequence = 1000 + (merges + 1) * 1000;
    for (int byte = 0; byte < 4; ++byte) {
      next[kVirtio + kIp + 7 - static_cast<std::size_t>(byte)] = static_cast<std::byte>(sequence >> 8 * byte);
    }
    if (!Merge(&long_one, next)) break;
  }
  EXPECT_EQ(merges, 64u) << "no longer than an IP packet may be";
}

TEST(WanPacket, CorruptionChangesOneByteOfThePayload) {
  const Bytes frame = Frame(1000, 1000);
  for (const std::uint64_t random : {0ULL, 999ULL, 0xffff'ffff'ffffULL}) {
    Bytes corrupt = frame;
    Corrupt(&corrupt, *Inspect(frame), random);
    int differences = 0;
    for (std::size_t i = kHeaders; i < frame.size(); ++i) differences += frame[i] != corrupt[i] ? 1 : 0;
    EXPECT_EQ(differences, 1);
    EXPECT_EQ(OnesSum(corrupt, kVirtio, kIp), 0xffff);
  }
}

}  // namespace
}  // namespace ringway::wan
