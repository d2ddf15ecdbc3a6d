// Coming and going: newcomers, names, those whom nobody can reach, those who come back.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <future>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/behind_relay.h"
#include "tests/e2e/checks.h"
#include "tests/e2e/closed_port.h"
#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

using Joining = std::future<Result<std::unique_ptr<Session>>>;

Joining JoinInBackground(const JoinOptions& options) {
  return std::async(std::launch::async, [options] { return Session::Join(options); });
}

bool UpdateWaits(const OpResult& last) { return last.update_waits; }

void ExpectWorld(const Sessions& ranks, std::uint32_t world) {
  Round round(ranks, {.reduction = {}, .count = 5000, .number = 5});
  round.Submit();
  const OpResult result = round.Check();
  EXPECT_EQ(result.world_size, world);
  EXPECT_EQ(result.retries, 0u);
}

// All know who is in, in rank order.
void ExpectMembers(const Sessions& ranks) {
  for (const auto& session : ranks) {
    const auto members = session->Members();
    ASSERT_TRUE(members.ok()) << members.status().text();
    ASSERT_EQ(members->size(), ranks.size());
    EXPECT_EQ((*members)[session->rank()].peer_id, session->peer_id());
    for (const Member& member : *members) EXPECT_FALSE(member.name.empty());
  }
}

// One more joins the lone member of `ranks`.
void AdmitSecond(Sessions* ranks, const JoinOptions& options) {
  Joining joining = JoinInBackground(options);
  (void)RoundsUntil(*ranks, UpdateWaits);
  EXPECT_EQ(UpdateAll(*ranks).world_size, 2u);
  auto joined = joining.get();
  ASSERT_TRUE(joined.ok()) << joined.status().text();
  ranks->push_back(std::move(*joined));
  ExpectWorld(*ranks, 2);
}

TEST(Membership, TrainerWithNothingInFlightSeesWhoIsLost) {
  Cluster cluster({.daemons = 3});
  Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  ranks[2]->Abort();
  const auto knows = [&](const Session& rank) {
    const auto members = rank.Members();
    return members.ok() && members->size() == 2;
  };
  EXPECT_TRUE(Eventually([&] { return knows(*ranks[0]) && knows(*ranks[1]); }));
}

// The daemon finishes what it had begun with the inputs as they were, and writes nothing of it to the trainer any more.
TEST(Membership, MemoryIsTheTrainersAgainAfterAnAbort) {
  constexpr std::size_t kCount = 1 << 20;
  Cluster cluster({.daemons = 2});
  Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2u);
  auto input = ranks[0]->Allocate(kCount * sizeof(float));
  auto output = ranks[0]->Allocate(kCount * sizeof(float));
  ASSERT_TRUE(input.ok() && output.ok());
  const std::span<float> in(input->as<float>(), kCount);
  const std::span<float> out(output->as<float>(), kCount);
  std::fill(in.begin(), in.end(), 1.0F);
  auto work = ranks[0]->AllReduceAsync(in.data(), out.data(), kCount, DType::kF32, ReduceOp::kSum);
  ASSERT_TRUE(work.ok()) << work.status().text();
  ranks[0]->Abort();
  EXPECT_EQ(work->Wait().status().code(), Code::kLeft);
  std::fill(in.begin(), in.end(), 1000.0F);
  std::fill(out.begin(), out.end(), 7.0F);
  std::vector<float> other(kCount, 2.0F);
  const auto result = ranks[1]->AllReduce(other.data(), other.data(), kCount, DType::kF32, ReduceOp::kSum);
  ASSERT_TRUE(result.ok()) << result.status().text();
  ASSERT_EQ(result->world_size, 2u) << "the daemon had it before the leave";
  EXPECT_EQ(std::count(other.begin(), other.end(), 3.0F), kCount);
  EXPECT_EQ(std::count(out.begin(), out.end(), 7.0F), kCount);
}

TEST(Membership, SubmissionsToAStoppedDaemonEndWithTheirTimeout) {
  Cluster cluster({.daemons = 1});
  Sessions ranks = cluster.JoinWorld(1);
  ASSERT_EQ(ranks.size(), 1u);
  std::vector<std::uint8_t> values(256, 1);
  std::vector<Work> works;
  cluster.daemon(0).Freeze();
  Status refused;
  while (refused.ok() && works.size() < values.size()) {
    std::uint8_t* value = &values[works.size()];
    auto work =
        ranks[0]->AllReduceAsync(value, value, 1, DType::kU8, ReduceOp::kSum, {.submit_timeout = Milliseconds(1)});
    refused = work.status();
    if (work.ok()) works.push_back(std::move(*work));
  }
  EXPECT_EQ(refused.code(), Code::kTimeout) << refused.text();
  cluster.daemon(0).Signal(SIGCONT);
  for (Work& work : works) EXPECT_TRUE(work.Wait().ok());
}

TEST(Membership, NewcomerIsAdmittedWhenAllUpdateTheirView) {
  Cluster cluster({.daemons = 3});
  Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2u);
  ExpectWorld(ranks, 2);
  ExpectMembers(ranks);
  Joining joining = JoinInBackground(cluster.At(2, "job", 1));
  const OpResult before = RoundsUntil(ranks, UpdateWaits);
  EXPECT_EQ(before.world_size, 2u) << "not before UpdateView";
  EXPECT_EQ(before.retries, 0u);
  const OpResult update = UpdateAll(ranks);
  EXPECT_EQ(update.world_size, 3u);
  EXPECT_GT(update.epoch, before.epoch);
  auto joined = joining.get();
  ASSERT_TRUE(joined.ok()) << joined.status().text();
  ranks.push_back(std::move(*joined));
  EXPECT_EQ(ranks[2]->epoch(), update.epoch);
  EXPECT_EQ(ranks[2]->world_size(), 3u);
  ExpectMembers(ranks);
  ExpectWorld(ranks, 3);
}

TEST(Membership, SeveralNewcomersComeWhileOperationsRun) {
  Cluster cluster({.daemons = 2});
  Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2u);
  std::vector<Joining> joinings;
  for (int i = 0; i < 4; ++i) {
    JoinOptions options = cluster.At(static_cast<std::size_t>(i % 2), "job", 1);
    options.name = "newcomer" + std::to_string(i);
    joinings.push_back(JoinInBackground(options));
  }
  while (ranks.size() < 6 && !HasFailure()) {
    (void)RoundsUntil(ranks, UpdateWaits);
    const OpResult update = UpdateAll(ranks);
    EXPECT_GT(update.world_size, ranks.size());
    // Those who are in now: as many as the view has grown by.
    EXPECT_TRUE(Eventually([&] {
      for (Joining& joining : joinings) {
        if (!joining.valid() || joining.wait_for(Milliseconds(0)) != std::future_status::ready) continue;
        auto joined = joining.get();
        if (joined.ok()) ranks.push_back(std::move(*joined));
        EXPECT_TRUE(joined.ok()) << joined.status().text();
      }
      return ranks.size() >= update.world_size;
    }));
  }
  ExpectWorld(ranks, 6);
}

TEST(Membership, UpdateWithoutNewcomersKeepsTheView) {
  Cluster cluster({.daemons = 2});
  const Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2u);
  const std::uint64_t epoch = ranks[0]->epoch();
  const OpResult update = UpdateAll(ranks);
  EXPECT_EQ(update.epoch, epoch);
  EXPECT_EQ(update.world_size, 2u);
  ExpectWorld(ranks, 2);
}

TEST(Membership, JoinWaitsForItsWorldAndSaysForWhat) {
  Cluster cluster({.daemons = 3});
  JoinOptions impatient = cluster.At(0, "job", 3);
  impatient.timeout = Milliseconds(300);
  ExpectJoinFails(impatient, Code::kTimeout, "1 of 3 peers are here");
  // The one that gave up is not counted any more.
  EXPECT_TRUE(Eventually([&] { return cluster.MasterStatus()["groups"].empty(); }));
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  for (const auto& session : ranks) EXPECT_EQ(session->world_size(), 3u);
  ExpectWorld(ranks, 3);
}

TEST(Membership, FirstJoinerWithADeadAddressHoldsNobodyUpAndLearnsWhy) {
  Cluster cluster({.daemons = 0});
  const std::unique_ptr<Relay> relays[] = {AddDaemonBehindRelay(cluster), AddDaemonBehindRelay(cluster),
                                           AddDaemonBehindRelay(cluster)};
  for (const std::uint64_t id : {1, 5}) {  // it joins first, and last
    for (const auto& relay : relays) relay->BlackHole({.from = id});
  }
  const ClosedPort closed;
  const std::size_t dead = cluster.AddDaemon({"--advertise", closed.address()});
  Joining first = JoinInBackground(cluster.At(dead, "job", 3));
  ASSERT_TRUE(Eventually([&] {
    const auto groups = cluster.MasterStatus()["groups"];
    return groups.size() == 1 && groups[0]["peers"].size() == 1;
  }));
  const Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  ExpectWorld(ranks, 3);
  std::string why;
  EXPECT_TRUE(Eventually([&] {
    const nlohmann::json status = cluster.MasterStatus();
    for (const auto& peer : status["groups"][0]["peers"]) {
      if (peer["state"] == "pending") why = peer["why"];
    }
    return why.find("goes on without") != std::string::npos;
  })) << why;
  EXPECT_NE(why.find("cannot reach"), std::string::npos) << why;
  EXPECT_NE(why.find(closed.address()), std::string::npos) << why;
  ExpectWorld(ranks, 3);
  JoinOptions hasty = cluster.At(dead, "job", 3);
  hasty.timeout = std::chrono::seconds(5);
  EXPECT_EQ(Session::Join(hasty).status().code(), Code::kPeerUnreachable) << "the cause, not that time is over";
  cluster.daemon(dead).Kill();
  EXPECT_FALSE(first.get().ok());
}

// The others know no address of a daemon behind NAT. Its own trainers find each other, too.
TEST(Membership, DaemonThatNobodyCanDialIsAMemberLikeTheOthers) {
  Cluster cluster({.daemons = 2});
  const std::size_t hidden = cluster.AddDaemon({"--advertise", "none"});
  std::vector<JoinOptions> places;
  for (const std::size_t daemon : {std::size_t{0}, std::size_t{1}, hidden, hidden})
    places.push_back(cluster.At(daemon, "job", 4));
  Sessions ranks = cluster.JoinAll(places);
  ASSERT_EQ(ranks.size(), 4u);
  ExpectWorld(ranks, 4);
  cluster.daemon(hidden).Kill();
  ranks.resize(2);
  Round round(ranks, {.reduction = {}, .count = 5000, .number = 6});
  round.Submit();
  EXPECT_EQ(round.Check().world_size, 2u);
  const auto counted = [&](const char* what) {
    std::uint64_t sum = 0;
    for (const std::size_t daemon : {0, 1}) {
      const nlohmann::json status = cluster.DaemonStatus(daemon);
      for (const std::uint64_t count : status["groups"][0]["durations"][what]["counts"]) sum += count;
    }
    return sum;
  };
  EXPECT_EQ(counted("operation"), 4u);
  EXPECT_GE(counted("detection"), 2u) << "both peers, by one of the survivors or each";
  EXPECT_EQ(counted("recovery"), 2u);
}

// Lanes take half of 256 descriptors, or three quarters: the group that they do not suffice for waits, those before it
// notice nothing.
TEST(Membership, LanesLeaveDescriptorsToTrainers) {
  constexpr std::size_t kGroupsMax = 14;
  Cluster cluster({.daemons = 0});
  for (int i = 0; i < 2; ++i) {
    cluster.AddDaemonAt({"127.0.0.1", {"/usr/bin/prlimit", "--nofile=256:256"}}, {"--lanes", "16"});
  }
  std::vector<Sessions> groups;
  while (groups.size() < kGroupsMax) {
    JoinOptions options = cluster.At(0, "job" + std::to_string(groups.size()), 2);
    options.timeout = std::chrono::seconds(groups.size() < 8 ? 60 : 2);
    Joining other = JoinInBackground(options);
    options.socket_path = cluster.socket(1);
    auto one = Session::Join(options);
    auto two = other.get();
    if (!one.ok() || !two.ok()) break;
    groups.emplace_back().push_back(std::move(*one));
    groups.back().push_back(std::move(*two));
  }
  EXPECT_GE(groups.size(), 8U);
  EXPECT_LT(groups.size(), kGroupsMax) << "lanes took all descriptors";
  std::vector<Buffer> buffers;
  for (const Sessions& group : groups) {
    auto buffer = group[0]->Allocate(1000);
    ASSERT_TRUE(buffer.ok()) << buffer.status().text();
    buffers.push_back(std::move(*buffer));
    ExpectWorks(group);
  }
}

TEST(Membership, DuplicateNameIsRefused) {
  Cluster cluster({.daemons = 2});
  JoinOptions options = cluster.At(0, "job", 1);
  options.name = "twin";
  const Sessions ranks = cluster.JoinAll({options});
  ASSERT_EQ(ranks.size(), 1u);
  options.socket_path = cluster.socket(1);
  const auto second = Session::Join(options);
  EXPECT_EQ(second.status().code(), Code::kJoinRefused);
  EXPECT_NE(second.status().text().find("twin"), std::string::npos) << second.status().text();
  ExpectWorld(ranks, 1);
}

// The daemon makes up names; two trainers of one process are two peers.
TEST(Membership, TrainersWithoutNamesInOneProcessAreBothLetIn) {
  Cluster cluster({.daemons = 1});
  const Sessions ranks = cluster.JoinAll({cluster.At(0, "job", 2), cluster.At(0, "job", 2)});
  ASSERT_EQ(ranks.size(), 2u);
  ExpectWorld(ranks, 2);
}

TEST(Membership, TrainerComesBackAtOnceWithoutWaitingForItsLastLeave) {
  Cluster cluster({.daemons = 2});
  Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2u);
  for (int i = 0; i < 3; ++i) {
    ranks.pop_back();  // leaves without waiting
    ASSERT_NO_FATAL_FAILURE(AdmitSecond(&ranks, cluster.At(1, "job", 1)));
  }
}

TEST(Membership, DifferentLossPolicyIsRefused) {
  Cluster cluster({.daemons = 2});
  const Sessions ranks = cluster.JoinWorld(1);
  ASSERT_EQ(ranks.size(), 1u);
  JoinOptions options = cluster.At(1, "job", 1);
  options.fail_on_peer_loss = true;
  const auto second = Session::Join(options);
  EXPECT_EQ(second.status().code(), Code::kJoinRefused);
  EXPECT_NE(second.status().text().find("fail_on_peer_loss"), std::string::npos) << second.status().text();
}

TEST(Membership, LeaverIsMissedByNobody) {
  Cluster cluster({.daemons = 3});
  Sessions ranks = cluster.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  Round last(ranks, {.reduction = {}, .count = 1'000'000});
  last.Submit();
  EXPECT_TRUE(ranks[1]->Leave(kPatience).ok());
  EXPECT_EQ(last.Wait(1).status().code(), Code::kOk) << "what was submitted is finished";
  EXPECT_EQ(last.Check().world_size, 3u);
  EXPECT_EQ(ranks[1]->UpdateView().status().code(), Code::kLeft);
  ranks.erase(ranks.begin() + 1);
  ExpectWorld(ranks, 2);
}

TEST(Membership, TrainerOfALostDaemonComesBackThroughANewOne) {
  Cluster cluster({.daemons = 2});
  Sessions ranks = cluster.JoinWorld(2);
  ASSERT_EQ(ranks.size(), 2u);
  cluster.daemon(1).Kill();
  EXPECT_EQ(ranks[1]->AllReduceAsync(nullptr, nullptr, 0, DType::kF32, ReduceOp::kSum).ok(), false);
  ranks.pop_back();
  (void)RoundsUntil(ranks, [](const OpResult& last) { return last.world_size == 1; });
  const std::size_t again = cluster.AddDaemon();
  ASSERT_NO_FATAL_FAILURE(AdmitSecond(&ranks, cluster.At(again, "job", 1)));
}

}  // namespace
}  // namespace ringway::e2e
