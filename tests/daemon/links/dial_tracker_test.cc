#include "daemon/links/dial_tracker.h"

#include <gtest/gtest.h>

namespace ringway::links {
namespace {

const PeerId kDialled(2);
const Status kRefused(Code::kJoinRefused, "no such peer");

Dial Lanes(std::uint64_t generation) {
  return {.other = kDialled, .at = {.address = "a", .daemon = {}}, .missing = {}, .generation = generation};
}
Dial Control() { return {.other = kDialled, .at = {.address = "a", .daemon = {}}, .control = true, .missing = {}}; }

TEST(DialTrackerTest, LinksAreTakenAsTheyStand) {
  DialTracker dials;
  const std::uint64_t serial = dials.Begin(Lanes(7), 11);
  EXPECT_EQ(dials.lanes(), 11U);
  const auto first = dials.OnAnswer(serial, {.links = 4, .last = false});
  EXPECT_TRUE(first.take);
  EXPECT_FALSE(first.report);
  EXPECT_EQ(first.generation, 7U);
  EXPECT_EQ(dials.lanes(), 7U);
  const auto last = dials.OnAnswer(serial, {.links = 7, .last = true});
  EXPECT_TRUE(last.take);
  EXPECT_FALSE(last.report);
  EXPECT_EQ(dials.lanes(), 0U);
  EXPECT_FALSE(dials.OnAnswer(serial, {.links = 1}).take) << "it is over";
}

TEST(DialTrackerTest, RefusalIsReportedAsItCame) {
  DialTracker dials;
  const auto verdict = dials.OnAnswer(dials.Begin(Control(), 1), {.failure = kRefused});
  EXPECT_TRUE(verdict.report);
  EXPECT_TRUE(verdict.control);
  EXPECT_EQ(verdict.why.code(), Code::kJoinRefused);
}

TEST(DialTrackerTest, RefusalOfOneLaneBesideOthersThatStandIsNoWordOfThePeersEnd) {
  DialTracker dials;
  const std::uint64_t serial = dials.Begin(Lanes(1), 2);
  (void)dials.OnAnswer(serial, {.links = 1, .last = false});
  const auto verdict = dials.OnAnswer(serial, {.failure = kRefused});
  EXPECT_TRUE(verdict.report);
  EXPECT_EQ(verdict.why.code(), Code::kPeerUnreachable);
  EXPECT_EQ(verdict.why.text(), kRefused.text());
}

TEST(DialTrackerTest, LinksOfAPairThatWasGivenUpAreUnwantedAndTheEndIsReported) {
  DialTracker dials;
  const std::uint64_t serial = dials.Begin(Lanes(1), 3);
  dials.Close(PeerId(9));
  EXPECT_EQ(dials.lanes(), 3U);
  dials.Close(kDialled);
  EXPECT_EQ(dials.lanes(), 3U) << "their sockets are open until the answer";
  const auto early = dials.OnAnswer(serial, {.links = 2, .last = false});
  EXPECT_FALSE(early.take || early.report);
  const auto last = dials.OnAnswer(serial, {.links = 1});
  EXPECT_FALSE(last.take);
  EXPECT_TRUE(last.report);
  EXPECT_EQ(last.why.code(), Code::kPeerUnreachable);
}

TEST(DialTrackerTest, ANewDialTakesThePlaceOfTheOneBefore) {
  DialTracker dials;
  const std::uint64_t before = dials.Begin(Lanes(1), 3);
  const std::uint64_t control = dials.Begin(Control(), 1);
  dials.Close(kDialled);
  const std::uint64_t now = dials.Begin(Lanes(2), 5);
  EXPECT_EQ(dials.lanes(), 5U) << "a lost answer leaves nothing behind";
  const auto late = dials.OnAnswer(before, {.links = 3});
  EXPECT_FALSE(late.take || late.report) << "the new one will say how it is";
  EXPECT_TRUE(dials.OnAnswer(control, {.failure = kRefused}).report);
  EXPECT_TRUE(dials.OnAnswer(now, {.links = 5}).take);
}

}  // namespace
}  // namespace ringway::links
