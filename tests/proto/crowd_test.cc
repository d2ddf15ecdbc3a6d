#include "proto/crowd.h"

#include <gtest/gtest.h>

namespace ringway {
namespace {

TEST(CrowdTest, KnowsTheOldestAndTheNewestOfTheSourceThatHasTheMost) {
  Crowd crowd;
  crowd.Add("lone", 1);
  for (const std::uint64_t id : {2, 3, 4}) crowd.Add("flood", id);
  crowd.Add("pair", 5);
  crowd.Add("pair", 6);
  EXPECT_EQ(crowd.Oldest(), 2u);
  EXPECT_EQ(crowd.Newest(), 4u);
  crowd.Remove("flood", 2);
  EXPECT_EQ(crowd.Oldest(), 3u) << "of two sources with two each, the one that has the oldest";
  crowd.Remove("flood", 3);
  EXPECT_EQ(crowd.Oldest(), 5u);
  EXPECT_EQ(crowd.Newest(), 6u);
  EXPECT_EQ(crowd.size(), 4u);
}

TEST(CrowdTest, WhoIsNotInItIsNotMissed) {
  Crowd crowd;
  crowd.Add("a", 1);
  crowd.Remove("a", 2);
  crowd.Remove("b", 1);
  EXPECT_EQ(crowd.size(), 1u);
  crowd.Remove("a", 1);
  crowd.Remove("a", 1);
  EXPECT_EQ(crowd.size(), 0u);
}

}  // namespace
}  // namespace ringway
