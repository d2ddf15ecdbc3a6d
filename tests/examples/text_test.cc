#include "client/examples/train_text/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace train_text {
namespace {

namespace fs = std::filesystem;

class TextTest : public ::testing::Test {
 protected:
  TextTest() {
    std::string path = (fs::temp_directory_path() / "train_text_XXXXXX").string();
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    directory_ = path;
  }
  ~TextTest() override { fs::remove_all(directory_); }

  void Write(const std::string& name, const std::string& content) const { std::ofstream(directory_ / name) << content; }
  static std::string Decode(const std::vector<std::uint8_t>& symbols) {
    std::string text;
    for (const std::uint8_t symbol : symbols) text.push_back(CharacterOf(symbol));
    return text;
  }

  fs::path directory_;
};

TEST_F(TextTest, EverySymbolHasItsCharacter) {
  for (std::size_t i = 0; i < kSymbolCount; ++i) {
    const auto symbol = static_cast<std::uint8_t>(i);
    EXPECT_EQ(SymbolOf(CharacterOf(symbol)), symbol);
  }
  EXPECT_EQ(SymbolOf('\t'), SymbolOf(' '));
  EXPECT_EQ(SymbolOf('\xC3'), SymbolOf(' '));
}

TEST_F(TextTest, DirectoryIsItsRegularFilesInSortedOrder) {
  Write("b", "second\n");
  Write("a", "first\n");
  fs::create_symlink(directory_ / "a", directory_ / "c");
  fs::create_directory(directory_ / "d");
  std::string error;
  const auto symbols = ReadSymbols(directory_.string(), &error);
  ASSERT_TRUE(symbols.has_value()) << error;
  EXPECT_EQ(Decode(*symbols), "first\nsecond\n");
}

TEST_F(TextTest, MissingOrEmptyTextIsNamedInTheError) {
  std::string error;
  EXPECT_FALSE(ReadSymbols((directory_ / "absent").string(), &error).has_value());
  EXPECT_NE(error.find("absent"), std::string::npos);
  Write("empty", "");
  EXPECT_FALSE(ReadSymbols((directory_ / "empty").string(), &error).has_value());
  EXPECT_NE(error.find("empty"), std::string::npos);
}

TEST_F(TextTest, ShardsAreContiguousCoverAllAndDifferByAtMostOne) {
  for (const std::size_t size : {0U, 1U, 7U, 64U, 237320U}) {
    for (std::uint32_t world = 1; world <= 9; ++world) {
      std::size_t next = 0;
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        const Shard shard = ShardOf(size, rank, world);
        EXPECT_EQ(shard.begin, next);
        EXPECT_GE(shard.end - shard.begin, size / world);
        EXPECT_LE(shard.end - shard.begin, size / world + 1);
        next = shard.end;
      }
      EXPECT_EQ(next, size);
    }
  }
}

TEST_F(TextTest, BatchesStayInsideTheShardAndFollowTheSeed) {
  std::vector<std::uint8_t> text(100);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::uint8_t>(i % kSymbolCount);
  constexpr Shard kShard = {20, 60};
  constexpr std::size_t kContext = 8;
  Random random(1);
  Random again(1);
  Batch batch;
  Batch same;
  DrawBatch(text, kShard, kContext, 500, &random, &batch);
  DrawBatch(text, kShard, kContext, 500, &again, &same);
  EXPECT_EQ(batch.contexts, same.contexts);
  EXPECT_EQ(*std::min_element(batch.contexts.begin(), batch.contexts.end()), kShard.begin);
  EXPECT_EQ(*std::max_element(batch.targets.begin(), batch.targets.end()), kShard.end - 1);
  for (std::size_t i = 0; i < batch.size; ++i) {
    EXPECT_EQ(batch.targets[i], batch.contexts[i * kContext + kContext - 1] + 1);  // the symbol that follows
  }
}

}  // namespace
}  // namespace train_text
