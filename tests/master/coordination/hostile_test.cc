// Daemons that say anything at all, in any order, about anybody: the coordinator neither fails nor breaks a promise.
#include <gtest/gtest.h>
#include <ringway/types.h>

#include <algorithm>
#include <random>
#include <utility>

#include "master/coordination/plan_report.h"
#include "master/coordination/status.h"
#include "proto/byte_size.h"
#include "tests/master/coordination/coordinator_fixture.h"
#include "tests/sanitized.h"

namespace ringway {
namespace {

class HostileTest : public CoordinatorTest {
 protected:
  static constexpr std::uint64_t kConnections = 8;

  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }

  // Mostly ids that exist, sometimes ones that do not.
  std::uint64_t SomePeer() {
    if (Below(20) == 0) return random_();
    std::vector<std::uint64_t> known = {0};
    for (const auto& [name, group] : coordinator_->groups()) {
      for (const auto& [id, peer] : group->peers()) known.push_back(id.value);
    }
    return known[Below(known.size())];
  }

  // Mostly one of the connection's own.
  std::uint64_t Speaker(std::uint64_t connection) {
    std::vector<std::uint64_t> own;
    for (const control::FromMaster& message : inbox_[connection]) {
      if (message.has_join_accepted()) own.push_back(message.join_accepted().peer());
    }
    if (own.empty() || Below(10) == 0) return SomePeer();
    return own[own.size() - 1 - Below(std::min<std::uint64_t>(own.size(), 2))];
  }

  // Disconnects the connections that the coordinator has refused, as a server does.
  void CloseRefused() {
    for (const std::uint64_t connection : std::exchange(closed_, {})) {
      coordinator_->OnDisconnect(connection, Contact::kClosed, now_);
      up_.erase(connection);
    }
  }

  // Returns mostly an epoch near that of the newest view that was sent to some connection.
  std::uint64_t SomeEpoch() {
    if (Below(60) == 0) return random_();
    if (Below(12) == 0) return Epoch::Of(1, static_cast<std::uint32_t>(Below(40))).value;
    const auto* view = Last(1 + Below(kConnections), &control::FromMaster::has_view);
    return view == nullptr ? 0 : view->view().view().epoch() + Below(60) / 59;
  }

  void FillCounters(control::PeerCounters& counters) {
    counters.set_peer(SomePeer());
    counters.set_times_epoch(SomeEpoch());
    for (std::uint64_t i = Below(40); i > 0; --i) {
      control::OpTime& time = *counters.add_times();
      time.set_algorithm(static_cast<std::uint32_t>(Below(kAlgorithmCount + 1)));
      time.set_size_class(static_cast<std::uint32_t>(Below(kSizeClassCount + 1)));
      time.set_operations(random_());
      time.set_median_us(random_());
    }
  }

  void FillReport(control::Report& report, std::uint64_t speaker) {
    report.set_peer(speaker);
    report.set_stop(SomeEpoch());
    report.set_epoch(SomeEpoch());
    for (std::uint64_t i = Below(8) / 5; i > 0; --i) report.add_lost(SomePeer());
    report.set_leaving(Below(30) == 0);
    for (std::uint64_t i = Below(4); i > 0; --i) {
      control::OpReport& op = *report.add_ops();
      op.set_channel(static_cast<std::uint32_t>(Below(2)));
      op.set_seq(Below(5));
      op.set_stage(static_cast<control::OpStage>(Below(4)));  // one of them unknown
      op.set_code(static_cast<std::uint32_t>(Below(3) == 0 ? random_() : 0));
      op.set_result_epoch(SomeEpoch());
      op.set_prepared_epoch(SomeEpoch());
      op.set_update_view(Below(2) == 0);
      op.set_cancel(Below(5) == 0);
      if (Below(5) == 0) op.set_mismatch("a; b");
      if (Below(3) == 0) op.add_next_seq()->set_seq(Below(9));
    }
    for (std::uint64_t i = Below(3); i > 0; --i) report.add_finished_upto()->set_seq(Below(5));
  }

  control::ToMaster SomeMessage(std::uint64_t connection) {
    control::ToMaster message;
    switch (Below(16)) {
      case 0:
        if (Below(5) > 0) break;  // most are the second on their connection, which ends it
        message.mutable_hello()->set_version_max(Below(10) == 0 ? 0 : 1);
        message.mutable_hello()->set_name("d" + std::to_string(Below(10) == 0 ? Below(kConnections) : connection));
        message.mutable_hello()->set_address("127.0.0.1:1");
        message.mutable_hello()->set_instance(connection);
        break;
      case 1:
        message.mutable_join()->set_group(Below(4) == 0 ? "h" : "g");
        message.mutable_join()->set_wait_world(static_cast<std::uint32_t>(Below(4)));
        message.mutable_join()->set_fail_on_peer_loss(Below(10) == 0);
        break;
      case 2:
      case 3:
      case 4:
        message.mutable_connected()->set_peer(Speaker(connection));
        message.mutable_connected()->set_other(SomePeer());
        break;
      case 5:
        message.mutable_dial_failed()->set_peer(Speaker(connection));
        message.mutable_dial_failed()->set_other(SomePeer());
        break;
      case 6:
        message.mutable_installed()->set_peer(Speaker(connection));
        message.mutable_installed()->set_epoch(SomeEpoch());
        break;
      case 7:
        if (Below(6) == 0) message.mutable_withdraw()->set_peer(Speaker(connection));
        break;
      case 8:
        message.mutable_measured()->set_peer(Speaker(connection));
        message.mutable_measured()->set_other(SomePeer());
        message.mutable_measured()->set_bytes_per_second(Below(2) == 0 ? random_() : Below(1000) * 100'000);
        message.mutable_measured()->set_round_trip_us(static_cast<std::uint32_t>(random_()));
        break;
      case 9:
        FillCounters(*message.mutable_heartbeat()->add_counters());
        break;
      case 10:
      case 11:
      case 12:
        FillReport(*message.mutable_report(), Speaker(connection));
        break;
      default:
        message.mutable_connected()->set_peer(Speaker(connection));
        message.mutable_connected()->set_other(SomePeer());
    }
    return message;
  }

  // Checks the views that each peer has got so far: epochs only grow, and every view holds the addressee and no peer
  // twice.
  void CheckViews() {
    for (const auto& [connection, messages] : inbox_) {
      std::map<std::uint64_t, std::uint64_t> last;
      for (const control::FromMaster& message : messages) {
        if (!message.has_view()) continue;
        const control::View& view = message.view().view();
        std::set<std::uint64_t> members;
        for (const control::PeerInfo& info : view.members()) ASSERT_TRUE(members.insert(info.peer_id()).second);
        ASSERT_TRUE(members.contains(message.view().peer()));
        ASSERT_EQ(view.ring_size(), view.members_size());
        ASSERT_FALSE(message.view().prepared() && view.verdicts_size() > 0);
        if (message.view().prepared()) continue;
        ASSERT_GE(view.epoch(), last[message.view().peer()]);
        last[message.view().peer()] = view.epoch();
      }
    }
  }

  // Returns whether there was a plan to explain.
  bool Explain(const Group& group) {
    control::PlanRequest request;
    request.set_bytes(1 + Below(std::uint64_t{1} << 46));
    const Result<std::string> text = PlanJson(&group, request);
    EXPECT_EQ(text.ok(), group.current().epoch() != 0);
    return text.ok();
  }

  void CheckGroups() {
    for (const auto& [name, group] : coordinator_->groups()) {
      ASSERT_FALSE(group->empty());
      for (const control::PeerInfo& info : group->current().members()) {
        const bool is_known = group->peers().contains(PeerId(info.peer_id()));
        ASSERT_TRUE(is_known || group->collecting()) << "a member that nobody knows, and no recovery";
      }
    }
  }

  std::set<std::uint64_t> up_;  // connections that have said hello
  std::mt19937_64 random_;
};

TEST_F(HostileTest, WhateverIsSaidViewsStayWellFormedAndEpochsGrow) {
  const std::uint64_t kSeeds = TurnsOf(150);
  std::uint64_t views = 0, prepared = 0, verdicts = 0, evicted = 0, explained = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_.seed(seed);
    coordinator_.emplace(CoordinatorOptions{});
    closed_.clear();
    up_ = {1, 2, 3};
    inbox_.clear();
    said_hello_.clear();
    peers_.clear();
    Form(3);
    for (int step = 0; step < 1200; ++step) {
      const std::uint64_t connection = 1 + Below(kConnections);
      if (up_.insert(connection).second) Hello(connection, "d" + std::to_string(connection), connection);
      Say(connection, SomeMessage(connection));
      CloseRefused();
      if (Below(10) == 0) Advance(std::chrono::milliseconds(Below(400)));
      if (Below(40) == 0) closed_.insert(connection);
      CheckGroups();
      ASSERT_FALSE(HasFatalFailure());
    }
    CheckViews();
    ASSERT_FALSE(HasFatalFailure());
    ASSERT_FALSE(StatusJson(*coordinator_, {.uptime = {}, .journal = "ok"}, 1 << 20).empty());
    for (const auto& [name, group] : coordinator_->groups()) explained += Explain(*group) ? 1 : 0;
    for (const auto& [connection, messages] : inbox_) {
      for (const control::FromMaster& message : messages) {
        views += message.has_view() ? 1 : 0;
        prepared += message.has_view() && message.view().prepared() ? 1 : 0;
        verdicts += message.has_view() ? static_cast<std::uint64_t>(message.view().view().verdicts_size()) : 0;
        evicted += message.has_evicted() ? 1 : 0;
      }
    }
  }
  // The messages must get somewhere.
  EXPECT_GT(views, 20 * kSeeds);
  EXPECT_GT(prepared, kSeeds);
  EXPECT_GT(verdicts, 6 * kSeeds);
  EXPECT_GT(evicted, 6 * kSeeds);
  EXPECT_GT(explained, kSeeds / 2);
}

TEST_F(HostileTest, AfterAllLiesHonestDaemonsStillFormAGroup) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    random_.seed(seed);
    for (int step = 0; step < 200; ++step) {
      const std::uint64_t connection = 1 + Below(kConnections);
      Say(connection, SomeMessage(connection));
      CloseRefused();
    }
    const std::uint64_t first = 100 + 2 * seed;
    const std::string group = "honest" + std::to_string(seed);
    for (const std::uint64_t i : {first, first + 1}) {
      peers_[i] = Join(i, 2, group);
      ASSERT_NE(peers_[i], 0u);
    }
    Connect(first, first + 1);
    EXPECT_EQ(ViewOf(first).members_size(), 2) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ringway
