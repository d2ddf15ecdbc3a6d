// States that travel before their newcomer is admitted: nobody waits for them, whoever dies meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <future>
#include <ringway/shared_state.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/pupil.h"

namespace ringway::e2e {
namespace {

constexpr char kStateMark[] = "#state-";

using Pupils = std::vector<std::unique_ptr<Pupil>>;

class StateBeforeAdmissionTest : public testing::Test {
 protected:
  // `count` members that have the same state; rank by rank on the first two daemons.
  void Begin(std::size_t count, const Pupil::Options& options = {.seed = 7}) {
    std::vector<std::future<Status>> joins;
    for (std::size_t i = 0; i < count; ++i) members_.push_back(std::make_unique<Pupil>(options));
    for (std::size_t i = 0; i < count; ++i) {
      joins.push_back(std::async(std::launch::async, [this, i, count] {
        return members_[i]->Join(cluster_.At(i % 2, "job", static_cast<std::uint32_t>(count)));
      }));
    }
    for (auto& join : joins) {
      const Status error = join.get();
      ASSERT_TRUE(error.ok()) << error.text();
    }
  }

  // Returns whether a view was adopted, by all or by none.
  bool StepAll() {
    std::vector<std::future<bool>> steps;
    for (const auto& member : members_) {
      steps.push_back(std::async(std::launch::async, [&member] { return member->Step(); }));
    }
    std::vector<bool> admitted;
    for (auto& step : steps) admitted.push_back(step.get());
    for (const bool one : admitted) EXPECT_EQ(one, admitted[0]);
    return admitted[0];
  }

  struct Newcomer {
    std::unique_ptr<Pupil> pupil;
    std::future<Status> joined;

    bool IsOver() const { return joined.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  };
  Newcomer BeginJoin(std::size_t daemon, const Pupil::Options& options = {}, bool is_paused = false) {
    Newcomer newcomer{.pupil = std::make_unique<Pupil>(options), .joined = {}};
    if (is_paused) newcomer.pupil->Pause();
    newcomer.joined = std::async(std::launch::async, [this, daemon, pupil = newcomer.pupil.get()] {
      return pupil->Join(cluster_.At(daemon, "job", 1));
    });
    return newcomer;
  }
  // Returns whether a newcomer was admitted, which takes part in the next step.
  bool StepAndLook() {
    (void)StepAll();
    return HasFailure() || members_[0]->session().world_size() > members_.size();
  }
  // Steps until the condition holds; nobody is admitted before.
  void StepUntil(const std::function<bool()>& condition) {
    while (!condition()) ASSERT_FALSE(StepAndLook());
  }
  // Steps until the newcomers are members; then they have the state of the others, and train with them.
  void Admit(std::vector<Newcomer> newcomers) {
    const std::size_t world = members_.size() + newcomers.size();
    while (members_.size() < world) {
      while (!StepAndLook()) {
      }
      ASSERT_FALSE(HasFailure());
      while (members_.size() < members_[0]->session().world_size()) TakeIn(&newcomers);
      ASSERT_FALSE(HasFailure());
    }
    (void)StepAll();
    for (const auto& member : members_) EXPECT_TRUE(member->HasSameStateAs(*members_[0]));
  }
  void Admit(Newcomer newcomer) {
    std::vector<Newcomer> newcomers;
    newcomers.push_back(std::move(newcomer));
    Admit(std::move(newcomers));
  }
  // Those whose Join has ended.
  void TakeIn(std::vector<Newcomer>* newcomers) {
    for (Newcomer& newcomer : *newcomers) {
      if (!newcomer.pupil || newcomer.joined.wait_for(std::chrono::milliseconds(10)) != std::future_status::ready) {
        continue;
      }
      const Status joined = newcomer.joined.get();
      EXPECT_TRUE(joined.ok()) << joined.text();
      members_.push_back(std::move(newcomer.pupil));
    }
  }
  // Steps until so many members have begun to give, then waits until they can: pieces are given in later steps.
  void StepUntilOpen(std::size_t count) {
    StepUntil([&] { return Count(IsStateGroup) >= 2 * count; });
    const auto is_open = [](const nlohmann::json& group) { return IsStateGroup(group) && group["world_size"] == 2; };
    while (Count(is_open) < 2 * count) ASSERT_GE(Count(IsStateGroup), 2 * count);
  }
  static bool IsStateGroup(const nlohmann::json& group) {
    return group["name"].get<std::string>().find(kStateMark) != std::string::npos;
  }
  // Counts the peers of all daemons for which `matches` holds.
  std::size_t Count(const std::function<bool(const nlohmann::json&)>& matches) const {
    std::size_t count = 0;
    for (std::size_t daemon = 0; daemon < cluster_.daemon_count(); ++daemon) {
      const nlohmann::json status = cluster_.DaemonStatus(daemon);
      for (const auto& group : status["groups"]) count += matches(group) ? 1 : 0;
    }
    return count;
  }
  // The peers in all groups that states travel in.
  std::set<std::uint64_t> StatePeers() const {
    std::set<std::uint64_t> peers;
    (void)Count([&](const auto& group) {
      if (IsStateGroup(group)) peers.insert(group["self"].template get<std::uint64_t>());
      return true;
    });
    return peers;
  }
  // As a trainer that takes nothing before it is admitted.
  Status TakeAllAtTheAdmissionAndLeave() const {
    std::vector<std::uint64_t> words(kLargeBytes / sizeof(std::uint64_t));
    std::uint64_t steps = 0;
    auto session = Session::Join(cluster_.At(2, "job", 1));
    if (!session.ok()) return session.status();
    const auto synced =
        SyncState(**session, {{"words", words.data(), kLargeBytes, {}}, {"steps", &steps, sizeof(steps), {}}});
    return synced.ok() ? (*session)->Leave() : synced.status();
  }
  // What was sent in the training's own group.
  std::uint64_t SentInJob() const {
    std::uint64_t bytes = 0;
    (void)Count([&](const auto& group) {
      if (group["name"] == "job") bytes += group["bytes_sent"].template get<std::uint64_t>();
      return true;
    });
    return bytes;
  }

  Cluster cluster_{{.daemons = 3}};
  Pupils members_;
};

TEST_F(StateBeforeAdmissionTest, StateTravelsWhileTheOthersTrainAndLittleIsLeftForTheAdmission) {
  Begin(2);
  auto newcomer = BeginJoin(2);
  StepUntilOpen(2);
  EXPECT_FALSE(newcomer.IsOver());
  const Pupil& pupil = *newcomer.pupil;
  Admit(std::move(newcomer));
  EXPECT_TRUE(pupil.Waits("has 128 MiB of the state")) << pupil.texts();
  EXPECT_LT(SentInJob(), kLargeBytes / 4);
  StepUntil([&] { return Count(IsStateGroup) == 0; });
}

TEST_F(StateBeforeAdmissionTest, StateThatChangesWithEachStepIsTakenAtTheAdmission) {
  Begin(2, {.changes = true, .seed = 7});
  auto newcomer = BeginJoin(2, {.changes = true});
  const Pupil& pupil = *newcomer.pupil;
  Admit(std::move(newcomer));
  EXPECT_TRUE(pupil.Waits("changes with each step")) << pupil.texts();
}

TEST_F(StateBeforeAdmissionTest, SourceThatDiesIsMadeUpForByTheOthers) {
  Begin(3);
  auto newcomer = BeginJoin(2);
  StepUntilOpen(3);
  ASSERT_FALSE(newcomer.IsOver());
  members_[0]->session().Abort();
  members_.erase(members_.begin());
  const Pupil& pupil = *newcomer.pupil;
  Admit(std::move(newcomer));
  EXPECT_TRUE(pupil.Waits("has 128 MiB of the state")) << pupil.texts();
}

TEST_F(StateBeforeAdmissionTest, NewcomerThatDiesDisturbsNobodyAndTheNextOneIsServed) {
  Begin(2);
  auto newcomer = BeginJoin(2);
  StepUntilOpen(2);
  newcomer.pupil->Stop();
  EXPECT_EQ(newcomer.joined.get().code(), Code::kInterrupted);
  StepUntil([&] { return Count(IsStateGroup) == 0; });
  for (const auto& member : members_) EXPECT_EQ(member->session().world_size(), 2U);
  Admit(BeginJoin(2));
  EXPECT_TRUE(members_.back()->Waits("has 128 MiB of the state")) << members_.back()->texts();
}

TEST_F(StateBeforeAdmissionTest, TwoNewcomersAtOnceAreBothServed) {
  Begin(2);
  std::vector<Newcomer> newcomers;
  for (const std::size_t daemon : {1, 2}) newcomers.push_back(BeginJoin(daemon));
  StepUntilOpen(4);
  Admit(std::move(newcomers));
  EXPECT_EQ(members_.size(), 4U);
  for (const std::size_t i : {2, 3}) {
    EXPECT_TRUE(members_[i]->Waits("has 128 MiB of the state")) << members_[i]->texts();
  }
}

TEST_F(StateBeforeAdmissionTest, NewcomerWhoseSourcesEndForOneThatLacksEverythingIsServedAfterIt) {
  Begin(2);
  auto slow = BeginJoin(1, {}, true);
  StepUntil([&] { return Count(IsStateGroup) >= 2; });  // its sources wait for it
  auto other = std::async(std::launch::async, [this] { return TakeAllAtTheAdmissionAndLeave(); });
  while (!StepAndLook()) {
  }
  ASSERT_FALSE(HasFailure());
  EXPECT_TRUE(other.get().ok());
  ASSERT_FALSE(StepAndLook()) << "it has left";
  Pupil& pupil = *slow.pupil;
  pupil.Continue();
  Admit(std::move(slow));
  EXPECT_TRUE(pupil.Waits("has 128 MiB of the state")) << pupil.texts();
}

TEST_F(StateBeforeAdmissionTest, SourcesGoOnThroughTheAdmissionOfOneThatHasTheState) {
  Begin(2);
  auto slow = BeginJoin(1, {}, true);
  StepUntil([&] { return Count(IsStateGroup) >= 2; });
  const std::set<std::uint64_t> before = StatePeers();
  Admit(BeginJoin(2));
  const std::set<std::uint64_t> after = StatePeers();
  EXPECT_TRUE(std::ranges::includes(after, before)) << "a source has ended";
  Pupil& pupil = *slow.pupil;
  pupil.Continue();
  Admit(std::move(slow));
  EXPECT_TRUE(pupil.Waits("has 128 MiB of the state")) << pupil.texts();
}

TEST_F(StateBeforeAdmissionTest, StateTravelsWhileTheMasterIsAwayAndTheAdmissionWaitsForIt) {
  Begin(2);
  auto newcomer = BeginJoin(2);
  StepUntilOpen(2);
  cluster_.master().Kill();
  const Pupil& pupil = *newcomer.pupil;
  StepUntil([&] { return pupil.Waits("has 128 MiB of the state"); });
  EXPECT_FALSE(newcomer.IsOver());
  cluster_.RestartMaster();
  Admit(std::move(newcomer));
  EXPECT_LT(SentInJob(), kLargeBytes / 4);
}

}  // namespace
}  // namespace ringway::e2e
