#include "daemon/runtime/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ringway::daemon {
namespace {

TEST(DescriptorPlanTest, LanesNeverTakeWhatTrainersNeed) {
  for (const std::uint64_t limit : {64, 256, 1024, 4096, 65'536, 1 << 20}) {
    for (const std::size_t per_lane : {1, 2}) {
      const DescriptorPlan plan{.limit = limit, .per_lane = per_lane};
      const std::uint64_t left = limit - plan.first_lanes_max() * per_lane;
      EXPECT_GE(left, std::min<std::uint64_t>(limit / 4, 8192)) << limit;
      EXPECT_GT(plan.trainers_max(), 0U) << limit;
      EXPECT_LE(plan.trainers_max(), left / 4 * 3) << "the daemon's own have room, too";
      EXPECT_LE(plan.kept_max(), (left - plan.trainers_max()) / 2) << limit;
      EXPECT_GT(plan.more_lanes_max(), 0U) << limit;
      EXPECT_LT(plan.more_lanes_max(), plan.first_lanes_max())
          << "lanes that help only make way for those that must be";
    }
  }
  EXPECT_EQ((DescriptorPlan{.limit = 256}).more_lanes_max(), 128U);
  EXPECT_EQ((DescriptorPlan{.limit = 256, .per_lane = 2}).more_lanes_max(), 64U);
}

// It runs in a process of its own, because a hard limit cannot be raised again.
TEST(DescriptorLimitTest, SoftLimitIsRaisedToTheHardOne) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit low{.rlim_cur = 64, .rlim_max = 256};
    if (::setrlimit(RLIMIT_NOFILE, &low) != 0) ::_exit(2);
    if (RaiseDescriptorLimit() != 256) ::_exit(3);
    rlimit now{};
    ::getrlimit(RLIMIT_NOFILE, &now);
    ::_exit(now.rlim_cur == 256 ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace ringway::daemon
