// What the coordinator's timeline tells of a group's life, each thing once.
#include "master/coordination/timeline.h"

#include <gtest/gtest.h>

#include "master/coordination/op_history.h"
#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway {
namespace {

class TimelineTest : public CoordinatorTest {
 protected:
  // The events of one kind.
  std::vector<Event> Of(const std::string& kind) const {
    std::vector<Event> out;
    for (const Event& event : coordinator_->timeline().log().all()) {
      if (event.kind == kind) out.push_back(event);
    }
    return out;
  }
  // The text of the only one of its kind.
  std::string Only(const std::string& kind) const {
    const auto events = Of(kind);
    EXPECT_EQ(events.size(), 1U) << kind;
    return events.empty() ? "" : events.back().text;
  }
};

TEST_F(TimelineTest, ViewIsOneEventForAllItsMembers) {
  Form(3);
  const std::vector<Event> views = Of("view");
  ASSERT_EQ(views.size(), 1U);
  EXPECT_EQ(views[0].group, "g");
  EXPECT_EQ(views[0].text, "view 1.1 begins: 3 peers, p1, p2, p3");
  EXPECT_EQ(views[0].at, now_);
  EXPECT_EQ(Of("join").size(), 3U);
  EXPECT_EQ(Of("join")[0].text, "wants to join by daemon d1, in a group of 3");
  EXPECT_EQ(Of("daemon_up").size(), 3U);
}

TEST_F(TimelineTest, LossIsARecoveryADroppedPeerWithItsReasonAndTheNextView) {
  Form(3);
  coordinator_->OnDisconnect(3, Contact::kClosed, now_);
  Collect();
  EXPECT_EQ(Of("daemon_down")[0].who, "d3");
  const std::uint64_t epoch = ViewOf(1).epoch();
  auto report = Report(1, epoch, {3});
  report.mutable_report()->set_reason("lost p3: its links ended");
  Say(1, report);
  Say(2, Report(2, epoch, {3}));
  Advance(kWeigh);
  EXPECT_EQ(Only("recovery"), "view 1.1 is aborted: lost p3: its links ended");
  EXPECT_EQ(Of("recovery")[0].who, "p1");
  ASSERT_EQ(Of("dropped").size(), 1U);
  EXPECT_EQ(Of("dropped")[0].who, "p3");
  EXPECT_NE(Only("dropped").find("lost contact with it; its daemon closed its connection"), std::string::npos)
      << Only("dropped");
  EXPECT_EQ(Of("view").back().text, "view 1.2 goes on: 2 peers, p1, p2");
}

TEST_F(TimelineTest, NewcomerIsPreparedThenAdoptedOnce) {
  Form(2);
  const std::uint64_t prepared = Newcomer(3, {1, 2});
  ASSERT_NE(prepared, 0U);
  EXPECT_EQ(Only("prepared"), "view 1.2 with p3 waits for UpdateView");
  EXPECT_TRUE(Of("adopted").empty());
  for (const std::uint64_t member : {1, 2, 3}) Installed(member, prepared);
  EXPECT_EQ(Only("adopted"), "view 1.2 is in force: 3 peers");
}

TEST_F(TimelineTest, NewcomerThatGoesAwayIsTakenBack) {
  Form(2);
  ASSERT_NE(Newcomer(3, {1, 2}), 0U);
  Withdraw(3);
  EXPECT_EQ(Only("revoked"), "prepared view 1.2 is taken back: a newcomer in it has gone");
  EXPECT_EQ(Of("left").size(), 1U);
}

TEST_F(TimelineTest, OrdersAndDrainingAreSaid) {
  Form(2);
  control::EvictRequest evict;
  evict.set_group("g");
  evict.set_peer("p2");
  ASSERT_TRUE(coordinator_->Evict(evict, now_).ok());
  EXPECT_EQ(Of("order")[0].who, "p2");
  control::ToMaster beat;
  beat.mutable_heartbeat()->set_draining(true);
  for (int i = 0; i < 3; ++i) Say(1, beat);
  EXPECT_EQ(Of("draining").size(), 1U) << "each heartbeat says it, and it is one event";
}

TEST_F(TimelineTest, AdoptionOfAViewThatNobodySentIsNoEvent) {
  Form(2);
  Installed(1, Epoch::Of(1, 77).value);
  EXPECT_TRUE(Of("adopted").empty());
}

TEST(TimelineBoundTest, OnlyTheNewestOfTheLastHourAreKept) {
  Timeline timeline;
  const TimePoint start{std::chrono::seconds(1)};
  for (std::size_t i = 0; i < 2 * Timeline::kMax; ++i) {
    timeline.Add(start, {.kind = "order", .text = std::string(10'000, 'x')});
  }
  EXPECT_EQ(timeline.log().all().size(), Timeline::kMax);
  EXPECT_EQ(timeline.log().all().back().number, 2 * Timeline::kMax + 1);
  EXPECT_EQ(timeline.log().all().back().text.size(), EventLog::kTextBytesMax);
  timeline.Add(start + Timeline::kKept + Duration(1), {.kind = "order"});
  EXPECT_EQ(timeline.log().all().size(), 1U);
}

TEST(OpHistoryTest, KeepsAnHourOfBusyTimes) {
  OpHistory history;
  TimePoint now{std::chrono::seconds(1)};
  EXPECT_TRUE(history.IsDue(now));
  history.Add({.at = now, .operations_per_second = 0});
  EXPECT_TRUE(history.samples().empty()) << "it has done nothing yet";
  EXPECT_FALSE(history.IsDue(now + OpHistory::kEvery - Duration(1)));
  for (std::size_t i = 0; i < 2 * OpHistory::kMax; ++i) {
    history.Add({.at = now += OpHistory::kEvery, .operations_per_second = 5, .operation_ms = static_cast<float>(i)});
  }
  ASSERT_EQ(history.samples().size(), OpHistory::kMax);
  EXPECT_EQ(history.samples().back().operation_ms, 2 * OpHistory::kMax - 1);
  const std::size_t before = history.samples().size();
  history.Add({.at = now += OpHistory::kEvery});
  history.Add({.at = now += OpHistory::kEvery});
  EXPECT_EQ(history.samples().size(), before);
  EXPECT_EQ(history.samples().back().operations_per_second, 0) << "one that ends the busy time";
  EXPECT_EQ(history.samples()[before - 2].operations_per_second, 5);
}

}  // namespace
}  // namespace ringway
