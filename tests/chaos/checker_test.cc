#include "tests/chaos/checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringway::chaos {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Record Join(std::uint64_t peer) {
  Record record;
  record.peer = peer;
  return record;
}

Record Success(std::uint64_t peer, std::uint64_t step) {
  Record record;
  record.kind = RecordKind::kOp;
  record.time_ms = step * 10 + peer;
  record.peer = peer;
  record.name = {.life = 100, .step = step, .index = 1};
  record.epoch = 101;
  record.hash = 0xFFFFFFFFFFFFFFFF;
  record.contributors = {1, 2};
  return record;
}

Record Failure(std::uint64_t peer, std::uint64_t step, Code code) {
  Record record = Success(peer, step);
  record.code = code;
  record.contributors.clear();
  return record;
}

Record End(std::uint64_t peer) {
  Record record = Join(peer);
  record.kind = RecordKind::kEnd;
  record.code = Code::kEvicted;
  return record;
}

std::vector<std::string> ViolationsOf(const std::vector<Record>& records) {
  Checker checker;
  for (const std::uint64_t peer : {1, 2}) checker.Add(Join(peer));
  for (const Record& record : records) checker.Add(record);
  checker.Finish();
  EXPECT_EQ(checker.violations().size(), checker.violation_count());
  return checker.violations();
}

// A success without the input of peer 2.
Record WithoutTwo(std::uint64_t peer, std::uint64_t step) {
  Record record = Success(peer, step);
  record.contributors = {1};
  record.absent = {2};
  return record;
}

TEST(ChaosRecord, SurvivesItsLine) {
  for (Record record : {Join(7), Success(3, 9), WithoutTwo(2, 9), Failure(4, 9, Code::kDeadline)}) {
    record.wrong = 5;
    record.retries = 2;
    record.intact = false;
    std::string line = Format(record);
    ASSERT_EQ(line.back(), '\n');
    line.pop_back();
    const auto parsed = Parse(line);
    ASSERT_TRUE(parsed.has_value()) << line;
    EXPECT_EQ(Format(*parsed), line + "\n");
  }
}

TEST(ChaosRecord, PartOfALineIsNone) {
  const std::string line = Format(Success(3, 9));
  for (std::size_t i = 0; i < line.find("without="); ++i) EXPECT_FALSE(Parse(line.substr(0, i))) << line.substr(0, i);
}

TEST(ChaosChecker, EqualOutcomesKeepThePromise) {
  EXPECT_THAT(
      ViolationsOf({Success(1, 1), Success(2, 1), Failure(2, 2, Code::kDeadline), Failure(1, 2, Code::kDeadline)}),
      IsEmpty());
}

TEST(ChaosChecker, CountsWhatIsRecorded) {
  Checker checker;
  for (const std::uint64_t peer : {1, 2}) checker.Add(Join(peer));
  for (const Record& record : {Success(1, 1), Success(2, 1), Failure(1, 50, Code::kDeadline)}) checker.Add(record);
  checker.Add(End(1));
  checker.Finish();
  EXPECT_EQ(checker.tally().operations, 2U);
  EXPECT_EQ(checker.tally().succeeded, 1U);
  EXPECT_EQ(checker.tally().outcomes, 3U);
  EXPECT_EQ(checker.tally().memberships, 2U);
  EXPECT_EQ(checker.tally().lives, 1U);
  EXPECT_EQ(checker.tally().longest_gap_ms, 489U);
  EXPECT_EQ(checker.tally().codes.at(Code::kEvicted), 1U);
}

TEST(ChaosChecker, FindsEachBreach) {
  Record other = Success(2, 1);
  other.hash = 1;
  EXPECT_THAT(ViolationsOf({Success(1, 1), other}), ElementsAre(HasSubstr("other bytes")));
  other = Success(2, 1);
  other.epoch = 102;
  EXPECT_THAT(ViolationsOf({Success(1, 1), other}), ElementsAre(HasSubstr("another epoch")));
  other = Success(2, 1);
  other.contributors = {2};
  EXPECT_THAT(ViolationsOf({Success(1, 1), other}), ElementsAre(HasSubstr("other contributors")));
  EXPECT_THAT(ViolationsOf({Success(1, 1), Failure(2, 1, Code::kCancelled)}),
              ElementsAre(HasSubstr("another outcome")));
  EXPECT_THAT(ViolationsOf({Failure(1, 1, Code::kDeadline), Failure(2, 1, Code::kCancelled)}),
              ElementsAre(HasSubstr("another outcome")));
  other = Success(2, 1);
  other.wrong = 3;
  EXPECT_THAT(ViolationsOf({other}), ElementsAre(HasSubstr("3 wrong elements")));
  other = Failure(2, 1, Code::kDeadline);
  other.intact = false;
  EXPECT_THAT(ViolationsOf({other}), ElementsAre(HasSubstr("the input was written to")));
  other = Success(2, 1);
  other.contributors = {1, 1, 2};
  EXPECT_THAT(ViolationsOf({other}), ElementsAre(HasSubstr("twice")));
  other.contributors = {1};
  EXPECT_THAT(ViolationsOf({other}), ElementsAre(HasSubstr("its own input")));
  EXPECT_THAT(ViolationsOf({Join(2)}), ElementsAre(HasSubstr("given twice")));
  other = Success(2, 2);
  other.epoch = 100;
  EXPECT_THAT(ViolationsOf({Success(2, 1), other}), ElementsAre(HasSubstr("older")));
}

TEST(ChaosChecker, LateRanksAreMembersWithoutAnInput) {
  EXPECT_THAT(ViolationsOf({WithoutTwo(1, 1), WithoutTwo(2, 1)}), IsEmpty());
  EXPECT_THAT(ViolationsOf({WithoutTwo(1, 1), Success(2, 1)}), ElementsAre(HasSubstr("other contributors")));
  Record few = WithoutTwo(1, 1);
  few.absent = {2, 3};
  EXPECT_THAT(ViolationsOf({few}), ElementsAre(HasSubstr("more than half")));
  Record both = WithoutTwo(2, 1);
  both.contributors = {1, 2};
  EXPECT_THAT(ViolationsOf({both}), testing::Contains(HasSubstr("twice")));
  Checker checker;
  for (const std::uint64_t peer : {1, 2}) checker.Add(Join(peer));
  for (const std::uint64_t peer : {1, 2}) checker.Add(WithoutTwo(peer, 1));
  EXPECT_EQ(checker.tally().late, 1U);
  EXPECT_EQ(checker.tally().worlds.at(2), 2U);
}

// Success in epoch 101 was reported to peer 2, which left; peer 1 did the operation in epoch 102, alone.
TEST(ChaosChecker, SmallSuccessOfAPeerThatDidNotStayIsExcused) {
  Record alone = Success(1, 1);
  alone.epoch = 102;
  alone.contributors = {1};
  Record gone = Success(2, 1);
  gone.bytes = kSmallBytesMax;
  EXPECT_THAT(ViolationsOf({gone, alone, End(2)}), IsEmpty());
  EXPECT_THAT(ViolationsOf({alone, gone, End(2)}), IsEmpty());
  EXPECT_THAT(ViolationsOf({gone, Failure(1, 1, Code::kDeadline), End(2)}), IsEmpty());
  EXPECT_THAT(ViolationsOf({gone, alone}), ElementsAre(HasSubstr("another epoch"))) << "it stayed";
  gone.bytes = kSmallBytesMax + 1;
  EXPECT_THAT(ViolationsOf({gone, alone, End(2)}), ElementsAre(HasSubstr("another epoch"))) << "large";
  gone.bytes = 0;
  alone.contributors = {1, 2};
  EXPECT_THAT(ViolationsOf({gone, alone, End(2)}), ElementsAre(HasSubstr("another epoch"))) << "done with it";
  alone.epoch = 100;
  alone.contributors = {1};
  EXPECT_THAT(ViolationsOf({gone, alone, End(2)}), ElementsAre(HasSubstr("another epoch"))) << "done before";
}

// Peer 2 asked for a cancellation, which was agreed in a view that nobody else installed.
TEST(ChaosChecker, FailureOfAPeerThatDidNotStayIsExcused) {
  Record alone = Success(1, 1);
  alone.contributors = {1};
  EXPECT_THAT(ViolationsOf({Failure(2, 1, Code::kCancelled), alone, End(2)}), IsEmpty());
  EXPECT_THAT(ViolationsOf({Failure(2, 1, Code::kCancelled), alone}), ElementsAre(HasSubstr("another outcome")));
  EXPECT_THAT(ViolationsOf({Failure(2, 1, Code::kCancelled), Success(1, 1), End(2)}),
              ElementsAre(HasSubstr("another outcome")))
      << "done with it";
}

TEST(ChaosChecker, OnlyStepsAreInOrderOfEpochs) {
  Record earlier = Success(2, 1);
  earlier.epoch = 102;
  Record later = Success(2, 1);
  later.name.index = 2;
  EXPECT_THAT(ViolationsOf({earlier, later}), IsEmpty()) << "two channels of one step";
  later.name.step = 2;
  EXPECT_THAT(ViolationsOf({earlier, later}), ElementsAre(HasSubstr("older")));
}

TEST(ChaosChecker, TwoGroupsAtOnceAreFoundOneAfterTheOtherIsNot) {
  Record later = Success(2, 1);
  later.name.life = 101;
  EXPECT_THAT(ViolationsOf({Success(1, 1), later}), ElementsAre(HasSubstr("two groups")));
  later.name.life = later.epoch = 102;
  EXPECT_THAT(ViolationsOf({Success(1, 1), later}), IsEmpty());
}

}  // namespace
}  // namespace ringway::chaos
