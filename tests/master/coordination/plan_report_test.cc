#include "master/coordination/plan_report.h"

#include <gtest/gtest.h>
#include <ringway/types.h>

#include <nlohmann/json.hpp>

#include "master/planning/cost_model.h"
#include "master/planning/plan_times.h"
#include "proto/byte_size.h"
#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway {
namespace {

using nlohmann::json;

constexpr std::uint64_t kBytes = 64 << 20;

class PlanReportTest : public CoordinatorTest {
 protected:
  // Forms the group as Form does; the two sides of every pair saw this round trip.
  void FormApart(std::uint64_t world, std::uint32_t round_trip_us) {
    for (std::uint64_t i = 1; i <= world; ++i) peers_[i] = Join(i, static_cast<std::uint32_t>(world));
    ConnectAll(world, round_trip_us);
  }

  void ConnectAll(std::uint64_t world, std::uint32_t round_trip_us) {
    for (std::uint64_t a = 1; a <= world; ++a) {
      for (std::uint64_t b = 1; b <= world; ++b) {
        if (a != b) SayConnected(a, b, round_trip_us);
      }
    }
    ASSERT_EQ(ViewOf(1).members_size(), static_cast<int>(world));
  }

  // A group of peers that know the rates of their paths before it forms.
  template <typename RateOf>
  void FormMeasured(std::uint64_t world, const RateOf& rate_of) {
    for (std::uint64_t i = 1; i <= world; ++i) peers_[i] = Join(i, static_cast<std::uint32_t>(world));
    for (std::uint64_t a = 1; a <= world; ++a) {
      for (std::uint64_t b = 1; b <= world; ++b) {
        if (a != b) SayMeasured(a, b, rate_of(a, b));
      }
    }
    ConnectAll(world, 80'000);
  }

  void SayMeasured(std::uint64_t from, std::uint64_t other, std::uint64_t bytes_per_second) {
    control::ToMaster message;
    message.mutable_measured()->set_peer(peers_[from]);
    message.mutable_measured()->set_other(peers_[other]);
    message.mutable_measured()->set_bytes_per_second(bytes_per_second);
    Say(from, message);
  }

  void SayConnected(std::uint64_t from, std::uint64_t to, std::uint32_t round_trip_us) {
    control::ToMaster message;
    message.mutable_connected()->set_peer(peers_[from]);
    message.mutable_connected()->set_other(peers_[to]);
    message.mutable_connected()->set_round_trip_us(round_trip_us);
    Say(from, message);
  }

  control::PeerCounters CountersOf(std::uint64_t connection) {
    control::PeerCounters counters;
    counters.set_peer(peers_[connection]);
    counters.set_times_epoch(ViewOf(connection).epoch());
    return counters;
  }

  static void AddTime(control::PeerCounters& counters, Algorithm algorithm, std::uint64_t bytes, std::uint64_t us) {
    control::OpTime& time = *counters.add_times();
    time.set_algorithm(static_cast<std::uint32_t>(algorithm));
    time.set_size_class(SizeClassOf(bytes));
    time.set_operations(3);
    time.set_median_us(us);
  }

  void SayCounters(std::uint64_t connection, const control::PeerCounters& counters) {
    control::ToMaster message;
    *message.mutable_heartbeat()->add_counters() = counters;
    Say(connection, message);
  }

  Result<std::string> Ask(const std::string& group, std::uint64_t bytes) {
    control::PlanRequest request;
    request.set_group(group);
    request.set_bytes(bytes);
    return PlanJson(coordinator_->FindGroup(group), request);
  }

  json Explained(std::uint64_t bytes = kBytes) {
    const Result<std::string> text = Ask("g", bytes);
    EXPECT_TRUE(text.ok()) << text.status().text();
    return text.ok() ? json::parse(text.value()) : json::object();
  }

  static json Of(const json& report, const char* algorithm) {
    for (const json& entry : report["algorithms"]) {
      if (entry["name"] == algorithm) return entry;
    }
    return {};
  }
};

TEST_F(PlanReportTest, ChoiceIsTheTablesAndTheCheapestOfThePredictions) {
  FormApart(4, 100'000);
  for (const std::uint64_t bytes : {std::uint64_t{4096}, kBytes, std::uint64_t{1} << 30}) {
    const json report = Explained(bytes);
    ASSERT_EQ(report["algorithms"].size(), kAlgorithmCount);
    double least = 1e300;
    for (const json& algorithm : report["algorithms"]) {
      const bool may_be_chosen = algorithm["name"] != "one_shot" || bytes <= 64 << 10;
      if (may_be_chosen && !algorithm["predicted_ms"].is_null()) {
        least = std::min(least, algorithm["predicted_ms"].get<double>());
      }
    }
    const json chosen = Of(report, report["chosen"].get<std::string>().c_str());
    EXPECT_LE(chosen["predicted_ms"].get<double>(), 1.02 * least) << report.dump(1);
  }
  EXPECT_EQ(Explained(4096)["chosen"], "one_shot");
  const json report = Explained();
  std::size_t priced = 0;
  for (const json& algorithm : report["algorithms"]) priced += algorithm["predicted_ms"].is_null() ? 0 : 1;
  EXPECT_EQ(priced, kAlgorithms.size());
}

TEST_F(PlanReportTest, RingSaysWhatIsMeasuredAndWhatIsAssumed) {
  FormApart(3, 80'000);
  const json report = Explained();
  const json& ring = report["ring"];
  ASSERT_EQ(ring["links"].size(), 3u) << report.dump(1);
  EXPECT_DOUBLE_EQ(ring["round_trip_ms"].get<double>(), 3 * 40.0);
  EXPECT_DOUBLE_EQ(ring["rate_mbit"].get<double>(), 1000.0);
  EXPECT_LT(ring["bottleneck"].get<std::size_t>(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const json& link = ring["links"][i];
    EXPECT_EQ(link["to"], ring["links"][(i + 1) % 3]["from"]) << "it closes";
    EXPECT_DOUBLE_EQ(link["delay_ms"].get<double>(), 40.0);
    EXPECT_EQ(link["delay_measured"], true);
    EXPECT_EQ(link["rate_measured"], false);
  }
  EXPECT_EQ(report["paths"], json({{"all", 6}, {"delays_measured", 6}, {"rates_measured", 0}}));
}

TEST_F(PlanReportTest, SlowestLinkOfTheRingIsTheBottleneckAndItsRateIsShown) {
  FormApart(4, 80'000);
  const json before = Explained();
  const auto ring = RingOf(ViewOf(1));
  const control::View view = ViewOf(1);
  for (std::size_t i = 0; i < 4; ++i) {
    const control::PeerInfo& from = view.members(static_cast<int>(ring[i]));
    const control::PeerInfo& to = view.members(static_cast<int>(ring[(i + 1) % 4]));
    // Connection i has peer i here.
    SayMeasured(from.peer_id(), to.peer_id(), i == 2 ? 10'000'000 : 50'000'000);
  }
  const json after = Explained();
  EXPECT_EQ(after["ring"]["bottleneck"], 2) << after.dump(1);
  EXPECT_DOUBLE_EQ(after["ring"]["rate_mbit"].get<double>(), 80.0);
  EXPECT_DOUBLE_EQ(after["ring"]["links"][2]["rate_mbit"].get<double>(), 80.0);
  EXPECT_DOUBLE_EQ(after["ring"]["links"][1]["rate_mbit"].get<double>(), 400.0);
  EXPECT_EQ(after["ring"]["links"][2]["rate_measured"], true);
  EXPECT_EQ(after["paths"]["rates_measured"], 4);
  EXPECT_TRUE(after["prepared"].is_null());
  Heartbeats({1, 2, 3, 4});
  Advance(std::chrono::seconds(2));  // the news are over
  EXPECT_TRUE(Explained()["prepared"].is_string()) << "another ring or table waits";
  EXPECT_GT(Of(after, "ring")["predicted_ms"].get<double>(), 5 * Of(before, "ring")["predicted_ms"].get<double>());
}

TEST_F(PlanReportTest, UnequalSharesAreShownByPeer) {
  FormMeasured(4, [](std::uint64_t from, std::uint64_t) { return from == 3 ? 10'000'000 : 50'000'000; });
  const json shares = Explained()["shares"];
  ASSERT_EQ(shares.size(), 4u);
  double all = 0;
  for (const json& share : shares) {
    all += share["percent"].get<double>();
    EXPECT_EQ(share["percent"].get<double>() < 10, share["peer"] == "p3") << shares.dump();
  }
  EXPECT_NEAR(all, 100, 1e-9);
}

TEST_F(PlanReportTest, SeveralRingsAreShownWithTheirParts) {
  // Between the first three and the others paths are slow, so a ring is, and the ends are not.
  FormMeasured(6,
               [](std::uint64_t from, std::uint64_t to) { return (from <= 3) == (to <= 3) ? 50'000'000 : 7'500'000; });
  const json rings = Explained()["rings"];
  ASSERT_GE(rings.size(), 2u);
  double all = 0;
  for (const json& ring : rings) {
    all += ring["percent"].get<double>();
    EXPECT_EQ(ring["order"].size(), 6u);
    EXPECT_NEAR(ring["rate_mbit"].get<double>(), 60, 1e-9);
  }
  EXPECT_NEAR(all, 100, 1e-9);
  EXPECT_TRUE(Explained()["shares"].is_null());
}

TEST_F(PlanReportTest, MeasuredIsTheMedianOfThePeersAtThisSizeClass) {
  FormApart(3, 80'000);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    control::PeerCounters counters = CountersOf(i);
    AddTime(counters, Algorithm::kRing, kBytes, 1000 * i * i);
    AddTime(counters, Algorithm::kTree, kBytes + 1, 77);  // of the next class
    SayCounters(i, counters);
  }
  const json report = Explained();
  EXPECT_DOUBLE_EQ(Of(report, "ring")["measured_ms"].get<double>(), 4.0);
  EXPECT_EQ(Of(report, "ring")["operations"], 3u);
  EXPECT_TRUE(Of(report, "tree")["measured_ms"].is_null()) << report.dump(1);
  EXPECT_FALSE(Of(Explained(kBytes / 2 + 1), "ring")["measured_ms"].is_null()) << "the least of the class";
  EXPECT_TRUE(Of(Explained(kBytes / 2), "ring")["measured_ms"].is_null());
}

TEST_F(PlanReportTest, TimesOfAnotherViewAreNotShown) {
  FormApart(2, 80'000);
  control::PeerCounters counters = CountersOf(1);
  counters.set_times_epoch(counters.times_epoch() + 1);
  AddTime(counters, Algorithm::kRing, kBytes, 1000);
  SayCounters(1, counters);
  EXPECT_TRUE(Of(Explained(), "ring")["measured_ms"].is_null());
}

TEST_F(PlanReportTest, WhatNoDaemonSaysIsNotKept) {
  FormApart(2, 80'000);
  control::PeerCounters counters = CountersOf(1);
  counters.add_times()->set_algorithm(kAlgorithmCount);
  counters.add_times()->set_size_class(kSizeClassCount);
  for (int i = 0; i < 100'000; ++i) AddTime(counters, Algorithm::kDirect, kBytes, 1);
  SayCounters(1, counters);
  const control::PeerCounters& kept = coordinator_->FindGroup("g")->peers().at(PeerId(peers_[1])).counters;
  ASSERT_EQ(kept.times_size(), kOpTimesMax);
  for (const control::OpTime& time : kept.times()) {
    EXPECT_EQ(static_cast<Algorithm>(time.algorithm()), Algorithm::kDirect);
    EXPECT_LT(time.size_class(), kSizeClassCount);
  }
}

TEST_F(PlanReportTest, QuestionsWithoutAnAnswerAreTypedErrors) {
  FormApart(2, 80'000);
  EXPECT_EQ(Ask("g", 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Ask("g", (std::uint64_t{1} << 46) + 1).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Ask("g", std::uint64_t{1} << 46).ok());
  EXPECT_EQ(Ask("h", kBytes).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Ask("", kBytes).status().code(), Code::kInvalidArgument);
  (void)Join(9, 2, "forming");
  EXPECT_EQ(Ask("forming", kBytes).status().code(), Code::kWorldTooSmall);
}

TEST_F(PlanReportTest, LoneMemberHasNoRing) {
  (void)Join(1, 1);
  const json report = Explained();
  EXPECT_TRUE(report["ring"].is_null());
  EXPECT_EQ(report["paths"]["all"], 0u);
  EXPECT_EQ(Of(report, "ring")["predicted_ms"], 0.0);
}

}  // namespace
}  // namespace ringway
