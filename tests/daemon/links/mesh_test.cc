#include "daemon/links/mesh.h"

#include <gtest/gtest.h>

namespace ringway::links {
namespace {

constexpr PeerId kSelf(1), kOther(2);
const PeerPlace kPlace{.address = "127.0.0.1:1", .daemon = "far"};

TimePoint At(int ms) { return TimePoint(std::chrono::milliseconds(ms)); }

// A candidate that starts over is dialled anew while the first dial is still under way.
TEST(Mesh, EndOfAnOldDialDoesNotCondemnALinkThatStands) {
  Mesh mesh(kSelf);
  mesh.Want(kOther, kPlace);
  ASSERT_EQ(mesh.TakeDials(At(1)).size(), 1U);
  mesh.AllDown(kOther, At(2));
  ASSERT_EQ(mesh.TakeDials(At(100)).size(), 1U);
  EXPECT_FALSE(mesh.ControlUp(kOther, At(101)));
  EXPECT_TRUE(mesh.LaneUp(kOther, LaneId(0), {.lanes = 1}, At(102)));
  EXPECT_FALSE(mesh.DialFailed(kOther, false, false, At(200)));
  EXPECT_EQ(mesh.StandingPeers(), std::vector<PeerId>{kOther});
}

TEST(Mesh, FailedDialIsRepeatedAfterAPauseThatDoubles) {
  Mesh mesh(kSelf);
  mesh.Want(kOther, kPlace);
  ASSERT_EQ(mesh.TakeDials(At(1)).size(), 1U);
  EXPECT_TRUE(mesh.DialFailed(kOther, false, false, At(10)));
  EXPECT_TRUE(mesh.TakeDials(At(29)).empty());
  ASSERT_EQ(mesh.TakeDials(At(30)).size(), 1U);
  EXPECT_TRUE(mesh.DialFailed(kOther, false, false, At(40)));
  EXPECT_TRUE(mesh.TakeDials(At(79)).empty());
  EXPECT_EQ(mesh.TakeDials(At(80)).size(), 1U);
}

TEST(Mesh, LaneThatFallsDuringADialIsDialledAfterIt) {
  Mesh mesh(kSelf);
  mesh.Want(kOther, kPlace);
  ASSERT_EQ(mesh.TakeDials(At(1)).size(), 1U);
  EXPECT_FALSE(mesh.ControlUp(kOther, At(2)));
  for (std::uint32_t lane = 0; lane < 4; ++lane)
    EXPECT_EQ(mesh.LaneUp(kOther, LaneId(lane), {.lanes = 4}, At(2)), lane == 3);
  mesh.LaneDown(kOther, LaneId(1), At(10));
  const std::vector<Dial> first = mesh.TakeDials(At(100));
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].missing, std::vector<LaneId>{LaneId(1)});
  mesh.LaneDown(kOther, LaneId(2), At(110));
  EXPECT_TRUE(mesh.TakeDials(At(200)).empty());
  EXPECT_FALSE(mesh.LaneUp(kOther, LaneId(1), {.lanes = 4}, At(300)));
  const std::vector<Dial> second = mesh.TakeDials(At(400));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].missing, std::vector<LaneId>{LaneId(2)});
  EXPECT_TRUE(mesh.LaneUp(kOther, LaneId(2), {.lanes = 4}, At(500)));
  EXPECT_TRUE(mesh.TakeDials(At(100'000)).empty());
}

// The lanes of a first dial are known with the first of them.
TEST(Mesh, LaneOfAFirstDialMayFallBeforeTheOthersAreUp) {
  Mesh mesh(kSelf);
  mesh.Want(kOther, kPlace);
  ASSERT_EQ(mesh.TakeDials(At(1)).size(), 1U);
  EXPECT_FALSE(mesh.LaneUp(kOther, LaneId(0), {.lanes = 2}, At(2)));
  mesh.LaneDown(kOther, LaneId(0), At(3));
  EXPECT_TRUE(mesh.TakeDials(At(100)).empty());
  EXPECT_FALSE(mesh.LaneUp(kOther, LaneId(1), {.lanes = 2}, At(100)));
  const std::vector<Dial> second = mesh.TakeDials(At(200));
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].missing, std::vector<LaneId>{LaneId(0)});
}

TEST(Mesh, DialWithoutAnAnswerCountsAsFailed) {
  Mesh mesh(kSelf);
  mesh.Want(kOther, kPlace);
  ASSERT_EQ(mesh.TakeDials(At(1)).size(), 1U);
  EXPECT_TRUE(mesh.TakeDials(At(30'000)).empty());
  EXPECT_TRUE(mesh.TakeDials(At(30'001)).empty());
  EXPECT_EQ(mesh.TakeDials(At(30'021)).size(), 1U);
}

TEST(Mesh, LanesForSmallSegmentsAloneDoNotCarry) {
  constexpr Duration kLimit = std::chrono::milliseconds(100);
  Mesh mesh(kSelf);
  mesh.Want(kOther, kPlace);
  (void)mesh.ControlUp(kOther, At(1));
  for (std::uint32_t lane = 0; lane < 3; ++lane) EXPECT_FALSE(mesh.LaneUp(kOther, LaneId(lane), {.lanes = 11}, At(1)));
  EXPECT_TRUE(mesh.BrokenFor(kOther, At(500), kLimit));
  EXPECT_FALSE(mesh.LaneUp(kOther, LaneId(3), {.lanes = 11}, At(500)));
  EXPECT_FALSE(mesh.BrokenFor(kOther, At(1000), kLimit));
}

// The dialler of the control link is the higher id.
TEST(Mesh, ControlLinkThatBreaksIsDialledAtOnceAndOneThatKeepsBreakingAfterAPause) {
  Mesh mesh(kOther);
  mesh.Want(kSelf, kPlace);
  ASSERT_EQ(mesh.TakeDials(At(1)).size(), 1U);
  (void)mesh.ControlUp(kSelf, At(2));
  mesh.ControlDown(kSelf, At(5000));
  const std::vector<Dial> dials = mesh.TakeDials(At(5000));
  ASSERT_EQ(dials.size(), 1U);
  EXPECT_TRUE(dials[0].control);
  EXPECT_TRUE(dials[0].known) << "it was linked to this peer before";
  (void)mesh.ControlUp(kSelf, At(5001));
  mesh.ControlDown(kSelf, At(5002));
  EXPECT_TRUE(mesh.TakeDials(At(5002)).empty());
  EXPECT_EQ(mesh.TakeDials(At(5100)).size(), 1U);
}

TEST(Mesh, ControlLinkThatStaysDownBreaksThePair) {
  constexpr Duration kLimit = std::chrono::milliseconds(100);
  Mesh mesh(kSelf);
  mesh.Want(kOther, kPlace);
  (void)mesh.ControlUp(kOther, At(1));
  (void)mesh.LaneUp(kOther, LaneId(0), {.lanes = 1}, At(1));
  EXPECT_FALSE(mesh.BrokenFor(kOther, At(5000), kLimit));
  mesh.ControlDown(kOther, At(5000));
  EXPECT_FALSE(mesh.BrokenFor(kOther, At(5100), kLimit));
  EXPECT_TRUE(mesh.BrokenFor(kOther, At(5101), kLimit));
}

// Its own loop stood still: what came meanwhile, and what was dialled, has yet to be handled.
TEST(Mesh, WhoWasAwayItselfCountsWhatIsDownFromThenOn) {
  constexpr Duration kLimit = std::chrono::milliseconds(100);
  Mesh mesh(kSelf);
  mesh.Want(kOther, kPlace);
  (void)mesh.ControlUp(kOther, At(1));
  (void)mesh.LaneUp(kOther, LaneId(0), {.lanes = 1}, At(1));
  mesh.ControlDown(kOther, At(5000));
  mesh.LaneDown(kOther, LaneId(0), At(5000));
  mesh.HeardAll(At(9000));
  EXPECT_FALSE(mesh.BrokenFor(kOther, At(9100), kLimit));
  EXPECT_TRUE(mesh.BrokenFor(kOther, At(9101), kLimit));
}

TEST(Mesh, GoneIsWhoHasNoLinkLeftAndRefusesANewOne) {
  Mesh mesh(kSelf);
  mesh.Want(kOther, kPlace);
  (void)mesh.ControlUp(kOther, At(1));
  (void)mesh.LaneUp(kOther, LaneId(0), {.lanes = 1}, At(1));
  mesh.ControlDown(kOther, At(10));
  mesh.LaneDown(kOther, LaneId(0), At(10));
  EXPECT_FALSE(mesh.IsGone(kOther)) << "a network may break them all";
  ASSERT_EQ(mesh.TakeDials(At(100)).size(), 1U);
  EXPECT_TRUE(mesh.DialFailed(kOther, false, false, At(100)));
  EXPECT_FALSE(mesh.IsGone(kOther)) << "or a dial";
  ASSERT_EQ(mesh.TakeDials(At(200)).size(), 1U);
  EXPECT_TRUE(mesh.DialFailed(kOther, false, true, At(200)));
  EXPECT_TRUE(mesh.IsGone(kOther));
  mesh.Answered(kOther);
  EXPECT_FALSE(mesh.IsGone(kOther)) << "a connection of it is here";
  EXPECT_TRUE(mesh.DialFailed(kOther, false, true, At(250)));
  EXPECT_TRUE(mesh.IsGone(kOther));
  (void)mesh.LaneUp(kOther, LaneId(0), {.lanes = 1}, At(300));
  EXPECT_FALSE(mesh.IsGone(kOther));
  mesh.LaneDown(kOther, LaneId(0), At(400));
  EXPECT_FALSE(mesh.IsGone(kOther)) << "what was refused before it was up counts no more";
}

// A pair of `mesh`, with `lanes` lanes up.
void Stand(Mesh& mesh, PeerId other, std::uint32_t lanes, std::uint32_t lanes_max) {
  mesh.Want(other, kPlace);
  (void)mesh.TakeDials(At(1));
  (void)mesh.ControlUp(other, At(1));
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    (void)mesh.LaneUp(other, LaneId(lane), {.lanes = lanes, .lanes_max = lanes_max}, At(1));
  }
  ASSERT_EQ(mesh.StandingPeers(), std::vector<PeerId>{other});
}

std::vector<LaneId> LanesFrom(std::uint32_t begin, std::uint32_t end) {
  std::vector<LaneId> out;
  for (; begin < end; ++begin) out.emplace_back(begin);
  return out;
}

TEST(Mesh, WhoDialsTheLanesOpensAsManyAsEitherEndHasAUseFor) {
  Mesh mesh(kSelf);
  Stand(mesh, kOther, 9, kLanesMax);
  EXPECT_FALSE(mesh.WantLanes(kOther, 9, Mesh::End::kThere).say.value_or(0) > 9);
  EXPECT_TRUE(mesh.TakeDials(At(10)).empty());
  EXPECT_EQ(mesh.WantLanes(kOther, 12, Mesh::End::kThere).say, 12U);
  EXPECT_EQ(mesh.WantLanes(kOther, 10, Mesh::End::kHere).say, std::nullopt) << "the other end has a use for more";
  const std::vector<Dial> dials = mesh.TakeDials(At(10));
  ASSERT_EQ(dials.size(), 1U);
  EXPECT_EQ(dials[0].missing, LanesFrom(9, 12));
  EXPECT_EQ(dials[0].lanes, 9U);
  for (const LaneId lane : dials[0].missing) {
    EXPECT_FALSE(mesh.LaneUp(kOther, lane, {.lanes = 9, .lanes_max = kLanesMax}, At(20))) << "it stood before";
  }
  EXPECT_TRUE(mesh.TakeDials(At(1000)).empty());
  mesh.LaneDown(kOther, LaneId(11), At(2000));
  EXPECT_EQ(mesh.StandingPeers(), std::vector<PeerId>{kOther});
  EXPECT_EQ(mesh.TakeDials(At(3000)).at(0).missing, LanesFrom(11, 12));
}

TEST(Mesh, FirstLanesAreDialledBeforeOthers) {
  Mesh mesh(kSelf);
  Stand(mesh, kOther, 9, kLanesMax);
  (void)mesh.WantLanes(kOther, 100, Mesh::End::kHere);
  mesh.LaneDown(kOther, LaneId(4), At(10));
  EXPECT_EQ(mesh.TakeDials(At(100)).at(0).missing, LanesFrom(4, 5));
  EXPECT_TRUE(mesh.LaneUp(kOther, LaneId(4), {.lanes = 9, .lanes_max = kLanesMax}, At(110)));
  EXPECT_EQ(mesh.TakeDials(At(200)).at(0).missing, LanesFrom(9, 41)) << "not all at once";
}

TEST(Mesh, MoreLanesThatCannotBeOpenedAreNoReasonToDoubtThePair) {
  Mesh mesh(kSelf);
  Stand(mesh, kOther, 9, kLanesMax);
  (void)mesh.WantLanes(kOther, 20, Mesh::End::kHere);
  ASSERT_EQ(mesh.TakeDials(At(10)).size(), 1U);
  EXPECT_FALSE(mesh.DialFailed(kOther, false, false, At(20)));
  EXPECT_EQ(mesh.StandingPeers(), std::vector<PeerId>{kOther});
  EXPECT_EQ(mesh.TakeDials(At(100)).size(), 1U) << "tried again";
}

TEST(Mesh, WhoIsDialledAsksAndClosesWhatIsMoreThanWasSaid) {
  Mesh mesh(kOther);  // of a pair the lower id dials the lanes
  Stand(mesh, kSelf, 9, 0);
  EXPECT_EQ(mesh.WantLanes(kSelf, 12, Mesh::End::kHere).say, 12U);
  EXPECT_TRUE(mesh.TakeDials(At(10)).empty());
  EXPECT_EQ(mesh.WantLanes(kSelf, 12, Mesh::End::kThere).say, std::nullopt);
  for (const LaneId lane : LanesFrom(9, 12)) (void)mesh.LaneUp(kSelf, lane, {.lanes = 9}, At(20));
  EXPECT_TRUE(mesh.WantsLane(kSelf, LaneId(11)));
  EXPECT_TRUE(mesh.WantLanes(kSelf, 9, Mesh::End::kHere).close.empty()) << "it may be the other that uses them";
  const Mesh::LanesNews news = mesh.WantLanes(kSelf, 10, Mesh::End::kThere);
  EXPECT_EQ(news.close, LanesFrom(10, 12));
  EXPECT_FALSE(mesh.WantsLane(kSelf, LaneId(11)));
  EXPECT_TRUE(mesh.WantsLane(kSelf, LaneId(9)));
  EXPECT_TRUE(mesh.WantLanes(kSelf, 0, Mesh::End::kThere).close.size() == 3) << "never the first ones";
}

TEST(Mesh, LanesThatTheOptionsFixStayAsTheyAre) {
  Mesh mesh(kSelf);
  Stand(mesh, kOther, 9, 9);
  (void)mesh.WantLanes(kOther, 4'000'000'000, Mesh::End::kThere);
  EXPECT_TRUE(mesh.TakeDials(At(10)).empty());
}

TEST(Mesh, FewLanesStayFewForTheirRolesHangOnTheirNumber) {
  Mesh mesh(kSelf);
  Stand(mesh, kOther, 2, kLanesMax);
  (void)mesh.WantLanes(kOther, 20, Mesh::End::kHere);
  EXPECT_TRUE(mesh.TakeDials(At(10)).empty());
  Mesh dialled(kOther);
  dialled.Want(kSelf, kPlace);
  EXPECT_FALSE(dialled.Admit({.other = kSelf, .control = false, .lane = LaneId(2)}, {.lanes = 2}, nullptr).ok());
  EXPECT_TRUE(dialled.Admit({.other = kSelf, .control = false, .lane = LaneId(127)}, {.lanes = 9}, nullptr).ok());
  EXPECT_FALSE(dialled.Admit({.other = kSelf, .control = false, .lane = LaneId(128)}, {.lanes = 9}, nullptr).ok());
}

// The lower id dials the lanes: of a pair whose other end it hears of but is not dialled by, it dials everything.
class TakingOver : public ::testing::Test {
 protected:
  TakingOver() {
    lower_.Want(kOther, kPlace);
    higher_.Want(kSelf, kPlace);
  }
  static bool Accepts(Mesh& acceptor, PeerId from, const Dial& dial) {
    const LinkTerms terms{.lanes = dial.control ? 0U : 1U, .dialled_all = dial.all};
    return acceptor.Admit({.other = from, .control = dial.control, .lane = LaneId(0)}, terms, nullptr).ok();
  }
  // Returns what an end dials from now on, as "c" for the control link and "l" for the lanes.
  static std::string Dialled(Mesh& mesh, int ms) {
    std::string out;
    for (const Dial& dial : mesh.TakeDials(At(ms))) out += dial.control ? "c" : "l";
    return out;
  }
  static void LaneIsUp(Mesh& mesh, PeerId other, int ms, std::uint64_t generation = 1) {
    (void)mesh.LaneUp(other, LaneId(0), {.lanes = 1, .generation = generation}, At(ms));
  }

  Mesh lower_{kSelf}, higher_{kOther};
};

TEST_F(TakingOver, WhoseLanesStandDialsTheControlLinkToo) {
  EXPECT_EQ(Dialled(lower_, 1), "l");
  EXPECT_EQ(Dialled(higher_, 1), "c");
  LaneIsUp(lower_, kOther, 2);
  EXPECT_TRUE(lower_.TakeOver(At(3002)).empty()) << "the other one may be on its way";
  const auto taken = lower_.TakeOver(At(3003));
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].other, kOther);
  EXPECT_FALSE(taken[0].say.has_value());
  const std::vector<Dial> dials = lower_.TakeDials(At(3003));
  ASSERT_EQ(dials.size(), 1U);
  EXPECT_TRUE(dials[0].control);
  EXPECT_TRUE(dials[0].all);
  EXPECT_TRUE(Accepts(higher_, kSelf, dials[0]));
  EXPECT_TRUE(lower_.TakeOver(At(9000)).empty()) << "once";
}

TEST_F(TakingOver, WhoseControlLinkStandsDialsTheLanesTooAndLaterGenerationsOfThem) {
  EXPECT_EQ(Dialled(higher_, 1), "c");
  (void)higher_.ControlUp(kSelf, At(2));
  LaneIsUp(higher_, kSelf, 3, 7);
  higher_.AllDown(kSelf, At(900));
  (void)higher_.ControlUp(kSelf, At(1000));
  EXPECT_TRUE(higher_.TakeOver(At(4000)).empty());
  ASSERT_EQ(higher_.TakeOver(At(4001)).size(), 1U);
  const std::vector<Dial> dials = higher_.TakeDials(At(4001));
  ASSERT_EQ(dials.size(), 1U);
  EXPECT_FALSE(dials[0].control);
  EXPECT_GT(dials[0].generation, 7U);
}

// The links of a pair notice an outage one after the other: a link that still looks up may be dead.
TEST_F(TakingOver, WhatStoodWhenTheOthersPartWentDownProvesNothing) {
  for (Mesh* mesh : {&lower_, &higher_}) {
    const PeerId other = mesh == &lower_ ? kOther : kSelf;
    (void)mesh->ControlUp(other, At(1));
    LaneIsUp(*mesh, other, 1);
  }
  lower_.ControlDown(kOther, At(1000));
  EXPECT_TRUE(lower_.TakeOver(At(60'000)).empty());
  higher_.LaneDown(kSelf, LaneId(0), At(1000));
  EXPECT_TRUE(higher_.TakeOver(At(60'000)).empty());
}

TEST_F(TakingOver, WhoWasTakenOverFromDialsNothingMore) {
  EXPECT_EQ(Dialled(higher_, 1), "c");
  EXPECT_FALSE(higher_.Yield(kSelf).has_value());
  (void)higher_.ControlUp(kSelf, At(2));
  LaneIsUp(higher_, kSelf, 2);
  higher_.AllDown(kSelf, At(10));
  EXPECT_EQ(Dialled(higher_, 5000), "");
  EXPECT_TRUE(higher_.TakeOver(At(5000)).empty());
}

TEST_F(TakingOver, WithoutTheClaimNobodyDialsTheOthersLinks) {
  EXPECT_FALSE(Accepts(higher_, kSelf, {.other = kOther, .at = {}, .control = true, .missing = {}}));
  EXPECT_TRUE(Accepts(higher_, kSelf, {.other = kOther, .at = {}, .control = true, .all = true, .missing = {}}));
}

TEST_F(TakingOver, OfTwoWhoTakeOverAtOnceTheHigherWins) {
  (void)lower_.LaneUp(kOther, LaneId(0), {.lanes = 1}, At(1));
  ASSERT_EQ(lower_.TakeOver(At(4000)).size(), 1U);
  (void)higher_.ControlUp(kSelf, At(1));
  ASSERT_EQ(higher_.TakeOver(At(4000)).size(), 1U);
  const Dial all{.other = {}, .at = {}, .control = true, .all = true, .missing = {}};
  EXPECT_TRUE(Accepts(lower_, kOther, all));
  EXPECT_FALSE(Accepts(higher_, kSelf, all));
}

TEST_F(TakingOver, EndsSayAnewHowManyLanesTheyWant) {
  for (Mesh* mesh : {&lower_, &higher_}) {
    const PeerId other = mesh == &lower_ ? kOther : kSelf;
    for (std::uint32_t lane = 0; lane < 9; ++lane)
      (void)mesh->LaneUp(other, LaneId(lane), {.lanes = 9, .lanes_max = 128}, At(1));
  }
  (void)lower_.WantLanes(kOther, 20, Mesh::End::kThere);  // and it opens, and announces, them
  EXPECT_EQ(lower_.Yield(kOther), std::optional(0U)) << "it wants none itself";
  (void)higher_.ControlUp(kSelf, At(1));
  (void)higher_.WantLanes(kSelf, 30, Mesh::End::kThere);
  higher_.AllDown(kSelf, At(2));
  (void)higher_.ControlUp(kSelf, At(3));
  const auto taken = higher_.TakeOver(At(4000));
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].say, std::optional(30U));
}

TEST(Mesh, WhoCannotBeDialledDialsEverythingAtOnce) {
  Mesh hidden(kSelf), open(kOther);
  hidden.Want(kOther, {.address = "127.0.0.1:1", .daemon = "far", .reaches_us = false});
  open.Want(kSelf, {.address = "", .daemon = "hidden"});
  EXPECT_EQ(hidden.TakeDials(At(1)).size(), 2U);
  EXPECT_TRUE(open.TakeDials(At(1)).empty());
  for (const bool control : {true, false}) {
    const LinkTerms terms{.lanes = control ? 0U : 1U, .dialled_all = true};
    EXPECT_TRUE(open.Admit({.other = kSelf, .control = control, .lane = LaneId(0)}, terms, nullptr).ok());
  }
}

// Nobody here dials it, so no refusal can tell that it is gone.
TEST(Mesh, PairThatTheOtherEndDialsIsBrokenSoonWhenNothingOfItIsUp) {
  constexpr Duration kLimit = std::chrono::seconds(10);
  Mesh mesh(kOther);
  mesh.Want(kSelf, {.address = "", .daemon = "hidden"});
  (void)mesh.ControlUp(kSelf, At(1));
  (void)mesh.LaneUp(kSelf, LaneId(0), {.lanes = 1}, At(1));
  mesh.ControlDown(kSelf, At(1000));
  EXPECT_FALSE(mesh.BrokenFor(kSelf, At(9000), kLimit)) << "a lane is up";
  mesh.LaneDown(kSelf, LaneId(0), At(9000));
  EXPECT_FALSE(mesh.BrokenFor(kSelf, At(13'999), kLimit));
  EXPECT_TRUE(mesh.BrokenFor(kSelf, At(14'001), kLimit));
}

}  // namespace
}  // namespace ringway::links
