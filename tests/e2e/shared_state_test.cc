// Shared states of real trainers: who lacks a part gets just that, from all who have it at once, whoever dies
// meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <future>
#include <ringway/shared_state.hpp>
#include <string>
#include <vector>

#include "tests/e2e/checks.h"

namespace ringway::e2e {
namespace {

constexpr std::size_t kPiece = std::size_t{16} << 20;
constexpr std::size_t kPieces = 10;  // of a large state: more than are on their way at once

using Bytes = std::vector<std::uint8_t>;

// Every page of every content is another one.
Bytes Content(std::uint32_t seed, std::size_t size) {
  constexpr std::size_t kPage = 4096;
  Bytes content(size, static_cast<std::uint8_t>(seed + 1));
  for (std::uint64_t at = 0; at < size; at += kPage) {
    const std::uint64_t stamp[] = {seed, at};
    std::memcpy(content.data() + at, stamp, std::min(sizeof(stamp), size - at));
  }
  return content;
}

// The state that one rank holds.
struct Holding {
  std::vector<Bytes> tensors;
  StateOptions options = {};
  std::string prefix = {};  // of the tensors' names
  std::string description = {};

  std::vector<StateTensor> List() {
    std::vector<StateTensor> list;
    for (auto& tensor : tensors) {
      list.push_back({prefix + std::to_string(list.size()), tensor.data(), tensor.size(), description});
    }
    return list;
  }
};

class SharedStateTest : public testing::Test {
 protected:
  // Returns the results of all ranks, in rank order.
  std::vector<Result<StateResult>> Sync(std::vector<Holding>* holdings) {
    std::vector<std::future<Result<StateResult>>> calls;
    for (std::size_t i = 0; i < holdings->size(); ++i) {
      calls.push_back(std::async(std::launch::async, [this, i, holdings] {
        return SyncState(*ranks_[i], (*holdings)[i].List(), (*holdings)[i].options);
      }));
    }
    std::vector<Result<StateResult>> results;
    for (auto& call : calls) results.push_back(call.get());
    return results;
  }
  void Join(std::uint32_t world, bool fail_on_peer_loss = false, std::size_t first_daemon = 0) {
    std::vector<JoinOptions> options;
    for (std::uint32_t i = 0; i < world; ++i) {
      options.push_back(cluster_.At(first_daemon + i % 2, "job", world));
      options.back().fail_on_peer_loss = fail_on_peer_loss;
    }
    ranks_ = cluster_.JoinAll(options);
    ASSERT_EQ(ranks_.size(), world);
    std::sort(ranks_.begin(), ranks_.end(), [](const auto& a, const auto& b) { return a->rank() < b->rank(); });
  }

  Cluster cluster_{{.daemons = 2}};
  Sessions ranks_;
};

TEST_F(SharedStateTest, OnlyWhatDiffersTravelsInEqualStripesOfAllWhoHaveIt) {
  Join(4);
  const std::vector<Bytes> state = {Content(1, kPiece + 5), Content(2, 3 * kPiece / 2), Content(3, 1)};
  std::vector<Holding> holdings(4, {.tensors = state, .options = {.revision = 7}});
  holdings[3].tensors[1][10] ^= 1;  // in one piece of three
  holdings[3].options.revision = 2;
  std::size_t sent = 0;
  for (const auto& result : Sync(&holdings)) {
    ASSERT_TRUE(result.ok()) << result.status().text();
    EXPECT_EQ(result->revision, 7U);
    sent += result->sent_bytes;
  }
  EXPECT_EQ(sent, kPiece);
  for (const Holding& holding : holdings) EXPECT_TRUE(holding.tensors == state);

  holdings[3].options.revision = 7;
  for (const auto& result : Sync(&holdings)) EXPECT_EQ(result->sent_bytes + result->received_bytes, 0U);

  holdings[2].tensors[0][0] ^= 1;
  holdings[3].tensors[0][0] ^= 2;
  const auto results = Sync(&holdings);  // two have it, two lack it
  for (std::size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(results[rank]->sent_bytes, rank < 2 ? kPiece : 0) << rank;
    EXPECT_EQ(results[rank]->received_bytes, rank < 2 ? 0 : kPiece) << rank;
    EXPECT_TRUE(holdings[rank].tensors == state) << rank;
  }
}

TEST_F(SharedStateTest, ManySmallTensorsTravelTogether) {
  Join(2);
  std::vector<Holding> holdings(2);
  std::size_t pieces = 0;
  for (unsigned rank = 0; rank < 2; ++rank) {
    for (unsigned i = 0; i < 900; ++i) holdings[rank].tensors.push_back(Content(1000 * rank + i, i % 40));
    holdings[rank].options.revision = rank;
  }
  holdings[0].options.on_progress = [&pieces](const StateProgress&) { return ++pieces > 0; };
  for (const auto& result : Sync(&holdings)) EXPECT_EQ(result->revision, 1U);
  EXPECT_TRUE(holdings[0].tensors == holdings[1].tensors);
  EXPECT_EQ(pieces, 1U);
}

TEST_F(SharedStateTest, StateOfFewerBytesThanThereAreHolders) {
  Join(4);
  std::vector<Holding> holdings(4, {.tensors = {Content(9, 2)}, .options = {.revision = 1}});
  holdings[2] = {.tensors = {Bytes(2)}};
  for (const auto& result : Sync(&holdings)) EXPECT_TRUE(result.ok()) << result.status().text();
  EXPECT_TRUE(holdings[2].tensors == holdings[0].tensors);
}

TEST_F(SharedStateTest, HolderThatDiesIsMadeUpForByTheOthers) {
  for (const bool fail_on_peer_loss : {false, true}) {
    if (kSanitized && !fail_on_peer_loss) continue;  // which is part of the other
    Join(4, fail_on_peer_loss);
    const std::vector<Bytes> state = {Content(5, kPieces * kPiece + 3)};
    std::vector<Holding> holdings(4, {.tensors = state, .options = {.revision = 3}});
    holdings[3] = {.tensors = {Bytes(state[0].size())}};
    holdings[1].options.on_progress = [this](const StateProgress& progress) {
      EXPECT_EQ(progress.of_bytes, kPieces * kPiece + 3);
      if (progress.bytes > 0) ranks_[1]->Abort();  // the first piece has arrived
      return true;
    };
    const auto results = Sync(&holdings);
    EXPECT_EQ(results[1].status().code(), Code::kLeft);
    for (const std::size_t rank : {0, 2, 3}) {
      ASSERT_TRUE(results[rank].ok()) << results[rank].status().text();
      EXPECT_EQ(results[rank]->revision, 3U);
    }
    EXPECT_TRUE(holdings[3].tensors == state);
    EXPECT_LT(results[3]->received_bytes, state[0].size() + (kPieces - 1) * kPiece)
        << "what had arrived was sent again";
    ranks_.clear();
  }
}

TEST_F(SharedStateTest, RankThatEndsItInTheMiddleLeavesAndTheOthersGoOn) {
  Join(3);
  const std::vector<Bytes> state = {Content(5, kPieces * kPiece)};
  std::vector<Holding> holdings(3, {.tensors = state, .options = {.revision = 3}});
  holdings[2] = {.tensors = {Bytes(state[0].size())}};
  holdings[0].options.on_progress = [](const StateProgress& progress) { return progress.bytes == 0; };
  const auto results = Sync(&holdings);
  EXPECT_EQ(results[0].status().code(), Code::kInterrupted);
  EXPECT_EQ(ranks_[0]->Barrier().status().code(), Code::kLeft);
  for (const std::size_t rank : {1, 2}) ASSERT_TRUE(results[rank].ok()) << results[rank].status().text();
  EXPECT_TRUE(holdings[2].tensors == state);
}

TEST_F(SharedStateTest, FewerPiecesAreUnderWayWhereADaemonHasLittleMemory) {
  const std::size_t little = cluster_.AddDaemon({"--memory-max", "100M"});
  cluster_.AddDaemon();
  Join(2, false, little);
  for (const std::size_t source : {0, 1}) {
    std::vector<Holding> holdings(2, {.tensors = {Bytes(8 * kPiece)}});
    holdings[source] = {.tensors = {Content(4, 8 * kPiece)}, .options = {.revision = 1}};
    for (const auto& result : Sync(&holdings)) ASSERT_TRUE(result.ok()) << result.status().text();
    EXPECT_TRUE(holdings[0].tensors == holdings[1].tensors);
  }
}

TEST_F(SharedStateTest, NextNewestIsTakenWholeWhenTheLastWithTheNewestDies) {
  Join(3);
  const std::vector<Bytes> newest = {Content(6, kPieces * kPiece)};
  const std::vector<Bytes> older = {Content(7, kPieces * kPiece)};
  std::vector<Holding> holdings = {
      {newest, {.revision = 9}}, {older, {.revision = 5}}, {{Bytes(kPieces * kPiece)}, {.revision = 1}}};
  holdings[0].options.on_progress = [this](const StateProgress& progress) {
    if (progress.bytes >= 2 * kPiece) ranks_[0]->Abort();
    return true;
  };
  const auto results = Sync(&holdings);
  EXPECT_EQ(results[0].status().code(), Code::kLeft);
  for (const std::size_t rank : {1, 2}) {
    ASSERT_TRUE(results[rank].ok()) << results[rank].status().text();
    EXPECT_EQ(results[rank]->revision, 5U);
    EXPECT_TRUE(holdings[rank].tensors == older);
  }
}

TEST_F(SharedStateTest, StateThatIsWrittenToMeanwhileIsRefusedByAll) {
  Join(3);
  std::vector<Holding> holdings(3, {.tensors = {Bytes(4 * kPiece)}});
  holdings[0] = {.tensors = {Content(8, 4 * kPiece)}, .options = {.revision = 2}};
  holdings[0].options.on_progress = [&](const StateProgress&) {
    for (std::size_t at = 0; at < 4 * kPiece; at += 1000) holdings[0].tensors[0][at] ^= 1;
    return true;
  };
  for (const auto& result : Sync(&holdings)) {
    EXPECT_EQ(result.status().code(), Code::kMismatch);
    EXPECT_NE(result.status().text().find("written to"), std::string::npos) << result.status().text();
  }
  for (const std::size_t rank : {1, 2}) {
    EXPECT_TRUE(holdings[rank].tensors[0] == Bytes(4 * kPiece)) << "a part of it has been adopted";
  }
}

// Contents are named by a letter; nobody's rank is its content's.
TEST_F(SharedStateTest, AllChooseTheSameStateByRevisionMajorityAndStrategy) {
  using enum StateStrategy;
  struct Rank {
    char has;
    std::uint64_t revision = 0;
    StateStrategy strategy = kPopular;
    bool in_use = false;
  };
  struct Case {
    const char* name;
    std::vector<Rank> ranks;
    char taken;  // 0: kMismatch
  };
  const Case cases[] = {
      {"newest", {{'a', 1}, {'b', 3}, {'c', 2}}, 'b'},
      {"most of the newest", {{'a', 1}, {'b', 1}, {'b', 1}}, 'b'},
      {"lowest rank of as many", {{'c', 1}, {'a', 1}, {'b', 1}}, 'c'},
      {"most, but older", {{'a', 1}, {'a', 1}, {'b', 2}}, 'b'},
      {"who sends", {{'a', 9}, {'b', 1, kSend}, {'a', 9}}, 'b'},
      {"who sends the same", {{'a', 9}, {'b', 1, kSend}, {'b', 1, kSend}}, 'b'},
      {"who sends another", {{'a', 9}, {'b', 1, kSend}, {'c', 1, kSend}}, 0},
      {"not who receives", {{'a', 9, kReceive}, {'b', 1}, {'c', 0}}, 'b'},
      {"all receive", {{'a', 9, kReceive}, {'b', 1, kReceive}, {'c', 0, kReceive}}, 0},
      {"in use", {{'a', 9}, {'b', 1, kPopular, true}, {'c', 0}}, 'b'},
      {"same content, another revision", {{'a', 2}, {'a', 1}, {'a', 1}}, 'a'},
  };
  Join(3);
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    std::vector<Holding> holdings;
    for (const Rank& rank : one.ranks) {
      const StateOptions options{.revision = rank.revision, .strategy = rank.strategy, .in_use = rank.in_use};
      holdings.push_back({{Bytes(1000, static_cast<std::uint8_t>(rank.has))}, options});
    }
    const auto results = Sync(&holdings);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(results[rank].status().code(), one.taken == 0 ? Code::kMismatch : Code::kOk);
      const char has = one.taken == 0 ? one.ranks[rank].has : one.taken;
      EXPECT_EQ(holdings[rank].tensors[0], Bytes(1000, static_cast<std::uint8_t>(has)));
    }
  }
}

// The error names both ranks and what each has; the ranks go on together afterwards.
TEST_F(SharedStateTest, TensorsOfOtherNamesSizesOrDescriptionsAreRefusedByAll) {
  struct Case {
    std::vector<Holding> holdings;
    const char* one;
    const char* other;
  };
  Case cases[] = {{{{{Content(1, 5)}}, {{Content(1, 6)}}}, "rank 0 has \"0\" (5 bytes)", "rank 1 has \"0\" (6 bytes)"},
                  {{{{Content(1, 5)}}, {{Content(1, 5)}, {}, "other "}}, "rank 0 has \"0\"", "rank 1 has \"other 0\""},
                  {{{{Content(1, 5)}}, {{}}}, "rank 0 has \"0\"", "rank 1's list ends before it"},
                  {{{{}}, {{Content(1, 5)}}}, "rank 0's list ends before it", "rank 1 has \"0\""},
                  {{{{Content(1, 6)}, {}, "", "bfloat16[3]"}, {{Content(1, 6)}, {}, "", "float16[3]"}},
                   "rank 0 has \"0\" of bfloat16[3]",
                   "rank 1 has \"0\" of float16[3]"}};
  Join(2);
  for (Case& one : cases) {
    const std::vector<Holding> before = one.holdings;
    for (const auto& result : Sync(&one.holdings)) {
      EXPECT_EQ(result.status().code(), Code::kMismatch);
      for (const char* const said : {one.one, one.other}) {
        EXPECT_NE(result.status().text().find(said), std::string::npos) << result.status().text();
      }
    }
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(one.holdings[i].tensors == before[i].tensors);
  }
  std::vector<Holding> alike = {{{Content(1, 5)}, {.revision = 1}, "", "int8[5]"},
                                {{Content(2, 5)}, {}, "", "int8[5]"}};
  for (const auto& result : Sync(&alike)) EXPECT_TRUE(result.ok()) << result.status().text();
  EXPECT_TRUE(alike[1].tensors == alike[0].tensors);
}

// ---- SharedState

// Its step adds one to each weight.
class Learner {
 public:
  Learner(float first, const SharedStateOptions& options = {}, std::size_t count = 1000)
      : weights_(count, first),
        state_(std::move(
            SharedState::Make({{"weights", weights_.data(), weights_.size() * sizeof(float)}}, options).value())) {}

  Status Join(const JoinOptions& options) {
    auto joined = state_.Join(options);
    if (joined.ok()) session_ = std::move(joined.value());
    return joined.status();
  }
  // Returns whether newcomers were admitted.
  bool Step() {
    std::vector<float> one(weights_.size(), 1);
    const auto mean = session_->AllReduce(one.data(), one.data(), one.size(), DType::kF32, ReduceOp::kAvg);
    EXPECT_TRUE(mean.ok()) << mean.status().text();
    if (!mean.ok()) return false;
    for (std::size_t i = 0; i < one.size(); ++i) weights_[i] += one[i];
    const auto admitted = state_.Advance(*session_, mean->update_waits);
    EXPECT_TRUE(admitted.ok()) << admitted.status().text();
    return admitted.ok() && admitted.value();
  }
  bool HasAllSteps() const {
    return std::all_of(weights_.begin(), weights_.end(),
                       [this](float weight) { return weight == static_cast<float>(state_.revision()); });
  }
  const SharedState& state() const { return state_; }
  Session& session() const { return *session_; }

 private:
  std::vector<float> weights_;
  SharedState state_;
  std::unique_ptr<Session> session_;
};

using Learners = std::vector<std::unique_ptr<Learner>>;

std::vector<bool> StepAll(const Learners& learners) {
  std::vector<std::future<bool>> steps;
  for (const auto& learner : learners) {
    steps.push_back(std::async(std::launch::async, [&learner] { return learner->Step(); }));
  }
  std::vector<bool> admitted;
  for (auto& step : steps) admitted.push_back(step.get());
  return admitted;
}

class SharedStateTrainingTest : public testing::Test {
 protected:
  Learners Begin(const std::vector<SharedStateOptions>& options) const {
    Learners learners;
    std::vector<std::future<Status>> joins;
    for (std::size_t i = 0; i < options.size(); ++i) learners.push_back(std::make_unique<Learner>(0.0F, options[i]));
    for (std::size_t i = 0; i < options.size(); ++i) {
      joins.push_back(std::async(std::launch::async, [this, i, &learners] {
        return learners[i]->Join(cluster_.At(i % 2, "job", static_cast<std::uint32_t>(learners.size())));
      }));
    }
    for (auto& join : joins) {
      const Status error = join.get();
      EXPECT_TRUE(error.ok()) << error.text();
    }
    return learners;
  }

  Cluster cluster_{{.daemons = 2}};
};

TEST_F(SharedStateTrainingTest, NewcomerTakesTheStateWhileTheOthersTrain) {
  Learners learners = Begin({{}, {}});
  for (int i = 0; i < 3; ++i) StepAll(learners);
  auto newcomer = std::make_unique<Learner>(-5.0F, SharedStateOptions{.revision = 99999});  // it says
  auto joins = std::async(std::launch::async, [&] { return newcomer->Join(cluster_.At(0, "job", 2)); });
  while (StepAll(learners) != std::vector<bool>(2, true)) ASSERT_FALSE(HasFailure());
  const Status joined = joins.get();
  ASSERT_TRUE(joined.ok()) << joined.text();
  learners.push_back(std::move(newcomer));
  StepAll(learners);
  for (const auto& learner : learners) {
    EXPECT_EQ(learner->session().world_size(), 3U);
    EXPECT_EQ(learner->state().revision(), learners[0]->state().revision());
    EXPECT_TRUE(learner->HasAllSteps());
  }
}

TEST_F(SharedStateTrainingTest, NewcomerWithAnotherModelIsRefusedAndCostsNothing) {
  Learners learners = Begin({{}, {}});
  StepAll(learners);
  Learner newcomer(0.0F, {}, 7);
  auto joins = std::async(std::launch::async, [&] { return newcomer.Join(cluster_.At(0, "job", 2)); });
  while (StepAll(learners) != std::vector<bool>(2, true)) ASSERT_FALSE(HasFailure());
  const Status error = joins.get();
  EXPECT_EQ(error.code(), Code::kMismatch);
  for (const char* const said : {"\"weights\" (4000 bytes)", "\"weights\" (28 bytes)"}) {
    EXPECT_NE(error.text().find(said), std::string::npos) << error.text();
  }
  StepAll(learners);
  for (const auto& learner : learners) EXPECT_TRUE(learner->HasAllSteps());
}

TEST_F(SharedStateTrainingTest, TrainingOfWhichNobodyIsLeftGoesOnFromTheNewestFile) {
  std::vector<SharedStateOptions> options;
  for (const char* const name : {"a", "b", "c"}) {
    options.push_back({.path = cluster_.directory() / name, .every = 2});
  }
  {
    const Learners learners = Begin(options);
    for (int i = 0; i < 5; ++i) StepAll(learners);
  }
  ASSERT_EQ(std::remove((cluster_.directory() / "b").c_str()), 0);
  for (const auto& learner : Begin(options)) {
    EXPECT_EQ(learner->state().revision(), 4U);
    EXPECT_TRUE(learner->HasAllSteps());
  }
}

}  // namespace
}  // namespace ringway::e2e
