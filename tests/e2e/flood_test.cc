// A flood at the master's port: a running group notices nothing, daemons and operators still get through.
#include "tests/e2e/flood.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <utility>

#include "tests/e2e/siege.h"

namespace ringway::e2e {
namespace {

std::size_t LinesWith(const std::string& text, const std::string& event) {
  std::size_t lines = 0;
  for (auto at = text.find(' ' + event); at != std::string::npos; at = text.find(' ' + event, at + 1)) ++lines;
  return lines;
}

class FloodTest : public SiegeTest {
 protected:
  FloodTest() : SiegeTest(3) {}

  void ReduceWithoutRetry() {
    Round round(good_, {.reduction = {}, .count = 100'000, .number = ++number_});
    round.Submit();
    const OpResult result = round.Check();
    EXPECT_EQ(result.world_size, good_.size());
    EXPECT_EQ(result.retries, 0u);
  }

 private:
  std::uint64_t number_ = 1000;
};

TEST_F(FloodTest, RunningGroupNoticesNothingAndDaemonsAndOperatorsGetThrough) {
  const std::vector<std::size_t> before = Descriptors();
  std::size_t opened = 0;
  {
    Flood flood(cluster_.master_address(), "job");
    EXPECT_TRUE(Eventually([&] {
      ReduceWithoutRetry();
      return HasFailure() || flood.opened() > 2 * Flood::kAtOnce;
    }));
    EXPECT_TRUE(cluster_.MasterStatus().contains("groups"));
    // Another daemon comes, a trainer joins there, and all switch to the new view.
    const std::size_t newcomer = cluster_.AddDaemon();
    auto joining =
        std::async(std::launch::async, [options = cluster_.At(newcomer, "job", 1)] { return Session::Join(options); });
    for (std::uint32_t world = 3; world < 4 && !HasFailure();) {  // a better plan may wait, too
      (void)RoundsUntil(good_, [](const OpResult& last) { return last.update_waits; });
      world = UpdateAll(good_).world_size;
    }
    auto joined = joining.get();
    ASSERT_TRUE(joined.ok()) << joined.status().text();
    good_.push_back(std::move(*joined));
    const std::size_t until = flood.opened() + 2 * Flood::kAtOnce;
    EXPECT_TRUE(Eventually([&] {
      ReduceWithoutRetry();
      return HasFailure() || flood.opened() > until;
    }));
    opened = flood.opened();
  }
  const std::string log = cluster_.master().Err();
  EXPECT_EQ(LinesWith(log, "daemon_hello "), 4u) << "nobody had to come back: all heartbeats were answered";
  EXPECT_EQ(LinesWith(log, "peer_dropped "), 0u);
  EXPECT_LT(LinesWith(log, "stranger_closed ") + LinesWith(log, "connection_"), 300u) << "of " << opened;
  for (std::size_t i = 0; i < cluster_.daemon_count(); ++i) {
    EXPECT_EQ(LinesWith(cluster_.daemon(i).Err(), "master_down "), 0u);
  }
  EXPECT_TRUE(Eventually([&] { return cluster_.master().OpenDescriptors() <= before[0] + 1; })) << "of the new daemon";
}

}  // namespace
}  // namespace ringway::e2e
