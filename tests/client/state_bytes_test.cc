// How the bytes of a state are cut into pieces.
#include "client/src/state/state_bytes.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace ringway::internal {
namespace {

// A state of tensors of these sizes, whose bytes are all different from those around them.
struct Model {
  explicit Model(const std::vector<std::size_t>& sizes) {
    for (const std::size_t size : sizes) {
      contents.emplace_back(size);
      for (std::size_t i = 0; i < size; ++i) contents.back()[i] = static_cast<std::byte>(contents.size() + i * 7);
      tensors.push_back({std::to_string(tensors.size()), contents.back().data(), size});
    }
    auto made = StateBytes::Make(tensors);
    EXPECT_TRUE(made.ok()) << made.status().text();
    state = std::make_unique<StateBytes>(std::move(made.value()));
  }
  std::vector<std::size_t> PieceSizes() const {
    std::vector<std::size_t> sizes;
    for (std::size_t piece = 0; piece < state->piece_count(); ++piece) sizes.push_back(state->bytes_of(piece));
    return sizes;
  }

  std::vector<std::vector<std::byte>> contents;
  std::vector<StateTensor> tensors;
  std::unique_ptr<StateBytes> state;
};

constexpr std::size_t kTensorBytes = kStatePieceBytes + 100;
using Sizes = std::vector<std::size_t>;

TEST(StateBytesTest, SmallTensorsAtTheEndsHavePiecesOfTheirOwn) {
  EXPECT_EQ(Model({8, 0, 4, kTensorBytes, 16, kTensorBytes, 8, 2}).PieceSizes(),
            (Sizes{12, kStatePieceBytes, kStatePieceBytes, 216, 10}));
  EXPECT_EQ(Model({kTensorBytes}).PieceSizes(), (Sizes{kStatePieceBytes, 100}));
  EXPECT_EQ(Model({8, 16}).PieceSizes(), (Sizes{24}));
  EXPECT_EQ(Model({0}).PieceSizes(), Sizes());
}

TEST(StateBytesTest, CounterThatChangesLeavesTheHashesOfAllOtherPieces) {
  Model model({kTensorBytes, 8});
  const auto before = model.state->Hashes();
  model.contents[1][0] ^= std::byte{1};
  const auto after = model.state->Hashes();
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_EQ(before->size(), 3U);
  EXPECT_EQ(before->at(0), after->at(0));
  EXPECT_EQ(before->at(1), after->at(1));
  EXPECT_FALSE(before->at(2) == after->at(2));
}

TEST(StateBytesTest, PieceIsReadAndWrittenWhereItBegins) {
  Model from({8, kTensorBytes, 8});
  Model to({8, kTensorBytes, 8});
  for (auto& content : to.contents) content.assign(content.size(), std::byte{0});
  Pieces pieces;
  for (std::size_t piece = 0; piece < from.state->piece_count(); ++piece) {
    const std::size_t bytes = from.state->bytes_of(piece);
    pieces[piece] = std::make_unique<std::byte[]>(bytes);
    ASSERT_TRUE(from.state->Read(piece, 0, bytes / 2, pieces[piece].get()).ok());
    ASSERT_TRUE(from.state->Read(piece, bytes / 2, bytes - bytes / 2, pieces[piece].get() + bytes / 2).ok());
  }
  ASSERT_TRUE(to.state->Write(pieces).ok());
  EXPECT_EQ(to.contents, from.contents);
}

}  // namespace
}  // namespace ringway::internal
