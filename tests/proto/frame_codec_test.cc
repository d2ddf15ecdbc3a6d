#include "proto/frame_codec.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "proto/hash.h"

namespace ringway {
namespace {

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string Text(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string Word(std::uint32_t word) {
  std::string bytes(4, '\0');
  for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(word >> (8 * i));
  return bytes;
}

std::string Sum(const std::string& bytes) {
  const std::uint64_t hash = Hash64(Bytes(bytes));
  return Word(static_cast<std::uint32_t>(hash)) + Word(static_cast<std::uint32_t>(hash >> 32));
}

// A header that announces a frame of so many bytes.
std::string Header(std::uint32_t length) {
  const std::string word = Word(length | kFrameFormat << 24);
  return word + Sum(word).substr(0, 4);
}

control::ToMaster Join(const std::string& group) {
  control::ToMaster message;
  message.mutable_join()->set_group(group);
  message.mutable_join()->set_request_id(7);
  return message;
}

// An empty message, a short one and one of several kilobytes.
std::vector<control::ToMaster> Messages() { return {control::ToMaster(), Join("job"), Join(std::string(5000, 'g'))}; }

std::vector<std::string> Drain(FrameReader& reader) {
  std::vector<std::string> frames;
  while (const auto frame = reader.Next()) frames.push_back(Text(*frame).substr(kFrameChecksumBytes));
  return frames;
}

TEST(FrameCodecTest, FrameIsSummedHeaderThenChecksumThenMessage) {
  std::string stream = "before";
  AppendFrame(Join("job"), stream);
  const std::string message = Join("job").SerializeAsString();
  EXPECT_EQ(stream, "before" + Header(static_cast<std::uint32_t>(8 + message.size())) + Sum(message) + message);
}

TEST(FrameCodecTest, StreamCutAnywhereGivesTheSameFrames) {
  std::string stream;
  std::vector<std::string> expected;
  for (const control::ToMaster& message : Messages()) {
    AppendFrame(message, stream);
    expected.push_back(message.SerializeAsString());
  }
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    FrameReader reader;
    std::vector<std::string> frames;
    for (const std::string& part : {stream.substr(0, cut), stream.substr(cut)}) {
      ASSERT_TRUE(reader.Feed(Bytes(part)).ok());
      for (std::string& frame : Drain(reader)) frames.push_back(std::move(frame));
    }
    ASSERT_EQ(frames, expected) << "cut at " << cut;
    ASSERT_TRUE(reader.Rest().empty());
  }
}

TEST(FrameCodecTest, StreamFedByteByByteGivesEachFrameWithItsLastByte) {
  std::string stream;
  std::vector<std::size_t> ends;
  for (const control::ToMaster& message : Messages()) {
    AppendFrame(message, stream);
    ends.push_back(stream.size());
  }
  FrameReader reader;
  std::vector<std::size_t> seen;
  for (std::size_t i = 0; i < stream.size(); ++i) {
    ASSERT_TRUE(reader.Feed(Bytes(stream.substr(i, 1))).ok());
    if (reader.Next().has_value()) seen.push_back(i + 1);
    ASSERT_FALSE(reader.Next().has_value());
  }
  EXPECT_EQ(seen, ends);
}

TEST(FrameCodecTest, RestIsWhatFollowsTheFrames) {
  std::string stream;
  AppendFrame(Join("job"), stream);
  FrameReader reader;
  ASSERT_TRUE(reader.Feed(Bytes(stream + "segments")).ok());
  ASSERT_TRUE(reader.Next().has_value());
  EXPECT_EQ(Text(reader.Rest()), "segments");
}

TEST(FrameCodecTest, LengthBeyondTheMaximumIsRefusedBeforeAnyOfItArrives) {
  for (const std::uint32_t length : {kFrameBytesMax + 9, 0xFFFFFFu, 0u, 7u}) {
    FrameReader reader;
    EXPECT_EQ(reader.Feed(Bytes(Header(length))).code(), Code::kProtocol) << length;
    EXPECT_FALSE(reader.Next().has_value());
    EXPECT_EQ(reader.Rest().size(), kFrameHeaderBytes) << "holds what was fed, not what was announced";
  }
}

TEST(FrameCodecTest, LengthOfExactlyTheMaximumIsTaken) {
  FrameReader reader;
  ASSERT_TRUE(reader.Feed(Bytes(Header(kFrameBytesMax + 8))).ok());
  EXPECT_FALSE(reader.Next().has_value());
  ASSERT_TRUE(reader.Feed(Bytes(std::string(kFrameBytesMax + 8, 'x'))).ok());
  const auto frame = reader.Next();
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->size(), kFrameBytesMax + 8);
}

TEST(FrameCodecTest, BadHeaderBehindAGoodFrameIsRefusedAtTheNextFeed) {
  std::string stream;
  AppendFrame(Join("job"), stream);
  FrameReader reader;
  ASSERT_TRUE(reader.Feed(Bytes(stream + Header(kFrameBytesMax + 9))).ok());
  EXPECT_TRUE(reader.Next().has_value());
  EXPECT_FALSE(reader.Next().has_value());
  EXPECT_EQ(reader.Feed(Bytes("x")).code(), Code::kProtocol);
}

TEST(FrameCodecTest, AnyFlippedBitIsNoticed) {
  std::string stream;
  AppendFrame(Join("job"), stream);
  for (std::size_t bit = 0; bit < 8 * stream.size(); ++bit) {
    std::string flipped = stream;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    FrameReader reader;
    const bool header_ok = reader.Feed(Bytes(flipped)).ok();
    EXPECT_EQ(header_ok, bit / 8 >= kFrameHeaderBytes) << "bit " << bit;
    if (!header_ok) continue;
    const auto frame = reader.Next();
    ASSERT_TRUE(frame.has_value()) << "bit " << bit;
    control::ToMaster message;
    EXPECT_EQ(ParseFrame(*frame, message).code(), Code::kProtocol) << "bit " << bit;
  }
}

TEST(FrameCodecTest, FrameOfVersion1IsKnownByItsFirstWordAndCanBeAnswered) {
  std::string stream;
  AppendVersion1Frame(Join("job"), stream);
  FrameReader reader;
  EXPECT_EQ(reader.Feed(Bytes(stream.substr(0, 3))).code(), Code::kOk);
  EXPECT_EQ(reader.Feed(Bytes(stream.substr(3, 1))).code(), Code::kVersionMismatch);
  const std::string message = Join("job").SerializeAsString();
  EXPECT_EQ(stream, Word(static_cast<std::uint32_t>(message.size())) + message);
}

TEST(FrameCodecTest, TextOfAnotherProtocolIsRefused) {
  for (const char* greeting : {"GET / HTTP/1.1\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\x16\x03\x01\x02\x00\x01"}) {
    FrameReader reader;
    EXPECT_EQ(reader.Feed(Bytes(greeting)).code(), Code::kProtocol) << greeting;
  }
}

TEST(FrameCodecTest, GarbageInsideAFrameIsNoMessage) {
  control::ToMaster message;
  for (const std::string& garbage :
       {std::string("\xff\xff\xff\xff"), std::string("\x12\x7f"), std::string(64, '\x07')}) {
    EXPECT_EQ(ParseFrame(Bytes(Sum(garbage) + garbage), message).code(), Code::kProtocol);
  }
  const std::string whole = Join("job").SerializeAsString();
  const std::string cut = whole.substr(0, whole.size() - 1);
  EXPECT_EQ(ParseFrame(Bytes(Sum(cut) + cut), message).code(), Code::kProtocol);
  EXPECT_EQ(ParseFrame(Bytes(whole.substr(0, 7)), message).code(), Code::kProtocol);
}

TEST(FrameCodecTest, ParsedMessageIsTheOneThatWasFramed) {
  control::ToMaster message;
  const std::string body = Join("job").SerializeAsString();
  ASSERT_TRUE(ParseFrame(Bytes(Sum(body) + body), message).ok());
  EXPECT_EQ(message.join().group(), "job");
  EXPECT_EQ(message.join().request_id(), 7u);
}

TEST(FrameCodecDeathTest, MessageBeyondTheMaximumBreaksTheContract) {
  std::string out;
  EXPECT_DEATH(AppendFrame(Join(std::string(kFrameBytesMax, 'g')), out), "invariant broken");
}

TEST(FrameCodecTest, VersionsAgreeOnTheHighestOfBothRanges) {
  struct Row {
    std::uint32_t other_min, other_max;
    std::optional<std::uint32_t> agreed;
  };
  constexpr std::uint32_t kTop = std::numeric_limits<std::uint32_t>::max();
  const Row rows[] = {
      {kProtocolVersionMin, kProtocolVersionMax, kProtocolVersionMax},
      {0, kProtocolVersionMax, kProtocolVersionMax},
      {kProtocolVersionMin, kTop, kProtocolVersionMax},
      {0, kTop, kProtocolVersionMax},
      {kProtocolVersionMax, kTop, kProtocolVersionMax},
      {0, kProtocolVersionMin, kProtocolVersionMin},
      {0, kProtocolVersionMin - 1, std::nullopt},
      {kProtocolVersionMax + 1, kTop, std::nullopt},
      {0, 0, std::nullopt},
      {kProtocolVersionMax, kProtocolVersionMin - 1, std::nullopt},  // an empty range
      {kProtocolVersionMax + 2, kProtocolVersionMax + 1, std::nullopt},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(AgreeVersion(kProtocolVersions, {row.other_min, row.other_max}), row.agreed)
        << row.other_min << ".." << row.other_max;
  }
}

}  // namespace
}  // namespace ringway
