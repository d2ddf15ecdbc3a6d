#include "daemon/transfer/buffer_watch.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringway::transfer {
namespace {

constexpr BufferWatch::Place kWatched{.attempt = 3, .arrival = 1, .segment = 7};

TEST(BufferWatchTest, IsCautiousForAWhileAfterAFailure) {
  BufferWatch watch;
  const TimePoint start{};
  EXPECT_FALSE(watch.cautious(start));
  watch.OnFailure(start);
  EXPECT_TRUE(watch.cautious(start));
  EXPECT_TRUE(watch.cautious(start + BufferWatch::kCautionTime - Duration(1)));
  EXPECT_FALSE(watch.cautious(start + BufferWatch::kCautionTime));
}

TEST(BufferWatchTest, TargetThatChangesAfterItsPayloadFailedIsNoticedOnce) {
  BufferWatch watch;
  std::vector<std::byte> target(100);
  watch.OnFailedRead(kWatched, target, {});
  EXPECT_TRUE(watch.cautious({}));
  target[50] = std::byte{1};
  EXPECT_TRUE(watch.HasChanged(kWatched, target));
  EXPECT_FALSE(watch.HasChanged(kWatched, target)) << "judged already";
}

TEST(BufferWatchTest, TargetThatStaysAsItFailedIsNobodysFaultHere) {
  BufferWatch watch;
  const std::vector<std::byte> target(100);
  watch.OnFailedRead(kWatched, target, {});
  EXPECT_FALSE(watch.HasChanged(kWatched, target));
}

TEST(BufferWatchTest, PlaceThatIsReadIntoAgainIsNotJudgedByTheOldFailure) {
  BufferWatch watch;
  std::vector<std::byte> target(100);
  watch.OnFailedRead(kWatched, target, {});
  watch.Forget(kWatched);
  target[0] = std::byte{1};
  EXPECT_FALSE(watch.HasChanged(kWatched, target));
}

TEST(BufferWatchTest, OtherPlacesAreNotJudged) {
  BufferWatch watch;
  std::vector<std::byte> target(100);
  watch.OnFailedRead(kWatched, target, {});
  target[0] = std::byte{1};
  BufferWatch::Place other = kWatched;
  other.attempt = 4;
  EXPECT_FALSE(watch.HasChanged(other, target));
}

TEST(BufferWatchTest, KeepsOnlySoManyAndForgetsTheOldestAttempt) {
  BufferWatch watch;
  std::vector<std::byte> target(1);
  for (std::uint64_t attempt = 0; attempt <= BufferWatch::kFailedMax; ++attempt) {
    watch.OnFailedRead({.attempt = attempt, .arrival = 0, .segment = 0}, target, {});
  }
  target[0] = std::byte{1};
  EXPECT_FALSE(watch.HasChanged({.attempt = 0, .arrival = 0, .segment = 0}, target));
  EXPECT_TRUE(watch.HasChanged({.attempt = BufferWatch::kFailedMax, .arrival = 0, .segment = 0}, target));
}

}  // namespace
}  // namespace ringway::transfer
