#include "daemon/agreement/paths.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace ringway::agreement {
namespace {

class PathsTest : public testing::Test, private Links::Listener {
 protected:
  static PeerOptions OptionsWith(const std::shared_ptr<flow::ProbeBook>& book) {
    PeerOptions options;
    options.probes = book;
    return options;
  }
  PathsTest() : ctx_(PeerId(1), "g", OptionsWith(book_)), links_(ctx_, attempts_, *this), paths_(ctx_, links_) {}

  // Returns the uplink's rates that were reported to the master.
  std::vector<std::uint64_t> ReportedRates() {
    std::vector<std::uint64_t> rates;
    for (const Action& action : ctx_.TakeActions()) {
      const auto* said = std::get_if<ToMaster>(&action);
      if (said == nullptr || !said->message.has_measured()) continue;
      EXPECT_EQ(said->message.measured().peer(), 1U);
      EXPECT_EQ(said->message.measured().other(), 0U);
      rates.push_back(said->message.measured().bytes_per_second());
    }
    return rates;
  }

  void OnLaneDown(const LinkId&) override {}
  void OnFrameLost(PeerId, const links::SentFrame&) override {}
  void OnFrameRefused(const links::SentFrame&) override {}
  void OnFault(const std::vector<PeerId>&, const std::string&) override {}

  std::shared_ptr<flow::ProbeBook> book_ = std::make_shared<flow::ProbeBook>();
  Context ctx_;
  transfer::Attempts attempts_;
  Links links_;
  Paths paths_;
};

// The operator's limit is all that the uplink carries: nothing has to be measured for that.
class AllowedTest : public PathsTest {};

using Rates = std::vector<std::uint64_t>;

TEST_F(AllowedTest, NothingIsSaidWhereAnyRateIsAllowed) {
  paths_.OnStanding(PeerId(2), {});
  paths_.Tick(false);
  EXPECT_EQ(ReportedRates(), Rates());
}

TEST_F(AllowedTest, LimitIsSaidWhenAPairStandsAndWhenItChanges) {
  book_->SetAllowed(1000);
  paths_.OnStanding(PeerId(2), {});
  EXPECT_EQ(ReportedRates(), Rates{1000});
  paths_.OnStanding(PeerId(3), {});
  paths_.Tick(false);
  EXPECT_EQ(ReportedRates(), Rates()) << "once";
  book_->SetAllowed(700);
  paths_.Tick(false);
  EXPECT_EQ(ReportedRates(), Rates{700});
  paths_.Repeat();
  EXPECT_EQ(ReportedRates(), Rates{700}) << "the master may have missed it";
  book_->uplink().rate = 900;
  book_->SetAllowed(2000);
  paths_.Tick(false);
  EXPECT_EQ(ReportedRates(), Rates{900}) << "it carries no more";
  book_->uplink().rate = 0;
  book_->SetAllowed(0);
  paths_.Tick(false);
  EXPECT_EQ(ReportedRates(), Rates{100'000'000'000}) << "any rate, as far as is known";
}

// A view that is prepared makes this peer warm the path to the other one.
class WarmedPathTest : public PathsTest {
 protected:
  static constexpr PeerId kOther{2};

  static View ViewOf(std::uint64_t epoch, const std::vector<PeerId>& members) {
    View view;
    view.epoch = Epoch(epoch);
    for (const PeerId member : members) {
      view.ranks[member] = Rank(static_cast<std::uint32_t>(view.members.size()));
      view.routes.ring.push_back(view.ranks[member]);
      view.members.push_back(member);
    }
    return view;
  }
  WarmedPathTest() { Stand(kOther, "b"); }
  void Stand(PeerId other, const std::string& host) {
    links::LinkTerms terms;
    terms.host = host;
    terms.probe_bytes = 1 << 20;
    terms.round_trip = std::chrono::milliseconds(100);
    paths_.OnStanding(other, terms);
  }
  // Returns whom dummy frames may be sent to beside work.
  std::vector<PeerId> Warmed() {
    std::vector<PeerId> targets;
    paths_.AddTargets(false, targets);
    return targets;
  }
  void Carry(PeerId other, std::uint64_t bytes) {
    const std::vector<flow::PathSample> samples = {{.other = other, .traffic = {}, .carried = bytes}};
    (void)paths_.OnSamples(samples, {});
  }
  void Pass(Duration time) {
    ctx_.now += time;
    paths_.Tick(true);
  }
  bool DeliversTo(PeerId other) {
    const std::vector<flow::PathSample> samples = {{.other = other, .traffic = {.delivered = 1000}}};
    return paths_.OnSamples(samples, {});
  }
};

TEST_F(WarmedPathTest, NothingIsProbedUntilWarmingIsOver) {
  paths_.OnPrepared(ViewOf(1, {PeerId(1), kOther}));
  std::vector<PeerId> targets;
  paths_.AddTargets(true, targets);
  EXPECT_EQ(targets, std::vector{kOther});
  Pass(std::chrono::milliseconds(500));
  EXPECT_FALSE(paths_.IsHostQuiet()) << "others grant and ask for no probe, either";
  Pass(flow::Warmer::kTimeMax);
  EXPECT_FALSE(paths_.has_dummies());
  EXPECT_TRUE(paths_.IsHostQuiet());
}

// A recovery gives nobody the time: its view is on the same ring without the one that is lost.
TEST_F(WarmedPathTest, PathsOfALossAreWarmedWhereOperationsFillThoseOfTheView) {
  constexpr PeerId kAfter{3};
  constexpr PeerId kFar{4};
  for (const PeerId other : {kAfter, kFar, PeerId(5), PeerId(6)}) Stand(other, "h" + std::to_string(other.value));
  (void)ctx_.views.Install(ViewOf(1, {PeerId(1), kAfter, kOther, kFar, PeerId(5), PeerId(6)}));
  Pass(Duration(1));
  Carry(kAfter, flow::Warmer::kBytesMax - 1);
  Pass(std::chrono::seconds(20));
  EXPECT_EQ(Warmed(), std::vector<PeerId>()) << "operations are small";
  Carry(kAfter, flow::Warmer::kBytesMax);
  Pass(Duration(1));
  EXPECT_EQ(Warmed(), std::vector{kOther}) << "its next one, without the one between";
  Carry(kOther, flow::Warmer::kBytesMax);
  EXPECT_EQ(Warmed(), std::vector{PeerId(6)}) << "then the others on the ring";
  Carry(PeerId(6), flow::Warmer::kBytesMax);
  Pass(std::chrono::seconds(20));
  EXPECT_EQ(Warmed(), std::vector<PeerId>()) << "once";
}

TEST_F(WarmedPathTest, ThoseOfAPreparedViewGoBeforeThoseOfALoss) {
  Stand(PeerId(3), "c");
  Stand(PeerId(7), "d");
  (void)ctx_.views.Install(ViewOf(1, {PeerId(1), PeerId(3), kOther}));
  Pass(Duration(1));
  Carry(PeerId(3), flow::Warmer::kBytesMax);
  Pass(std::chrono::milliseconds(1900));
  EXPECT_EQ(Warmed(), std::vector<PeerId>()) << "a newcomer may come";
  Pass(std::chrono::milliseconds(100));
  EXPECT_EQ(Warmed(), std::vector{kOther});
  paths_.OnPrepared(ViewOf(2, {PeerId(1), PeerId(7), PeerId(3), kOther}));
  EXPECT_EQ(Warmed(), std::vector{PeerId(7)});
  Pass(flow::Warmer::kLater);
  Carry(PeerId(7), flow::Warmer::kBytesMax);
  EXPECT_EQ(Warmed(), std::vector{kOther});
}

TEST_F(WarmedPathTest, DummyFramesAreNoMovement) {
  const auto view_with_next = [](std::uint64_t epoch, PeerId a, PeerId b) {
    return ViewOf(epoch, {PeerId(1), a, b, PeerId(4), PeerId(5), PeerId(6)});
  };
  (void)ctx_.views.Install(view_with_next(1, PeerId(3), kOther));
  EXPECT_TRUE(DeliversTo(kOther));
  paths_.OnPrepared(view_with_next(2, kOther, PeerId(3)));
  EXPECT_FALSE(DeliversTo(kOther));
  EXPECT_TRUE(DeliversTo(PeerId(3))) << "nothing is warmed there";
  Pass(flow::Warmer::kTimeMax);
  EXPECT_TRUE(DeliversTo(kOther));
}

TEST_F(WarmedPathTest, NothingThatGoesToANewcomerIsMovement) {
  (void)ctx_.views.Install(ViewOf(1, {PeerId(1), PeerId(3)}));
  EXPECT_FALSE(DeliversTo(kOther)) << "dummy frames that were in flight when warming ended";
  (void)ctx_.views.Install(ViewOf(2, {PeerId(1), kOther, PeerId(3)}));
  EXPECT_TRUE(DeliversTo(kOther));
}

}  // namespace
}  // namespace ringway::agreement
