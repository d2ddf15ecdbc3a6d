#include "master/coordination/unrecorded.h"

#include <gtest/gtest.h>

namespace ringway {
namespace {

TEST(UnrecordedGroupsTest, MessagesAreReleasedInOrderOnceTheirGroupIsWritten) {
  UnrecordedGroups groups;
  groups.Add("a");
  groups.Add("b");
  for (const std::uint64_t connection : {1, 2, 3}) groups.Hold({connection == 2 ? "b" : "a", connection, {}});
  EXPECT_EQ(groups.Begin(), (std::vector<std::string>{"a", "b"}));
  groups.Add("b");  // while it is written
  const auto first = groups.Finish();
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].connection, 1U);
  EXPECT_EQ(first[1].connection, 3U);
  EXPECT_TRUE(groups.Contains("b")) << "what was written is older";
  EXPECT_EQ(groups.Begin(), (std::vector<std::string>{"b"}));
  EXPECT_EQ(groups.Finish().size(), 1U);
  EXPECT_TRUE(groups.empty());
}

TEST(UnrecordedGroupsTest, ConnectionThatIsGoneGetsNothing) {
  UnrecordedGroups groups;
  groups.Add("a");
  groups.Hold({"a", 1, {}});
  groups.Forget(1);
  EXPECT_EQ(groups.held(), 0U);
  (void)groups.Begin();
  EXPECT_TRUE(groups.Finish().empty());
}

}  // namespace
}  // namespace ringway
