#include <gtest/gtest.h>
#include <ringway/types.h>

#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "proto/encoding_code.h"

namespace ringway {
namespace {

// The numbers are wire format and ABI: whoever changes one of these breaks both.
TEST(TypesTest, DTypesKeepTheirNumberNameAndSize) {
  struct Row {
    int number;
    DType dtype;
    const char* name;
    std::size_t bytes;
    bool is_integer;
  };
  const Row rows[] = {
      {0, DType::kU8, "u8", 1, true},      {1, DType::kI8, "i8", 1, true},     {2, DType::kU16, "u16", 2, true},
      {3, DType::kI16, "i16", 2, true},    {4, DType::kU32, "u32", 4, true},   {5, DType::kI32, "i32", 4, true},
      {6, DType::kU64, "u64", 8, true},    {7, DType::kI64, "i64", 8, true},   {8, DType::kF16, "f16", 2, false},
      {9, DType::kBF16, "bf16", 2, false}, {10, DType::kF32, "f32", 4, false}, {11, DType::kF64, "f64", 8, false},
  };
  EXPECT_EQ(std::size(rows), std::size_t{kDTypeCount});
  for (const Row& row : rows) {
    EXPECT_EQ(static_cast<int>(row.dtype), row.number);
    EXPECT_STREQ(NameOf(row.dtype), row.name);
    EXPECT_EQ(SizeOf(row.dtype), row.bytes) << row.name;
    EXPECT_EQ(IsInteger(row.dtype), row.is_integer) << row.name;
  }
}

TEST(TypesTest, ReductionsAndKindsKeepTheirNumberAndName) {
  const char* ops[] = {"sum", "avg", "prod", "min", "max"};
  EXPECT_EQ(std::size(ops), std::size_t{kReduceOpCount});
  for (std::uint8_t i = 0; i < kReduceOpCount; ++i) EXPECT_STREQ(NameOf(static_cast<ReduceOp>(i)), ops[i]);
  EXPECT_EQ(static_cast<int>(ReduceOp::kMax), 4);
  EXPECT_STREQ(NameOf(OpKind::kAllReduce), "all_reduce");
  EXPECT_STREQ(NameOf(OpKind::kUpdateView), "update_view");
  EXPECT_STREQ(NameOf(OpKind::kReduceScatterV), "reduce_scatter_v");
  EXPECT_STREQ(NameOf(OpKind::kSend), "send");
  EXPECT_STREQ(NameOf(OpKind::kRecv), "recv");
}

TEST(TypesTest, CodecsKeepTheirNumberNameAndSize) {
  struct Row {
    Codec codec;
    int number;
    const char* name;
    std::size_t bytes_of_1, bytes_of_256, bytes_of_257;  // of f32
  };
  const Row rows[] = {
      {Codec::kNone, 0, "none", 4, 1024, 1028},      {Codec::kBf16, 1, "bf16", 2, 512, 514},
      {Codec::kInt8, 2, "int8", 5, 260, 265},        {Codec::kF16, 3, "f16", 2, 512, 514},
      {Codec::kInt4, 4, "int4", 5, 132, 137},        {Codec::kInt8Zp, 5, "int8_zp", 9, 264, 273},
      {Codec::kInt4Zp, 6, "int4_zp", 9, 136, 145},   {Codec::kFp8E4m3, 7, "fp8_e4m3", 2, 257, 259},
      {Codec::kFp8E5m2, 8, "fp8_e5m2", 2, 257, 259},
  };
  EXPECT_EQ(std::size(rows), std::size_t{kCodecCount});
  for (const Row& row : rows) {
    EXPECT_EQ(static_cast<int>(row.codec), row.number);
    EXPECT_STREQ(NameOf(row.codec), row.name);
    EXPECT_EQ(EncodedBytes(row.codec, DType::kF32, 0), 0u) << row.name;
    EXPECT_EQ(EncodedBytes(row.codec, DType::kF32, 1), row.bytes_of_1) << row.name;
    EXPECT_EQ(EncodedBytes(row.codec, DType::kF32, 256), row.bytes_of_256) << row.name;
    EXPECT_EQ(EncodedBytes(row.codec, DType::kF32, 257), row.bytes_of_257) << row.name;
  }
  EXPECT_EQ(EncodedBytes(Codec::kNone, DType::kF64, 3), 24u);
}

TEST(TypesTest, ACodecsRefusalNamesItAndItsDtypes) {
  for (const CodecInfo& info : kCodecs) {
    if (info.dtypes == kEveryDType) continue;
    std::string dtypes;
    for (std::uint8_t d = 0; d < kDTypeCount; ++d) {
      if ((info.dtypes >> d & 1) == 0) continue;
      const bool last = info.dtypes >> (d + 1) == 0;
      dtypes += (dtypes.empty() ? "" : last ? " or " : ", ") + std::string(NameOf(static_cast<DType>(d)));
    }
    EXPECT_EQ(info.refusal, std::string("codec ") + info.name + " needs dtype " + dtypes);
  }
}

TEST(TypesTest, EveryCodeHasANameOfItsOwn) {
  std::set<std::string> names;
  for (std::uint32_t i = 0; i < kCodeCount; ++i) names.insert(NameOf(static_cast<Code>(i)));
  EXPECT_EQ(names.size(), std::size_t{kCodeCount});
  EXPECT_EQ(names.count("?"), 0u);
  EXPECT_STREQ(NameOf(Code::kOk), "ok");
  EXPECT_STREQ(NameOf(Code::kDaemonLost), "daemon_lost");
  EXPECT_STREQ(NameOf(Code::kEvicted), "evicted");
  EXPECT_STREQ(NameOf(Code::kInternal), "internal");
  EXPECT_STREQ(NameOf(Code::kRejoined), "rejoined");
  EXPECT_STREQ(NameOf(Code::kBufferModified), "buffer_modified");
  EXPECT_EQ(static_cast<std::uint32_t>(Code::kDeviceFailed) + 1, kCodeCount);
}

TEST(TypesTest, NumbersOutOfRangeHaveNoName) {
  EXPECT_STREQ(NameOf(static_cast<DType>(kDTypeCount)), "?");
  EXPECT_STREQ(NameOf(static_cast<ReduceOp>(kReduceOpCount)), "?");
  EXPECT_STREQ(NameOf(static_cast<Codec>(kCodecCount)), "?");
  EXPECT_STREQ(NameOf(static_cast<OpKind>(kOpKindCount)), "?");
  EXPECT_STREQ(NameOf(static_cast<Code>(kCodeCount)), "?");
  EXPECT_STREQ(NameOf(static_cast<Code>(0xFFFFFFFFu)), "?");
  EXPECT_EQ(SizeOf(static_cast<DType>(kDTypeCount)), 0u);
  EXPECT_EQ(SizeOf(static_cast<DType>(255)), 0u);
}

// Lists what exists once more: everything but averages of integers; codecs for f32 and halves, but formats of 16 bits
// for no other half.
TEST(TypesTest, SupportedCombinations) {
  int supported = 0;
  for (std::uint8_t dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (std::uint8_t op = 0; op < kReduceOpCount; ++op) {
      for (std::uint8_t codec = 0; codec < kCodecCount; ++codec) {
        const bool is_integer_average = dtype <= 7 && op == 1;
        const bool cross = (codec == 1 && dtype == 8) || (codec == 3 && dtype == 9);
        const bool expected = !is_integer_average && (codec == 0 || (dtype >= 8 && dtype <= 10 && !cross));
        const char* reason = "untouched";
        EXPECT_EQ(IsSupported(static_cast<DType>(dtype), static_cast<ReduceOp>(op), static_cast<Codec>(codec), &reason),
                  expected)
            << int{dtype} << " " << int{op} << " " << int{codec};
        EXPECT_EQ(reason == nullptr, expected);
        supported += expected ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(supported, 12 * 5 - 8 + ((kCodecCount - 1) * 3 - 2) * 5);
}

TEST(TypesTest, RefusedCombinationsSayWhy) {
  const auto why = [](DType dtype, ReduceOp op, const Encoding& codec) {
    const char* reason = nullptr;
    EXPECT_FALSE(IsSupported(dtype, op, codec, &reason));
    return std::string(reason != nullptr ? reason : "");
  };
  EXPECT_NE(why(DType::kI32, ReduceOp::kAvg, Codec::kNone).find("avg of integers"), std::string::npos);
  EXPECT_NE(why(DType::kF64, ReduceOp::kSum, Codec::kInt8).find("int8 needs dtype f16, bf16 or f32"),
            std::string::npos);
  EXPECT_EQ(why(static_cast<DType>(12), ReduceOp::kSum, Codec::kNone), "unknown dtype");
  EXPECT_EQ(why(DType::kF32, static_cast<ReduceOp>(5), Codec::kNone), "unknown reduction");
  EXPECT_EQ(why(DType::kF32, ReduceOp::kSum, static_cast<Codec>(kCodecCount)), "unknown codec");
  EXPECT_TRUE(IsSupported(DType::kF32, ReduceOp::kAvg, Codec::kInt8));  // the reason is optional

  for (const std::uint16_t block : std::vector<std::uint16_t>{0, 1, 16, 33, 48, 2048, 65535}) {
    EXPECT_EQ(why(DType::kF32, ReduceOp::kSum, {Codec::kInt8, block}),
              "a block has 32, 64, 128, 256, 512 or 1024 elements");
  }
  EXPECT_NE(why(DType::kF32, ReduceOp::kSum, {Codec::kBf16, 64}).find("no blocks"), std::string::npos);
  EXPECT_NE(why(DType::kF32, ReduceOp::kSum, {Codec::kNone, 0, Rounding::kStochastic}).find("rounds nothing"),
            std::string::npos);
  EXPECT_EQ(why(DType::kF32, ReduceOp::kSum, {Codec::kInt8, 256, static_cast<Rounding>(2)}), "unknown rounding");
}

TEST(TypesTest, EveryEncodingSurvivesItsCodeAndNothingElseBecomesOne) {
  int valid = 0;
  for (int codec = 0; codec < 256; ++codec) {
    for (int power = 0; power < 256; ++power) {
      for (int rounding = 0; rounding < 4; ++rounding) {
        const EncodingCode code{static_cast<std::uint8_t>(codec), static_cast<std::uint8_t>(power),
                                static_cast<std::uint8_t>(rounding)};
        const Encoding encoding = EncodingOf(code);
        if (!IsValid(encoding)) continue;
        ++valid;
        EXPECT_EQ(EncodingOf(CodeOf(encoding)), encoding);
        EXPECT_TRUE(power == 0 || power >= 5) << power;
      }
    }
  }
  // A codec with blocks has six sizes and its own, rounded either way; the two formats have none; none rounds one way.
  EXPECT_EQ(valid, 6 * 7 * 2 + 2 * 2 + 1);
  EXPECT_FALSE(IsValid(EncodingOf(CodeOf({Codec::kInt8, 48}))));
  for (const std::uint16_t block : std::initializer_list<std::uint16_t>{0, 1, 2, 16, 2048}) {
    EXPECT_FALSE(IsValid(EncodingOf(CodeOf({Codec::kInt8, block})))) << block;
    EXPECT_EQ(IsValid(EncodingOf(CodeOf({Codec::kNone, block}))), Encoding(Codec::kNone).block == block) << block;
  }
  EXPECT_FALSE(IsValid(EncodingOf(CodeOf(static_cast<Codec>(200)))));
}

}  // namespace
}  // namespace ringway
