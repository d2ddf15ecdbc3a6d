// Measurements of daemons reach the group's matrix, and no further than they may.
#include <gtest/gtest.h>
#include <ringway/types.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "master/coordination/status.h"
#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway {
namespace {

class MeasuredTest : public CoordinatorTest {
 protected:
  // `to` 0: the uplink.
  void SayRate(std::uint64_t from, std::uint64_t to, std::uint64_t bytes_per_second, std::uint64_t speaker = 0) {
    control::ToMaster message;
    message.mutable_measured()->set_peer(peers_[from]);
    message.mutable_measured()->set_other(to == 0 ? 0 : peers_[to]);
    message.mutable_measured()->set_bytes_per_second(bytes_per_second);
    message.mutable_measured()->set_round_trip_us(100'000);
    Say(speaker == 0 ? from : speaker, message);
  }

  // Four peers on a ring 1, 2, 3, 4 of which the first link turns out to be slow.
  void FormWithSlowLink() {
    Form(4);
    for (std::uint64_t a = 1; a <= 4; ++a) {
      for (std::uint64_t b = 1; b <= 4; ++b) {
        if (a != b) SayRate(a, b, a + b == 3 ? 5'000'000 : 50'000'000);
      }
    }
  }

  // Longer than a bunch of news is waited for, shorter than silence is borne.
  void Settle() {
    Heartbeats({1, 2, 3, 4});
    Advance(std::chrono::milliseconds(1100));
  }

  void Install(std::uint64_t connection, std::uint64_t epoch) {
    control::ToMaster message;
    message.mutable_installed()->set_peer(peers_[connection]);
    message.mutable_installed()->set_epoch(epoch);
    Say(connection, message);
  }

  const control::ViewFor* PreparedOf(std::uint64_t connection) {
    const auto* last = Last(connection, &control::FromMaster::has_view);
    return last != nullptr && last->view().prepared() ? &last->view() : nullptr;
  }

  PathMatrix Paths() const { return coordinator_->groups().at("g")->CurrentPaths(); }
};

TEST_F(MeasuredTest, AHostWhoseLineMakesOperationsSlowIsNamedUntilItIsNone) {
  Form(4);
  const auto slow = [this] { return coordinator_->groups().at("g")->slow_peer(); };
  const auto events = [this](const std::string& kind) {
    const auto& all = coordinator_->timeline().log().all();
    return std::count_if(all.begin(), all.end(), [&](const Event& event) { return event.kind == kind; });
  };
  const auto say_all = [this](std::uint64_t rate_of_3) {
    for (std::uint64_t a = 1; a <= 4; ++a) {
      SayRate(a, 0, a == 3 ? rate_of_3 : 50'000'000);
      for (std::uint64_t b = 1; b <= 4; ++b) {
        if (a != b) SayRate(a, b, a == 3 || b == 3 ? rate_of_3 : 50'000'000);
      }
    }
    Settle();
  };
  EXPECT_FALSE(slow());
  say_all(2'000'000);
  ASSERT_TRUE(slow());
  EXPECT_EQ(slow()->peer, PeerId(peers_[3]));
  EXPECT_GT(slow()->ratio, 2);
  EXPECT_EQ(events(kSlowHost), 1);
  const std::string status = StatusJson(*coordinator_, {}, 1 << 20);
  EXPECT_NE(status.find("\"slow_host\":{\"name\":\"" + slow()->name), std::string::npos) << status;
  if (const control::ViewFor* const prepared = PreparedOf(1)) {
    const std::uint64_t epoch = prepared->view().epoch();
    for (std::uint64_t i = 1; i <= 4; ++i) Install(i, epoch);
  }
  EXPECT_EQ(events(kSlowHostOver), 0);
  say_all(50'000'000);
  EXPECT_FALSE(slow());
  EXPECT_EQ(events(kSlowHostOver), 1);
}

TEST_F(MeasuredTest, RatesAndUplinksReachTheMatrixOfTheCurrentView) {
  Form(3);
  SayRate(1, 2, 5'000'000);
  SayRate(3, 0, 7'000'000);
  EXPECT_EQ(Paths().rate(0, 1), 5e6);
  EXPECT_EQ(Paths().rate(1, 0), 0);
  EXPECT_DOUBLE_EQ(Paths().delay(0, 1), 0.05);
  EXPECT_EQ(Paths().uplink(2), 7e6);
}

TEST_F(MeasuredTest, RatesAreRememberedOfADaemonForItsOtherPeersAndGroups) {
  Form(2);
  SayRate(1, 2, 5'000'000);
  SayRate(2, 0, 7'000'000);
  for (const std::uint64_t i : {1, 2}) peers_[i] = Join(i, 2, "other");
  Connect(1, 2);
  const PathMatrix paths = coordinator_->groups().at("other")->CurrentPaths();
  EXPECT_EQ(paths.rate(0, 1), 5e6);
  EXPECT_EQ(paths.uplink(1), 7e6);
  SayRate(1, 2, 6'000'000);
  EXPECT_EQ(coordinator_->groups().at("other")->CurrentPaths().rate(0, 1), 6e6);
  EXPECT_EQ(Paths().rate(0, 1), 5e6) << "what a group has measured itself is its own";
}

TEST_F(MeasuredTest, WhatADaemonSaysOfItsSitesUplinkReachesTheMatrixWithinBounds) {
  site_uplink_ = 3'000'000;
  Form(2);
  EXPECT_EQ(Paths().site_uplink(1), 3e6);
  EXPECT_EQ(ViewOf(1).members(0).site_uplink(), 3'000'000u) << "and the journal";
}

TEST_F(MeasuredTest, ASitesUplinkIsNoMoreThanAnyRateCanBe) {
  site_uplink_ = ~std::uint64_t{0};
  Form(2);
  EXPECT_EQ(Paths().site_uplink(0), static_cast<double>(PathBook::kBytesPerSecondMax));
}

TEST_F(MeasuredTest, NobodySpeaksForAnothersPeerOrOfStrangers) {
  Form(2);
  SayRate(1, 2, 5'000'000, 2);
  EXPECT_EQ(coordinator_->ignored_messages(), 1u);
  EXPECT_EQ(Paths().rate(0, 1), 0);
  SayRate(1, 1, 5'000'000);
  peers_[9] = 12345;
  SayRate(1, 9, 5'000'000);
  EXPECT_EQ(Paths().rate(0, 1), 0);
}

// ---------------------------------------------------------------------------------------------- planning anew

TEST_F(MeasuredTest, ASlowLinkGetsABetterRingAsAPreparedViewOfTheSameMembers) {
  FormWithSlowLink();
  Settle();
  const control::ViewFor* prepared = PreparedOf(3);
  ASSERT_NE(prepared, nullptr);
  EXPECT_EQ(RingOf(prepared->view()), (std::vector<std::uint32_t>{0, 2, 1, 3}));
  EXPECT_EQ(prepared->view().members_size(), 4);
  EXPECT_GT(prepared->view().epoch(), ViewOf(1).epoch());
  EXPECT_EQ(RingOf(ViewOf(1)), (std::vector<std::uint32_t>{0, 1, 2, 3})) << "nothing changes until they adopt it";
  Install(1, prepared->view().epoch());
  EXPECT_EQ(RingOf(coordinator_->groups().at("g")->current()), (std::vector<std::uint32_t>{0, 2, 1, 3}));
}

TEST_F(MeasuredTest, NewsInABunchMakeOnePlanAtItsEndAndTheSameWordsNone) {
  FormWithSlowLink();
  EXPECT_EQ(PreparedOf(1), nullptr);
  Advance(std::chrono::milliseconds(600));
  SayRate(1, 3, 51'000'000);
  Advance(std::chrono::milliseconds(600));
  EXPECT_EQ(PreparedOf(1), nullptr) << "news came 0.6 s ago";
  Settle();
  ASSERT_NE(PreparedOf(1), nullptr);
  const std::uint64_t epoch = PreparedOf(1)->view().epoch();
  Install(1, epoch);
  SayRate(1, 3, 51'000'000);
  SayRate(1, 4, 51'000'000);
  Settle();
  EXPECT_EQ(PreparedOf(1)->view().epoch(), epoch) << "no plan is better by 10%";
}

TEST_F(MeasuredTest, NewsWithoutEndArePlannedByAllTheSame) {
  FormWithSlowLink();
  for (std::uint64_t i = 1; i <= 12; ++i) {
    SayRate(1, 3, 50'000'000 + i);
    Heartbeats({1, 2, 3, 4});
    Advance(std::chrono::milliseconds(500));
  }
  EXPECT_NE(PreparedOf(1), nullptr);
}

TEST_F(MeasuredTest, WhileAPlanWaitsThereIsNoSecond) {
  FormWithSlowLink();
  Settle();
  const std::uint64_t epoch = PreparedOf(1)->view().epoch();
  for (const auto& [from, to] : {std::pair(1U, 3U), std::pair(3U, 1U)}) SayRate(from, to, 1'000'000);
  Settle();
  EXPECT_EQ(PreparedOf(1)->view().epoch(), epoch);
  Install(2, epoch);
  Settle();
  EXPECT_GT(PreparedOf(1)->view().epoch(), epoch) << "what it was thought over for has not been forgotten";
}

TEST_F(MeasuredTest, NothingIsPlannedAnewWhileReportsAreCollected) {
  FormWithSlowLink();
  Say(1, Report(1, ViewOf(1).epoch(), {4}));
  Settle();
  EXPECT_EQ(PreparedOf(1), nullptr);
}

}  // namespace
}  // namespace ringway
