#include "master/leadership/election.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/sim/kv_model.h"

namespace ringway {
namespace {

record::Group GroupOf(const std::string& name, std::uint64_t epoch) {
  record::Group group;
  group.set_name(name);
  group.mutable_current()->set_epoch(epoch);
  group.add_members();
  return group;
}

// One election and a store that answers at once, unless the test takes the requests.
class ElectionTest : public testing::Test {
 protected:
  void Pass(Duration time) {
    for (const TimePoint end = now_ + time; now_ < end; now_ += std::chrono::milliseconds(50)) {
      election_.Tick(now_);
      Answer();
    }
  }
  // Carries out what is asked, and what that leads to.
  void Answer() {
    for (auto requests = election_.TakeRequests(); !requests.empty(); requests = election_.TakeRequests()) {
      for (const kv::Request& request : requests) election_.OnReply(store_.Carry(request, now_), now_);
    }
  }
  // The outcome of the last write; nothing if there is none.
  std::optional<Status> Outcome() {
    std::optional<Status> outcome;
    for (const Election::Event& event : election_.TakeEvents()) {
      if (const auto* written = std::get_if<Election::Written>(&event)) outcome = written->status;
    }
    return outcome;
  }
  void Put(const std::string& key, const std::string& value) {
    kv::Transact put;
    put.puts.push_back({key, value});
    (void)store_.Carry({.number = 1, .what = put}, now_);
  }

  TimePoint now_{std::chrono::seconds(1)};
  sim::KvModel store_;
  Election election_{{.address = "me:1", .seed = 7}};
};

TEST_F(ElectionTest, LeadsInTheFirstLookAndTakesTheNextTerm) {
  Put("state", "term 41");
  Pass(std::chrono::milliseconds(50));
  ASSERT_TRUE(election_.leads());
  const auto events = election_.TakeEvents();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(std::get<Election::Lead>(events[0]).tenure.term, 42U);
}

TEST_F(ElectionTest, StoreOfSomethingElseIsNotLedAndItsEntryIsNamed) {
  for (const auto& [key, value] : {std::pair("state", "term 4294967295"), std::pair("state", "x"),
                                   std::pair("groups/a", "\xff\xff"), std::pair("letters", "x")}) {
    Put(key, value);
    Pass(std::chrono::milliseconds(50));
    EXPECT_FALSE(election_.leads());
    EXPECT_NE(election_.status().text().find(key), std::string::npos) << election_.status().text();
    kv::Transact erase;
    erase.erase.emplace_back(key);
    (void)store_.Carry({.number = 1, .what = erase}, now_);
    now_ += std::chrono::seconds(3);
  }
  Pass(std::chrono::seconds(3));
  EXPECT_TRUE(election_.leads()) << "once it is put right";
}

TEST_F(ElectionTest, WriteWithoutAnAnswerFailsAndMayBeRepeatedThoughItHasArrived) {
  Pass(std::chrono::milliseconds(50));
  election_.Write({GroupOf("a", 1)}, now_);
  const auto first = election_.TakeRequests();
  (void)Outcome();
  Pass(std::chrono::seconds(1));
  now_ += std::chrono::milliseconds(50);
  election_.Tick(now_);
  const auto failed = Outcome();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code(), Code::kTimeout);
  kv::Reply late;
  for (const kv::Request& request : first) late = store_.Carry(request, now_);
  election_.OnReply(late, now_);
  EXPECT_FALSE(Outcome()) << "it is late";
  election_.Write({GroupOf("a", 2)}, now_);
  Answer();
  const auto repeated = Outcome();
  ASSERT_TRUE(repeated);
  EXPECT_TRUE(repeated->ok()) << repeated->text();
}

TEST_F(ElectionTest, WriteThatArrivesAfterALaterOneHasNoEffect) {
  Pass(std::chrono::milliseconds(50));
  election_.Write({GroupOf("a", 1)}, now_);
  const auto first = election_.TakeRequests();
  for (int i = 0; i < 21; ++i) {
    now_ += std::chrono::milliseconds(50);
    election_.Tick(now_);
    for (const kv::Request& request : election_.TakeRequests()) election_.OnReply(store_.Carry(request, now_), now_);
  }
  ASSERT_TRUE(Outcome());
  election_.Write({GroupOf("a", 2)}, now_);
  Answer();
  ASSERT_TRUE(Outcome()->ok());
  for (const kv::Request& request : first) EXPECT_FALSE(store_.Carry(request, now_).succeeded);
}

TEST_F(ElectionTest, ChangeThatTheStoreHasLostIsNoticed) {
  Pass(std::chrono::milliseconds(50));
  const sim::KvModel before = store_;
  election_.Write({GroupOf("a", 1)}, now_);
  Answer();
  ASSERT_TRUE(Outcome()->ok());
  store_ = before;
  election_.Write({GroupOf("a", 2)}, now_);
  Answer();
  const auto outcome = Outcome();
  ASSERT_TRUE(outcome);
  EXPECT_NE(outcome->text().find("has lost a change"), std::string::npos) << outcome->text();
}

TEST_F(ElectionTest, LeaseThatIsNotRenewedInTimeEndsTheTenure) {
  Pass(std::chrono::milliseconds(50));
  (void)election_.TakeEvents();
  now_ += std::chrono::seconds(2);
  election_.Tick(now_);
  EXPECT_FALSE(election_.leads());
  const auto events = election_.TakeEvents();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_FALSE(std::get<Election::Standby>(events[0]).why.ok());
}

TEST_F(ElectionTest, EachLeaseHasAnIdOfItsOwn) {
  std::set<kv::LeaseId> leases;
  for (std::size_t i = 1; i <= 4; ++i) {
    Pass(std::chrono::milliseconds(300));
    ASSERT_TRUE(election_.leads());
    leases.insert(election_.lease());
    EXPECT_EQ(leases.size(), i);
    election_.Resign();
    Answer();
  }
}

TEST_F(ElectionTest, TwoRenewalsWithoutAnAnswerDoNotEndTheTenure) {
  for (const std::int64_t lease_s : {1, 2, 4, 30}) {
    sim::KvModel store;
    Election election({.address = "me:1", .seed = 7, .lease_s = lease_s});
    int renewals = 0;
    for (const TimePoint end = now_ + std::chrono::seconds(3 * lease_s); now_ < end;
         now_ += std::chrono::milliseconds(50)) {
      election.Tick(now_);
      for (auto requests = election.TakeRequests(); !requests.empty(); requests = election.TakeRequests()) {
        for (const kv::Request& request : requests) {
          if (std::holds_alternative<kv::Renew>(request.what) && ++renewals <= 2) continue;
          election.OnReply(store.Carry(request, now_), now_);
        }
      }
    }
    EXPECT_GT(renewals, 2);
    const auto events = election.TakeEvents();
    ASSERT_EQ(events.size(), 1U) << "a lease of " << lease_s << " s";
    EXPECT_TRUE(std::holds_alternative<Election::Lead>(events[0]));
  }
}

}  // namespace
}  // namespace ringway
