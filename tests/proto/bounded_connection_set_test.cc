#include "proto/bounded_connection_set.h"

#include <gtest/gtest.h>

namespace ringway {
namespace {

TEST(BoundedConnectionSetTest, KnowsTheOldestAndTheNewestOfTheSourceThatHasTheMost) {
  BoundedConnectionSet connections;
  connections.Add("lone", 1);
  for (const std::uint64_t id : {2, 3, 4}) connections.Add("flood", id);
  connections.Add("pair", 5);
  connections.Add("pair", 6);
  EXPECT_EQ(connections.Oldest(), 2u);
  EXPECT_EQ(connections.Newest(), 4u);
  connections.Remove("flood", 2);
  EXPECT_EQ(connections.Oldest(), 3u) << "of two sources with two each, the one that has the oldest";
  connections.Remove("flood", 3);
  EXPECT_EQ(connections.Oldest(), 5u);
  EXPECT_EQ(connections.Newest(), 6u);
  EXPECT_EQ(connections.size(), 4u);
}

TEST(BoundedConnectionSetTest, WhoIsNotInItIsNotMissed) {
  BoundedConnectionSet connections;
  connections.Add("a", 1);
  connections.Remove("a", 2);
  connections.Remove("b", 1);
  EXPECT_EQ(connections.size(), 1u);
  connections.Remove("a", 1);
  connections.Remove("a", 1);
  EXPECT_EQ(connections.size(), 0u);
}

}  // namespace
}  // namespace ringway
