#include "proto/frame_codec.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "proto/control.pb.h"

namespace ringway {
namespace {

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string Text(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string Length(std::uint32_t length) {
  std::string bytes(4, '\0');
  for (std::size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes;
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
  while (const auto frame = reader.Next()) frames.push_back(Text(*frame));
  return frames;
}

TEST(FrameCodecTest, FrameIsLittleEndianLengthThenMessage) {
  std::string stream = "before";
  AppendFrame(Join("job"), stream);
  const std::string message = Join("job").SerializeAsString();
  EXPECT_EQ(stream, "before" + Length(static_cast<std::uint32_t>(message.size())) + message);
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
  for (const std::uint32_t length : {kFrameBytesMax + 1, 0x80000000u, std::numeric_limits<std::uint32_t>::max()}) {
    FrameReader reader;
    const Status status = reader.Feed(Bytes(Length(length)));
    EXPECT_EQ(status.code(), Code::kProtocol) << length;
    EXPECT_NE(status.text().find(std::to_string(length)), std::string::npos) << status.text();
    EXPECT_FALSE(reader.Next().has_value());
    EXPECT_EQ(reader.Rest().size(), 4u) << "holds what was fed, not what was announced";
  }
}

TEST(FrameCodecTest, LengthOfExactlyTheMaximumIsTaken) {
  FrameReader reader;
  ASSERT_TRUE(reader.Feed(Bytes(Length(kFrameBytesMax))).ok());
  EXPECT_FALSE(reader.Next().has_value());
  ASSERT_TRUE(reader.Feed(Bytes(std::string(kFrameBytesMax, 'x'))).ok());
  const auto frame = reader.Next();
  ASSERT_TRUE(frame.has_value());
  EXPECT_EQ(frame->size(), kFrameBytesMax);
}

TEST(FrameCodecTest, BadLengthBehindAGoodFrameIsRefusedAtTheNextFeed) {
  std::string stream;
  AppendFrame(Join("job"), stream);
  FrameReader reader;
  ASSERT_TRUE(reader.Feed(Bytes(stream + Length(kFrameBytesMax + 1))).ok());
  EXPECT_TRUE(reader.Next().has_value());
  EXPECT_FALSE(reader.Next().has_value());
  EXPECT_EQ(reader.Feed(Bytes("x")).code(), Code::kProtocol);
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
    EXPECT_EQ(ParseFrame(Bytes(garbage), message).code(), Code::kProtocol);
  }
  const std::string whole = Join("job").SerializeAsString();
  EXPECT_EQ(ParseFrame(Bytes(whole.substr(0, whole.size() - 1)), message).code(), Code::kProtocol);
}

TEST(FrameCodecTest, ParsedMessageIsTheOneThatWasFramed) {
  control::ToMaster message;
  ASSERT_TRUE(ParseFrame(Bytes(Join("job").SerializeAsString()), message).ok());
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
    EXPECT_EQ(AgreeVersion(row.other_min, row.other_max), row.agreed) << row.other_min << ".." << row.other_max;
  }
}

}  // namespace
}  // namespace ringway
