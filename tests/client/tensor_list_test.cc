#include "client/src/tensor_list.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace ringway::internal {
namespace {

using Elements = std::vector<std::uint16_t>;

Elements From(std::uint16_t first, std::size_t count) {
  Elements out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

class TensorListTest : public ::testing::Test {
 protected:
  TensorList Made(std::size_t align) {
    auto list = TensorList::Make({{a_.data(), a_.data(), a_.size()},
                                  {nullptr, nullptr, 0},
                                  {b_.data(), c_.data(), b_.size()},
                                  {d_.data(), d_.data(), d_.size()}},
                                 2, align);
    EXPECT_TRUE(list.ok()) << list.status().text();
    return std::move(list.value());
  }
  Elements a_ = From(100, 3), b_ = From(200, 5), c_ = Elements(5), d_ = From(300, 1);
};

TEST_F(TensorListTest, LiesOneAfterTheOtherOrFromMultiplesOn) {
  EXPECT_EQ(Made(1).count(), 9u);
  EXPECT_EQ(Made(4).count(), 13u);
}

// Whatever pieces it is taken in.
TEST_F(TensorListTest, IsGatheredInPiecesOfAnySizeWithZerosBetween) {
  const TensorList list = Made(4);
  const Elements whole = {100, 101, 102, 0, 200, 201, 202, 203, 204, 0, 0, 0, 300};
  const std::size_t bytes = whole.size() * 2;
  for (std::size_t piece = 1; piece <= bytes; ++piece) {
    Elements got(whole.size(), 0xffff);
    for (std::size_t begin = 0; begin < bytes; begin += piece) {
      const std::size_t size = std::min(piece, bytes - begin);
      list.Gather(begin, size, reinterpret_cast<std::byte*>(got.data()) + begin);
    }
    EXPECT_EQ(got, whole) << "in pieces of " << piece;
  }
}

TEST_F(TensorListTest, IsScatteredToTheOutputs) {
  const TensorList list = Made(4);
  const Elements whole = {1, 2, 3, 99, 4, 5, 6, 7, 8, 99, 99, 99, 9};
  list.Scatter(reinterpret_cast<const std::byte*>(whole.data()));
  EXPECT_EQ(a_, (Elements{1, 2, 3}));
  EXPECT_EQ(b_, From(200, 5)) << "the input of one that is not in place";
  EXPECT_EQ(c_, (Elements{4, 5, 6, 7, 8}));
  EXPECT_EQ(d_, Elements{9});
}

TEST_F(TensorListTest, WhatCannotBeIsRefusedByPlace) {
  const auto refused = [](const std::vector<Tensor>& tensors, const std::string& why) {
    const auto list = TensorList::Make(tensors, 2, 256);
    EXPECT_EQ(list.status().code(), Code::kInvalidArgument);
    EXPECT_NE(list.status().text().find(why), std::string::npos) << list.status().text();
  };
  const Tensor fine{a_.data(), a_.data(), a_.size()};
  refused({fine, {nullptr, a_.data(), 1}}, "tensor 1: its memory is null");
  refused({fine, {a_.data(), nullptr, 1}}, "tensor 1: its memory is null");
  refused({{b_.data(), b_.data() + 1, 4}}, "tensor 0: input and output overlap in part");
  refused({{b_.data() + 1, b_.data(), 4}}, "overlap in part");
  refused({fine, {a_.data(), a_.data(), ~std::size_t{0}}}, "2^46 bytes");
  refused({{a_.data(), a_.data(), std::size_t{1} << 45}, {a_.data(), a_.data(), 1}}, "tensor 1: with it");
}

TEST(EmptyTensorListTest, HasNoElements) {
  const auto list = TensorList::Make({}, 4, 256);
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->count(), 0u);
  list->Scatter(nullptr);
}

}  // namespace
}  // namespace ringway::internal
