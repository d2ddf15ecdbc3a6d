#include "master/coordination/traffic_bill.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "master/coordination/status.h"
#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway {
namespace {

using nlohmann::json;
using std::chrono::minutes;

TEST(HourSumTest, ForgetsWhatIsAnHourOld) {
  HourSum sum;
  const TimePoint begin(std::chrono::hours(5));
  sum.Add(begin, 1);
  sum.Add(begin + minutes(30), 2);
  EXPECT_EQ(sum.At(begin + minutes(59)), 3);
  EXPECT_EQ(sum.At(begin + minutes(60)), 2);
  sum.Add(begin + minutes(60), 4);  // in the place of the first
  EXPECT_EQ(sum.At(begin + minutes(60)), 6);
  EXPECT_EQ(sum.At(begin + minutes(500)), 0);
}

TEST(TrafficBillTest, PairsBeyondTheBoundAreCountedTogether) {
  TrafficBill bill;
  const TimePoint now(minutes(7));
  for (std::size_t i = 0; i < TrafficBill::kPairsMax + 10; ++i)
    bill.AddBytes({.from = std::to_string(i), .to = "b"}, {.bytes = 5, .cost = 0.5}, now);
  bill.AddBytes({.from = "0", .to = "b"}, {.bytes = 5, .cost = 0.5}, now);
  EXPECT_EQ(bill.pairs().size(), TrafficBill::kPairsMax);
  EXPECT_EQ(bill.pairs().at({"0", "b"}).bytes, 10U);
  EXPECT_EQ(bill.rest().bytes, 50U);
  EXPECT_EQ(bill.CostOfHour(now), 0.5 * (TrafficBill::kPairsMax + 11));
  EXPECT_EQ(bill.CostOfOperation(now), std::nullopt);
  bill.AddBytes({.from = std::string(100'000, 'x'), .to = "b"}, {.bytes = 1}, now);
  EXPECT_EQ(bill.rest().bytes, 51U);
  bill.AddBytes({.from = "0", .to = "b"}, {.bytes = ~std::uint64_t{0}}, now);
  EXPECT_EQ(bill.pairs().at({"0", "b"}).bytes, ~std::uint64_t{0}) << "the sum does not wrap";
}

// Two peers in the us and one in eu; a GB from us to eu costs 100, back 10.
class BilledTest : public CoordinatorTest {
 protected:
  static CoordinatorOptions Priced() {
    auto prices = std::make_shared<PriceList>("EUR", 10);
    prices->Set("us", "eu", 100);
    CoordinatorOptions options;
    options.pricing.list = prices;
    return options;
  }
  void FormPriced() {
    coordinator_.emplace(Priced());
    sites_ = {{1, "us"}, {2, "us"}, {3, "eu"}};
    Form(3);
  }
  void Beat(std::uint64_t from, std::uint64_t done, const std::map<std::uint64_t, std::uint64_t>& sent) {
    control::ToMaster beat;
    control::PeerCounters& counters = *beat.mutable_heartbeat()->add_counters();
    counters.set_peer(peers_[from]);
    counters.add_counts(done);
    counters.mutable_live();
    for (const auto& [to, bytes] : sent) {
      control::PathTraffic& path = *counters.mutable_live()->add_paths();
      path.set_other(to == 99 ? 4711 : peers_[to]);
      path.set_bytes(bytes);
    }
    Say(from, beat);
  }
  json Status(bool paths = false) {
    StatusReport report(4 << 20, {.paths = paths});
    while (report.Step(*coordinator_)) {
    }
    return json::parse(report.Finish(*coordinator_, {.uptime = {}, .journal = "ok"}));
  }
  std::uint64_t BytesOf(const std::string& from, const std::string& to) {
    const auto found = coordinator_->traffic().pairs().find({from, to});
    return found == coordinator_->traffic().pairs().end() ? 0 : found->second.bytes;
  }
};

TEST_F(BilledTest, WhatPeersReportIsBilledByTheirSites) {
  FormPriced();
  Beat(1, 4, {{2, 7'000'000}, {3, 1'000'000'000}, {99, 5}});
  Beat(1, 4, {{2, 7'000'000}, {3, 1'000'000'000}});  // nothing new
  Beat(2, 4, {});
  Beat(3, 4, {{1, 2'000'000'000}});
  const json status = Status(true);
  EXPECT_EQ(status["master"]["currency"], "EUR");
  EXPECT_EQ(BytesOf("us", "eu"), 1'000'000'000U);
  EXPECT_EQ(BytesOf("us", "us"), 7'000'000U);
  EXPECT_EQ(BytesOf("eu", "us"), 2'000'000'000U);
  EXPECT_NEAR(status["traffic"]["cost_hour"], 100 + 2 * 10, 1e-6);
  const json group = status["groups"][0];
  EXPECT_NEAR(group["cost_hour"], 120, 1e-6);
  EXPECT_NEAR(group["cost_operation"], 30, 1e-6) << "each of three peers has ended four operations";
  EXPECT_EQ(group["traffic"]["pairs"].size(), 3U);
  Beat(1, 4, {{3, 400'000'000}});  // another path: its count began anew
  EXPECT_EQ(BytesOf("us", "eu"), 1'400'000'000U);
  now_ += std::chrono::minutes(61);
  Beat(2, 4, {});
  EXPECT_EQ(Status()["traffic"]["cost_hour"], 0);
  EXPECT_EQ(BytesOf("us", "eu"), 1'400'000'000U) << "the counters stay";
}

TEST_F(BilledTest, WithoutPricesBytesAreCountedAndNothingCosts) {
  sites_ = {{1, "us"}, {2, "eu"}};
  Form(2);
  Beat(1, 1, {{2, 1000}});
  const json status = Status();
  EXPECT_TRUE(status["master"]["currency"].is_null());
  EXPECT_TRUE(status["traffic"]["cost_hour"].is_null());
  EXPECT_TRUE(status["groups"][0]["cost_operation"].is_null());
  EXPECT_EQ(status["traffic"]["pairs"], json::parse(R"([{"from": "us", "to": "eu", "bytes": 1000, "cost": null}])"));
}

TEST_F(BilledTest, SitesOfLongNamesAreBilledApart) {
  const std::string region(250, 'r');
  auto prices = std::make_shared<PriceList>("EUR", 0);
  prices->Set(region + "a", region + "b", 100);
  CoordinatorOptions options;
  options.pricing.list = prices;
  coordinator_.emplace(options);
  sites_ = {{1, region + "a"}, {2, region + "b"}, {3, region + "c"}};
  Form(3);
  Beat(1, 1, {{2, 1'000'000'000}, {3, 500}});
  EXPECT_EQ(BytesOf(region + "a", region + "b"), 1'000'000'000U);
  EXPECT_EQ(BytesOf(region + "a", region + "c"), 500U);
  EXPECT_NEAR(Status()["traffic"]["cost_hour"], 100, 1e-6);
}

TEST_F(BilledTest, PeersOfOneDaemonSendNothingOverALine) {
  sites_ = {{1, "us"}};
  const std::uint64_t a = Join(1, 1, "g", false, "a"), b = Join(1, 1, "g", false, "b");
  ASSERT_NE(a, 0U);
  ASSERT_NE(b, 0U);
  control::ToMaster beat;
  control::PeerCounters& counters = *beat.mutable_heartbeat()->add_counters();
  counters.set_peer(a);
  control::PathTraffic& path = *counters.mutable_live()->add_paths();
  path.set_other(b);
  path.set_bytes(1000);
  Say(1, beat);
  EXPECT_TRUE(coordinator_->traffic().pairs().empty());
}

TEST_F(BilledTest, ARestartedMasterDoesNotBillWhatWasSentBefore) {
  CoordinatorOptions options = Priced();
  options.journaled = true;
  coordinator_.emplace(options);
  sites_ = {{1, "us"}, {2, "eu"}, {3, "eu"}};
  for (const std::uint64_t i : {1U, 2U}) peers_[i] = Join(i, 2);
  Connect(1, 2);
  ASSERT_TRUE(journal_.contains("g"));
  const std::vector<record::Group> groups = {journal_.at("g")};
  options.term = 2;
  coordinator_.emplace(options);
  coordinator_->Recover(groups, now_);
  for (const std::uint64_t i : {1U, 2U}) Hello(i, "d" + std::to_string(i), i);
  Beat(1, 1000, {{2, 5'000'000'000}});
  EXPECT_EQ(BytesOf("us", "eu"), 0U);
  Beat(1, 1002, {{2, 5'000'000'300}});
  EXPECT_EQ(BytesOf("us", "eu"), 300U);
  EXPECT_NEAR(Status()["groups"][0]["cost_operation"], 3e-5, 1e-9) << "two operations at one of two peers";
  peers_[3] = Join(3, 1);
  ASSERT_NE(peers_[3], 0U);
  Beat(1, 1002, {{2, 5'000'000'300}, {3, 700}});
  EXPECT_EQ(BytesOf("us", "eu"), 1000U) << "all that was sent to one who joined after it is of its time";
}

TEST_F(BilledTest, HostileCountsKeepTheBounds) {
  FormPriced();
  for (std::uint64_t i = 0; i < 100; ++i) Beat(1, ~std::uint64_t{0} - i, {{3, ~std::uint64_t{0} - i}, {2, i}});
  EXPECT_EQ(BytesOf("us", "eu"), 0U) << "that is no count";
  EXPECT_EQ(Status()["groups"][0]["cost_hour"], 0);
  EXPECT_TRUE(Status()["groups"][0]["cost_operation"].is_null());
}

}  // namespace
}  // namespace ringway
