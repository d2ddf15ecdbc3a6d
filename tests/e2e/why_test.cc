// Clusters that are broken in the ways that operators meet: `ringwayctl why` alone says what it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/behind_relay.h"
#include "tests/e2e/checks.h"

namespace ringway::e2e {
namespace {

using Words = std::vector<std::string>;

// Daemons that reach each other through relays only, with a trainer at each: r0, r1 and r2.
class WhyOfBrokenTest : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<JoinOptions> options;
    for (std::uint32_t i = 0; i < 3; ++i) {
      relays_.push_back(AddDaemonBehindRelay(cluster_));
      options.push_back(cluster_.At(i, "job", 3));
      options.back().name = "r" + std::to_string(i);
    }
    ranks_ = cluster_.JoinAll(options);
    ASSERT_EQ(ranks_.size(), 3U);
  }
  std::string Why() const {
    Words argv = {RINGWAY_CTL, "--master", cluster_.master_address(), "--timeout-ms", "60000"};
    for (const Words& part : {cluster_.TlsOptionsOf("op"), Words{"why", "job"}})
      argv.insert(argv.end(), part.begin(), part.end());
    const Finished run = RunToEnd(argv);
    EXPECT_EQ(run.code, 0) << run.err;
    return run.out;
  }
  void ExpectSaid(const Words& texts) const {
    std::string last;
    EXPECT_TRUE(Eventually([&] {
      last = Why();
      return std::all_of(texts.begin(), texts.end(),
                         [&](const std::string& text) { return last.find(text) != std::string::npos; });
    })) << last;
  }

  Cluster cluster_{{.daemons = 0}};
  std::vector<std::unique_ptr<Relay>> relays_;
  Sessions ranks_;
};

TEST_F(WhyOfBrokenTest, TrainerThatHangsIsNamedAndWhatWillBecomeOfIt) {
  Round round(ranks_);
  for (const std::size_t early : {0, 1}) round.SubmitOn(early);
  ExpectSaid({"trainer late  r0, r1 wait for operation 0:1 for ", "the trainer of r2 (rank ",
              "it is evicted when it submits nothing for 10 min", "ringwayctl evict --group job --peer r2"});
  round.SubmitOn(2);
  (void)round.Check();
}

TEST_F(WhyOfBrokenTest, LineThatCarriesNothingIsALineNotATrainer) {
  for (const auto& relay : relays_) relay->BlackHole({.links = Links::kLanes});
  Round round(ranks_, {.reduction = {}, .count = kLargeCount});
  round.Submit();
  ExpectSaid({"line slow     all have submitted 0:1, which has taken ", " and needs data"});
  for (const auto& relay : relays_) relay->Restore();
  (void)round.Check();
}

TEST_F(WhyOfBrokenTest, ConnectionsThatBreakAreLosses) {
  std::string last;
  EXPECT_TRUE(Eventually([&] {
    Round round(ranks_, {.reduction = {}, .count = kLargeCount});
    round.Submit();
    for (const auto& relay : relays_) relay->Cut({.links = Links::kLanes});
    (void)round.Check();
    last = Why();
    return last.find("losses        connections of r") != std::string::npos;
  })) << last;
  EXPECT_NE(last.find("look for what ends its connections"), std::string::npos) << last;
}

TEST_F(WhyOfBrokenTest, JoinThatWaitsForTheMembersSaysWhatTheyHaveToCall) {
  JoinOptions newcomer = cluster_.At(0, "job", 1);
  newcomer.name = "r3";
  auto joining = std::async(std::launch::async, [&] { return Session::Join(newcomer); });
  ExpectSaid({"join waits    r3 is not in the group yet", "newcomers are let in when all members call UpdateView"});
  while (joining.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    const auto updated = UpdateAll(ranks_);
    if (updated.world_size == 4) break;
  }
  EXPECT_TRUE(joining.get().ok());
}

}  // namespace
}  // namespace ringway::e2e
