#include "proto/segment_header.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "proto/hash.h"

namespace ringway {
namespace {

using HeaderBytes = std::array<std::byte, kSegmentHeaderBytes>;

static_assert(kSegmentHeaderBytes == 96);

// Every field has a value that no other has.
SegmentHeader Sample() {
  SegmentHeader header;
  header.kind = SegmentKind::kFetched;
  header.epoch = Epoch::Of(2, 0x01020304);
  header.op = {ChannelId(0x11121314), 0x2122232425262728};
  header.descriptor = {
      OpKind::kAllReduce, DType::kF32,        ReduceOp::kMax, {Codec::kInt8, 128, Rounding::kStochastic},
      Algorithm::kRing,   0x3132333435363738, 0x81,           0x9192939495969798};
  header.step = 0x4142;
  header.chunk = 0x4344;
  header.segment = 0x45464748;
  header.payload_bytes = 0x054321;
  header.stamp = {Epoch::Of(3, 0x51525354), 0x6162636465666768};
  header.payload_hash = 0x7172737475767778;
  return header;
}

HeaderBytes Encoded(const SegmentHeader& header) {
  HeaderBytes bytes;
  bytes.fill(std::byte{0xEE});
  EncodeSegmentHeader(header, bytes);
  return bytes;
}

template <typename T>
T At(const HeaderBytes& bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
HeaderBytes With(HeaderBytes bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
  const std::uint64_t hash = Hash64(std::span(bytes).first(88));
  std::memcpy(bytes.data() + 88, &hash, sizeof hash);
  return bytes;
}

void ExpectEqual(const SegmentHeader& a, const SegmentHeader& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.op, b.op);
  EXPECT_EQ(a.descriptor, b.descriptor);
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.chunk, b.chunk);
  EXPECT_EQ(a.segment, b.segment);
  EXPECT_EQ(a.payload_bytes, b.payload_bytes);
  EXPECT_EQ(a.stamp.prepared, b.stamp.prepared);
  EXPECT_EQ(a.stamp.acknowledged, b.stamp.acknowledged);
  EXPECT_EQ(a.payload_hash, b.payload_hash);
}

TEST(SegmentHeaderTest, LayoutIsTheDocumentedOne) {
  const HeaderBytes bytes = Encoded(Sample());
  EXPECT_EQ(std::memcmp(bytes.data(), "RWS1", 4), 0);
  const std::uint8_t small[] = {1, 10, 4, 2};  // fetched, f32, max, int8
  EXPECT_EQ(std::memcmp(bytes.data() + 4, small, 4), 0);
  EXPECT_EQ(At<std::uint64_t>(bytes, 8), 0x201020304u);
  EXPECT_EQ(At<std::uint64_t>(bytes, 16), 0x2122232425262728u);
  EXPECT_EQ(At<std::uint32_t>(bytes, 24), 0x11121314u);
  EXPECT_EQ(At<std::uint32_t>(bytes, 28), 0x054321u);
  EXPECT_EQ(At<std::uint32_t>(bytes, 32), 0x45464748u);
  EXPECT_EQ(At<std::uint16_t>(bytes, 36), 0x4142);
  EXPECT_EQ(At<std::uint16_t>(bytes, 38), 0x4344);
  EXPECT_EQ(At<std::uint64_t>(bytes, 40), 0x3132333435363738u);
  EXPECT_EQ(At<std::uint64_t>(bytes, 48), 0x351525354u);
  EXPECT_EQ(At<std::uint64_t>(bytes, 56), 0x6162636465666768u);
  EXPECT_EQ(At<std::uint64_t>(bytes, 64), 0x7172737475767778u);
  const std::uint8_t kind_schedule_block_rounding[] = {0, 0, 7, 1};  // all_reduce, ring, 2^7, stochastic
  EXPECT_EQ(std::memcmp(bytes.data() + 72, kind_schedule_block_rounding, 4), 0);
  EXPECT_EQ(bytes[76], std::byte{0x81});
  for (std::size_t i = 77; i < 80; ++i) EXPECT_EQ(bytes[i], std::byte{0}) << i;
  EXPECT_EQ(At<std::uint64_t>(bytes, 80), 0x9192939495969798u);
  EXPECT_EQ(At<std::uint64_t>(bytes, 88), Hash64(std::span(bytes).first(88)));
}

TEST(SegmentHeaderTest, RoundTrip) {
  SegmentHeader extreme;
  extreme.descriptor.kind = OpKind::kUpdateView;
  extreme.descriptor.count = std::numeric_limits<std::uint64_t>::max();
  extreme.op = {ChannelId(std::numeric_limits<std::uint32_t>::max()), std::numeric_limits<std::uint64_t>::max()};
  extreme.payload_bytes = kPayloadBytesMax;
  for (const SegmentHeader& header : {SegmentHeader(), Sample(), extreme}) {
    const auto decoded = DecodeSegmentHeader(Encoded(header));
    ASSERT_TRUE(decoded.ok()) << decoded.status().text();
    ExpectEqual(decoded.value(), header);
  }
}

TEST(SegmentHeaderTest, EverySupportedDescriptorComesBack) {
  for (std::uint8_t dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (std::uint8_t op = 0; op < kReduceOpCount; ++op) {
      for (std::uint8_t codec = 0; codec < kCodecCount; ++codec) {
        SegmentHeader header = Sample();
        header.descriptor.dtype = static_cast<DType>(dtype);
        header.descriptor.op = static_cast<ReduceOp>(op);
        for (const std::uint16_t block : std::vector<std::uint16_t>{32, 256, 1024}) {
          header.descriptor.codec = static_cast<Codec>(codec);
          if (HasBlocks(header.descriptor.codec.codec)) header.descriptor.codec.block = block;
          const auto decoded = DecodeSegmentHeader(Encoded(header));
          ASSERT_TRUE(decoded.ok());
          EXPECT_EQ(decoded.value().descriptor, header.descriptor);
        }
      }
    }
  }
}

TEST(SegmentHeaderTest, EverySingleFlippedBitIsRefused) {
  HeaderBytes bytes = Encoded(Sample());
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const std::byte mask{static_cast<unsigned char>(1u << (bit % 8))};
    bytes[bit / 8] ^= mask;
    EXPECT_EQ(DecodeSegmentHeader(bytes).status().code(), Code::kProtocol) << "bit " << bit;
    bytes[bit / 8] ^= mask;
  }
  EXPECT_TRUE(DecodeSegmentHeader(bytes).ok());
}

TEST(SegmentHeaderTest, ValuesOutOfRangeAreRefusedThoughTheHashIsRight) {
  const HeaderBytes good = Encoded(Sample());
  ASSERT_TRUE(DecodeSegmentHeader(With(good, 4, std::uint8_t{0})).ok()) << "the recomputed hash must be right";
  struct Row {
    std::size_t offset;
    int first_bad;
    const char* name;
  };
  const Row rows[] = {{4, kSegmentKindCount, "kind"},
                      {5, kDTypeCount, "dtype"},
                      {6, kReduceOpCount, "op"},
                      {7, kCodecCount, "codec"},
                      {74, 11, "block"},
                      {75, kRoundingCount, "rounding"},
                      {72, kOpKindCount, "op_kind"},
                      {73, kAlgorithmCount, "schedule"}};
  for (const Row& row : rows) {
    EXPECT_TRUE(DecodeSegmentHeader(With(good, row.offset, static_cast<std::uint8_t>(row.first_bad - 1))).ok())
        << row.name;
    for (const int value : {row.first_bad, 127, 255}) {
      const auto decoded = DecodeSegmentHeader(With(good, row.offset, static_cast<std::uint8_t>(value)));
      EXPECT_EQ(decoded.status().code(), Code::kProtocol) << row.name << " " << value;
    }
  }
  EXPECT_TRUE(DecodeSegmentHeader(With(good, 28, kPayloadBytesMax)).ok());
  EXPECT_FALSE(DecodeSegmentHeader(With(good, 28, kPayloadBytesMax + 1)).ok());
  EXPECT_FALSE(DecodeSegmentHeader(With(good, 28, 0xFFFFFFFFu)).ok());
  EXPECT_FALSE(DecodeSegmentHeader(With(good, 0, 0x32535752u)).ok()) << "another magic";
}

TEST(SegmentHeaderTest, ZerosAndNoiseAreRefused) {
  HeaderBytes bytes{};
  EXPECT_FALSE(DecodeSegmentHeader(bytes).ok());
  std::uint64_t state = 1;
  for (int round = 0; round < 1000; ++round) {
    for (std::byte& byte : bytes) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      byte = static_cast<std::byte>(state >> 56);
    }
    EXPECT_FALSE(DecodeSegmentHeader(bytes).ok());
  }
}

TEST(SegmentHeaderTest, DescriptorAsText) {
  EXPECT_EQ(ToString(Descriptor{OpKind::kAllReduce, DType::kF32, ReduceOp::kSum, Codec::kNone, Algorithm::kRing, 9}),
            "all_reduce of 9 f32, sum, codec none, algorithm ring");
  EXPECT_EQ(ToString(Encoding(Codec::kInt4)), "int4");
  EXPECT_EQ(ToString(Encoding(Codec::kInt8, 64, Rounding::kStochastic)), "int8 in blocks of 64, stochastic");
  EXPECT_NE(ToString(Sample().descriptor).find("int8"), std::string::npos);
}

}  // namespace
}  // namespace ringway
