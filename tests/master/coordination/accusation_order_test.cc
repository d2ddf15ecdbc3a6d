// Accusations that belong to one fault and arrive one after the other, in every order.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway {
namespace {

class AccusationOrderTest : public CoordinatorTest {
 protected:
  using Word = std::pair<std::uint64_t, std::uint64_t>;  // accuser, accused

  void FormAfresh(std::uint64_t world) {
    coordinator_.emplace(CoordinatorOptions{});
    inbox_.clear();
    said_hello_.clear();
    closed_.clear();
    Form(world);
  }

  // All words between one member and the others.
  static std::vector<Word> WordsAbout(std::uint64_t alone, std::uint64_t world) {
    std::vector<Word> words;
    for (std::uint64_t other = 1; other <= world; ++other) {
      if (other == alone) continue;
      words.emplace_back(alone, other);
      words.emplace_back(other, alone);
    }
    std::sort(words.begin(), words.end());
    return words;
  }

  control::ToMaster ReportOf(std::uint64_t from, std::uint64_t stop, const std::vector<Word>& said) {
    control::ToMaster message = Report(from, stop);
    for (const auto& [accuser, accused] : said) {
      if (accuser == from) message.mutable_report()->add_lost(peers_[accused]);
    }
    return message;
  }

  // The words arrive `apart` from each other; after the first, all have answered the ABORT.
  void Run(std::uint64_t world, const std::vector<Word>& words, Duration apart) {
    FormAfresh(world);
    const std::uint64_t stop = ViewOf(1).epoch();
    std::vector<Word> said;
    for (const Word& word : words) {
      said.push_back(word);
      Say(word.first, ReportOf(word.first, stop, said));
      for (std::uint64_t member = 1; member <= world && said.size() == 1; ++member) {
        Say(member, ReportOf(member, stop, said));
      }
      Advance(apart);
    }
    Advance(kWeigh);
  }

  bool IsEvicted(std::uint64_t member) { return Has(member, &control::FromMaster::has_evicted); }
};

TEST_F(AccusationOrderTest, MemberThatLosesAllLinksGoesAloneInEveryOrder) {
  for (const std::uint64_t world : {3, 4}) {
    for (const std::uint64_t alone : {std::uint64_t{1}, world}) {  // ids break ties
      std::vector<Word> words = WordsAbout(alone, world);
      do {
        Run(world, words, kWeigh / 2);
        for (std::uint64_t member = 1; member <= world; ++member) {
          ASSERT_EQ(IsEvicted(member), member == alone) << "of " << world << ", " << alone << " is at fault";
        }
        ASSERT_EQ(ViewOf(alone == 1 ? 2 : 1).members_size(), static_cast<int>(world) - 1);
      } while (std::next_permutation(words.begin(), words.end()));
    }
  }
}

TEST_F(AccusationOrderTest, OneWordIsWaitedForOnlyAWhile) {
  FormAfresh(3);
  const std::uint64_t stop = ViewOf(1).epoch();
  Say(1, Report(1, stop, {2}));
  for (const std::uint64_t member : {2, 3}) Say(member, Report(member, stop));
  Advance(kWeigh - std::chrono::milliseconds(1));
  EXPECT_EQ(ViewOf(1).epoch(), stop);
  Advance(std::chrono::milliseconds(1));
  EXPECT_TRUE(IsEvicted(2));
  EXPECT_EQ(ViewOf(1).members_size(), 2);
}

TEST_F(AccusationOrderTest, MemberThatSuspectsAllItHasNotLostGoesAtOnce) {
  FormAfresh(3);
  const std::uint64_t stop = ViewOf(1).epoch();
  control::ToMaster first = Report(1, stop, {2});
  first.mutable_report()->add_suspected(peers_[3]);
  Say(1, first);
  for (const std::uint64_t member : {2, 3}) Say(member, Report(member, stop));
  EXPECT_TRUE(IsEvicted(1));
  EXPECT_EQ(ViewOf(2).members_size(), 2);
}

TEST_F(AccusationOrderTest, SuspicionAloneDropsNobody) {
  FormAfresh(3);
  const std::uint64_t stop = ViewOf(1).epoch();
  for (const std::uint64_t member : {1, 2, 3}) {
    control::ToMaster report = Report(member, stop);
    for (const std::uint64_t other : {1, 2, 3}) report.mutable_report()->add_suspected(peers_[other]);
    Say(member, report);
  }
  EXPECT_EQ(ViewOf(1).members_size(), 3);
  EXPECT_GT(ViewOf(1).epoch(), stop);
}

// A process that ends is lost by all at once, and its host closes its connection: nothing is left to wait for.
TEST_F(AccusationOrderTest, DeadMemberIsWaitedForNoLongerThanForTheReportsOfTheOthers) {
  FormAfresh(3);
  const std::uint64_t stop = ViewOf(1).epoch();
  coordinator_->OnDisconnect(3, Contact::kClosed, now_);
  Say(1, Report(1, stop, {3}));
  Say(2, Report(2, stop));
  EXPECT_EQ(ViewOf(1).members_size(), 2);
}

TEST_F(AccusationOrderTest, TwoOfThreeThatDieTogetherAreDroppedAtOnce) {
  FormAfresh(3);
  const std::uint64_t stop = ViewOf(1).epoch();
  for (const std::uint64_t dead : {2, 3}) coordinator_->OnDisconnect(dead, Contact::kClosed, now_);
  Say(1, Report(1, stop, {2}));
  Say(1, Report(1, stop, {2, 3}));
  EXPECT_EQ(ViewOf(1).members_size(), 1);
}

TEST_F(AccusationOrderTest, AccusedThatIsBackAsTheSameProcessIsHeardBeforeItIsJudged) {
  FormAfresh(3);
  const std::uint64_t stop = ViewOf(1).epoch();
  coordinator_->OnDisconnect(3, Contact::kSilent, now_);
  Say(1, Report(1, stop, {3}));
  Hello(30, "d3", 3);
  peers_[30] = peers_[3];
  Say(2, Report(2, stop));
  EXPECT_EQ(ViewOf(1).epoch(), stop) << "it has yet to report";
  control::ToMaster back = Report(30, stop);
  back.mutable_report()->add_suspected(peers_[1]);
  Say(30, back);
  control::ToMaster second = Report(2, stop);
  second.mutable_report()->add_suspected(peers_[1]);
  Say(2, second);
  Advance(kWeigh);
  EXPECT_TRUE(IsEvicted(1)) << "both others have lost it, or are about to";
  EXPECT_FALSE(IsEvicted(30));
}

TEST_F(AccusationOrderTest, AccusedThatIsBackAsAnotherProcessIsDropped) {
  FormAfresh(3);
  const std::uint64_t stop = ViewOf(1).epoch();
  Say(1, Report(1, stop, {3}));
  coordinator_->OnDisconnect(3, Contact::kSilent, now_);
  Hello(30, "d3", 333);
  Say(2, Report(2, stop));
  EXPECT_EQ(ViewOf(1).members_size(), 2);
}

// 3 is cut off from all, and 2 from 1: with 3 gone its words about 2 do not count.
TEST_F(AccusationOrderTest, AccusationsByTheAccusedCountUntilItIsDropped) {
  FormAfresh(4);
  const std::uint64_t stop = ViewOf(1).epoch();
  Say(3, Report(3, stop, {1, 2, 4}));
  Say(1, Report(1, stop, {3}));
  Say(2, Report(2, stop, {3}));
  Say(4, Report(4, stop));
  EXPECT_TRUE(IsEvicted(3));
  EXPECT_EQ(ViewOf(1).members_size(), 3);
}

}  // namespace
}  // namespace ringway
