// The first rank decides when the quorum is there and the grace is over, and waits for nobody who cannot come in time.
#include "daemon/agreement/input_quorum.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace ringway::agreement {
namespace {

using std::chrono::milliseconds;

class InputQuorumTest : public testing::Test {
 protected:
  InputQuorumTest() {
    for (std::uint64_t id = 1; id <= 4; ++id) view_.members.emplace_back(id);
  }

  void Offer(std::uint64_t from, std::uint64_t seq, Quorum quorum = Quorum::Ranks(2), double weight = 1) {
    quorum_.Add(PeerId(from), NameOf(seq),
                {.descriptor = {.count = 10, .quorum = quorum.code}, .weight = weight, .grace = milliseconds(100)});
  }
  void Late(std::uint64_t from, std::uint64_t seq) { quorum_.OnLate(PeerId(from), NameOf(seq)); }
  // Returns the absent ranks of what is decided `ms` after the beginning.
  std::vector<std::uint64_t> DecidedAt(int ms) {
    std::vector<std::uint64_t> absent;
    for (const auto& decision : quorum_.Decide(view_, TimePoint() + milliseconds(ms)))
      absent.push_back(decision.inputs.absent);
    return absent;
  }
  static OpName NameOf(std::uint64_t seq) { return {ChannelId(0), seq}; }
  using Absent = std::vector<std::uint64_t>;

  View view_;
  InputQuorum quorum_;
};

TEST_F(InputQuorumTest, WaitsForTheQuorumThenForTheGrace) {
  Offer(1, 1);
  EXPECT_EQ(DecidedAt(1000), Absent());
  Offer(3, 1);
  EXPECT_EQ(DecidedAt(2000), Absent());
  EXPECT_EQ(DecidedAt(2099), Absent());
  EXPECT_EQ(DecidedAt(2100), Absent({0b1010}));
  EXPECT_EQ(DecidedAt(9000), Absent()) << "once";
}

TEST_F(InputQuorumTest, TakesWhatComesInTheGraceAndEndsItWhenAllAreIn) {
  for (const std::uint64_t from : {1, 2, 3}) Offer(from, 1);
  EXPECT_EQ(DecidedAt(0), Absent());
  Offer(4, 1);
  EXPECT_EQ(DecidedAt(1), Absent({0}));
}

TEST_F(InputQuorumTest, WhoMissedOneIsNotAwaitedBeforeItHasCaughtUp) {
  for (const std::uint64_t from : {1, 2, 3}) Offer(from, 1);
  (void)DecidedAt(0);
  EXPECT_EQ(DecidedAt(100), Absent({0b1000}));
  for (const std::uint64_t from : {1, 2, 3}) Offer(from, 2);
  EXPECT_EQ(DecidedAt(101), Absent({0b1000})) << "at once";
  Late(4, 1);
  for (const std::uint64_t from : {1, 2, 3}) Offer(from, 3);
  EXPECT_EQ(DecidedAt(102), Absent({0b1000})) << "it still lacks the second";
  Late(4, 2);
  Late(4, 3);
  for (const std::uint64_t from : {1, 2, 3}) Offer(from, 4);
  EXPECT_EQ(DecidedAt(103), Absent());
  Offer(4, 4);
  EXPECT_EQ(DecidedAt(104), Absent({0}));
}

TEST_F(InputQuorumTest, AnEarlierOneThatIsDecidedLaterDoesNotCountAsTheNewestMissed) {
  for (const std::uint64_t from : {1, 2, 3}) Offer(from, 2);
  (void)DecidedAt(0);
  EXPECT_EQ(DecidedAt(1000), Absent({0b1000}));
  for (const std::uint64_t from : {1, 2, 3}) Offer(from, 1);
  EXPECT_EQ(DecidedAt(1000), Absent({0b1000}));
  Late(4, 1);
  for (const std::uint64_t from : {1, 2, 3}) Offer(from, 3);
  EXPECT_EQ(DecidedAt(2000), Absent({0b1000})) << "it still lacks the second";
}

TEST_F(InputQuorumTest, ANewViewBeginsAnew) {
  for (const std::uint64_t from : {1, 2, 3}) Offer(from, 1);
  quorum_.OnView();
  EXPECT_EQ(DecidedAt(1000), Absent());
  view_.members.resize(2);
  Offer(1, 1, Quorum::Ranks(3));
  EXPECT_EQ(DecidedAt(1000), Absent());
  Offer(2, 1, Quorum::Ranks(3));
  EXPECT_EQ(DecidedAt(1000), Absent({0})) << "a quorum beyond the world is the world";
}

TEST_F(InputQuorumTest, SharesAreRoundedUp) {
  EXPECT_EQ(Quorum::Percent(50).Of(4), 2U);
  EXPECT_EQ(Quorum::Percent(51).Of(4), 3U);
  EXPECT_EQ(Quorum::Percent(1).Of(64), 1U);
  EXPECT_EQ(Quorum::Percent(100).Of(64), 64U);
  EXPECT_EQ(Quorum{}.Of(5), 5U);
}

TEST_F(InputQuorumTest, OffersThatDifferAreDecidedAtOnce) {
  Offer(1, 1, Quorum::Ranks(4));
  Offer(2, 1, Quorum::Ranks(3));
  EXPECT_EQ(DecidedAt(0), Absent({0b1100}));
}

TEST_F(InputQuorumTest, WeightsAreByRank) {
  for (const std::uint64_t from : {1, 4}) {
    quorum_.Add(PeerId(from), NameOf(1),
                {.descriptor = {.op = ReduceOp::kAvg, .quorum = 2, .weighted = true},
                 .weight = 0.5 * static_cast<double>(from)});
  }
  const auto decided = quorum_.Decide(view_, TimePoint());
  ASSERT_EQ(decided.size(), 1U);
  EXPECT_EQ(decided[0].inputs.weights, std::vector<double>({0.5, 0, 0, 2}));
  EXPECT_EQ(decided[0].inputs.Total(4), 2.5);
  EXPECT_EQ(decided[0].inputs.Count(4), 2U);
}

}  // namespace
}  // namespace ringway::agreement
