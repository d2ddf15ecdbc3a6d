#include "proto/hash.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace ringway {
namespace {

std::uint64_t HashOf(const std::string& text) { return Hash64(std::as_bytes(std::span(text))); }

// Published values of XXH3-64 without a seed, one for each of its short paths.
TEST(HashTest, KnownValues) {
  EXPECT_EQ(HashOf(""), 0x2D06800538D394C2u);
  EXPECT_EQ(HashOf("a"), 0xE6C632B61E964E1Fu);
  EXPECT_EQ(HashOf("abc"), 0x78AF5F94892F3950u);
}

TEST(HashTest, DoesNotDependOnAlignment) {
  for (const std::size_t length : {1, 8, 80, 240, 241, 1024, 5000}) {
    std::string text(length, '\0');
    for (std::size_t i = 0; i < length; ++i) text[i] = static_cast<char>(i * 7 + 3);
    const std::uint64_t expected = HashOf(text);
    std::vector<char> memory(length + 64);
    for (std::size_t offset = 0; offset < 64; ++offset) {
      std::memcpy(memory.data() + offset, text.data(), length);
      ASSERT_EQ(Hash64(std::as_bytes(std::span(memory.data() + offset, length))), expected) << length << " " << offset;
    }
  }
}

TEST(HashTest, EverySingleFlippedBitChangesIt) {
  for (const std::size_t length : {1, 3, 16, 80, 200, 300, 2000}) {
    std::string text(length, 'r');
    const std::uint64_t before = HashOf(text);
    for (std::size_t bit = 0; bit < 8 * length; ++bit) {
      text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
      ASSERT_NE(HashOf(text), before) << "length " << length << " bit " << bit;
      text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    }
  }
}

TEST(HashTest, LengthOfZerosCounts) {
  std::vector<std::uint64_t> seen;
  for (std::size_t length = 0; length < 300; ++length) {
    const std::uint64_t hash = HashOf(std::string(length, '\0'));
    for (const std::uint64_t other : seen) ASSERT_NE(hash, other) << length;
    seen.push_back(hash);
  }
}

}  // namespace
}  // namespace ringway
