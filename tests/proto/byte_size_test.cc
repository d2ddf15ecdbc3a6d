#include "proto/byte_size.h"

#include <gtest/gtest.h>

namespace ringway {
namespace {

TEST(ByteSizeTest, SizesHaveBinarySuffixes) {
  EXPECT_EQ(ParseBytes("4096"), 4096u);
  EXPECT_EQ(ParseBytes("4K"), 4096u);
  EXPECT_EQ(ParseBytes("256M"), 256u << 20);
  EXPECT_EQ(ParseBytes("3G"), std::uint64_t{3} << 30);
  EXPECT_EQ(ParseBytes("65536G"), std::uint64_t{1} << 46);
  EXPECT_EQ(ParseBytes("0"), 0u);
  for (const char* const wrong :
       {"", "K", "4k", "4KB", "-1", "1.5M", "99999999999999999999", "9999999999G", "65537G", "999999999999999"}) {
    EXPECT_EQ(ParseBytes(wrong), std::nullopt) << wrong;
  }
}

TEST(ByteSizeTest, TextIsReadAsTheSameSize) {
  EXPECT_EQ(BytesText(64 << 20), "64M");
  EXPECT_EQ(BytesText(1500), "1500");
  EXPECT_EQ(BytesText(std::uint64_t{2048} << 30), "2048G");
  for (const std::uint64_t bytes : {0ull, 1ull, 1023ull, 1024ull, 1ull << 20, 3ull << 30, (1ull << 46) - 1}) {
    EXPECT_EQ(ParseBytes(BytesText(bytes)), bytes);
  }
}

TEST(ByteSizeTest, ClassesEndAtPowersOfTwo) {
  EXPECT_EQ(SizeClassOf(0), 0u);
  EXPECT_EQ(SizeClassOf(1), 0u);
  EXPECT_EQ(SizeClassOf(2), 1u);
  EXPECT_EQ(SizeClassOf(4096), 12u);
  EXPECT_EQ(SizeClassOf(4097), 13u);
  EXPECT_EQ(SizeClassOf(~std::uint64_t{0}) + 1, kSizeClassCount);
}

}  // namespace
}  // namespace ringway
