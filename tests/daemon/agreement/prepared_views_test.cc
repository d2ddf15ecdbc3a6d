#include "daemon/agreement/prepared_views.h"

#include <gtest/gtest.h>

#include <set>

namespace ringway::agreement {
namespace {

Epoch NewestOf(const PreparedViews& views) {
  return views.Newest([](const control::View&) { return true; });
}

TEST(PreparedViewsTest, NewestThatMayBeAdoptedIsOffered) {
  PreparedViews views;
  EXPECT_EQ(NewestOf(views), Epoch());
  for (const std::uint64_t epoch : {2, 3}) {
    control::View view;
    view.set_epoch(epoch);
    views.Add(Epoch(epoch), view);
  }
  EXPECT_EQ(NewestOf(views), Epoch(3));
  EXPECT_EQ(views.Newest([](const control::View& view) { return view.epoch() < 3; }), Epoch(2));
}

TEST(PreparedViewsTest, WhatIsToBeTakenBackIsNotOfferedAndStaysUntilItIsDropped) {
  PreparedViews views;
  for (const std::uint64_t epoch : {2, 3, 4}) views.Add(Epoch(epoch), {});
  ASSERT_TRUE(views.RevokePrepared(Epoch(3)));
  EXPECT_EQ(NewestOf(views), Epoch(2));
  EXPECT_NE(views.Find(Epoch(4)), nullptr) << "an UpdateView that is open may have agreed on it";
  EXPECT_EQ(views.DropRevoked(Epoch(3)), std::set<Epoch>{Epoch(3)});
  EXPECT_NE(views.Find(Epoch(3)), nullptr) << "installed meanwhile";
  EXPECT_EQ(views.Find(Epoch(4)), nullptr);
  EXPECT_TRUE(views.DropRevoked(Epoch(3)).empty());
}

TEST(PreparedViewsTest, DecidedViewVoidsTheTakingBack) {
  PreparedViews views;
  views.Add(Epoch(2), {});
  ASSERT_TRUE(views.RevokePrepared(Epoch(2)));
  views.KeepAll();
  EXPECT_EQ(NewestOf(views), Epoch(2));
}

TEST(PreparedViewsTest, OnlySoManyAreRemembered) {
  PreparedViews views;
  for (std::uint64_t epoch = 1; epoch <= 2 * PreparedViews::kMax; ++epoch) views.Add(Epoch(epoch), {});
  views.OnView(Epoch(2 * PreparedViews::kMax));
  EXPECT_EQ(views.Find(Epoch(PreparedViews::kMax)), nullptr);
  EXPECT_NE(views.Find(Epoch(PreparedViews::kMax + 1)), nullptr);
  for (std::uint64_t epoch = 1; epoch <= PreparedViews::kMax; ++epoch) EXPECT_TRUE(views.RevokePrepared(Epoch(epoch)));
  EXPECT_FALSE(views.RevokePrepared(Epoch(PreparedViews::kMax + 1)));
}

}  // namespace
}  // namespace ringway::agreement
