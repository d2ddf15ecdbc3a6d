// Broadcast, reduce, gather, scatter, all-to-all and barrier on real daemons: every root, size and algorithm; deaths of
// the root and of others; ranks that disagree.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/e2e/checks.h"

namespace ringway::e2e {
namespace {

using Values = std::vector<std::int32_t>;

constexpr std::uint32_t kPeers = 3;

class RootedTest : public testing::Test {
 protected:
  void SetUp() override {
    ranks_ = cluster_.JoinWorld(kPeers);
    ASSERT_EQ(ranks_.size(), kPeers);
    daemon_of_ = SortByRank(&ranks_);
  }

  // Submits on all that are there, and waits.
  using Submit = std::function<Result<Work>(std::uint32_t rank, Session& session)>;
  std::vector<Result<OpResult>> Run(const Submit& submit) {
    std::vector<Result<Work>> works;
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) works.push_back(submit(rank, *ranks_[rank]));
    std::vector<Result<OpResult>> out;
    for (Result<Work>& work : works) out.push_back(work.ok() ? work->Wait(kPatience) : work.status());
    return out;
  }
  static void ExpectAll(const std::vector<Result<OpResult>>& results, Code code) {
    for (const auto& result : results) EXPECT_EQ(result.status().code(), code) << result.status().text();
  }

  // Every rank's outcome of one of each collective with its code; the session's world is `world` afterwards.
  struct Given {
    std::uint32_t root = 0;
    std::size_t count = 0;
    OpOptions options = {};
  };
  void CheckBroadcast(const Given& given) {
    std::vector<Values> data(ranks_.size());
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) data[rank] = Input(rank, given.count);
    ExpectAll(Run([&](std::uint32_t rank, Session& session) {
                return session.BroadcastAsync(data[rank].data(), given.count, DType::kI32, given.root, given.options);
              }),
              Code::kOk);
    for (const Values& values : data) EXPECT_EQ(values, Input(given.root, given.count));
  }
  void CheckReduce(const Given& given) {
    std::vector<Values> in, out(ranks_.size(), Values(given.count, -1));
    Values sum(given.count);
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      in.push_back(Input(rank, given.count));
      for (std::size_t i = 0; i < given.count; ++i) sum[i] += in[rank][i];
    }
    const auto results = Run([&](std::uint32_t rank, Session& session) {
      const bool is_root = rank == given.root;
      return session.ReduceAsync(in[rank].data(), is_root || rank % 2 == 0 ? out[rank].data() : nullptr, given.count,
                                 DType::kI32, ReduceOp::kSum, given.root, given.options);
    });
    ExpectAll(results, Code::kOk);
    EXPECT_EQ(out[given.root], sum);
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      EXPECT_EQ(results[rank].value().part.count, rank == given.root ? given.count : 0);
      if (rank != given.root) {
        EXPECT_EQ(out[rank], Values(given.count, -1)) << "others' memory is left alone";
      }
      EXPECT_EQ(in[rank], Input(rank, given.count));
    }
  }
  void CheckGather(const Given& given) {
    std::vector<Values> in, out(ranks_.size(), Values(given.count * ranks_.size(), -1));
    Values all;
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      in.push_back(Input(rank, given.count));
      all.insert(all.end(), in[rank].begin(), in[rank].end());
    }
    ExpectAll(Run([&](std::uint32_t rank, Session& session) {
                const bool is_root = rank == given.root;
                return session.GatherAsync(in[rank].data(), given.count, is_root ? out[rank].data() : nullptr,
                                           is_root ? all.size() : 0, DType::kI32, given.root, given.options);
              }),
              Code::kOk);
    EXPECT_EQ(out[given.root], all);
  }
  void CheckScatter(const Given& given) {
    const Values all = Input(given.root, given.count * ranks_.size());
    std::vector<Values> out(ranks_.size(), Values(given.count, -1));
    ExpectAll(Run([&](std::uint32_t rank, Session& session) {
                const bool is_root = rank == given.root;
                return session.ScatterAsync(is_root ? all.data() : nullptr, is_root ? all.size() : 0, out[rank].data(),
                                            given.count, DType::kI32, given.root, given.options);
              }),
              Code::kOk);
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank)
      EXPECT_EQ(out[rank], Part(all, rank, given.count)) << "rank " << rank;
  }
  void CheckAllToAll(const Given& given) {
    const std::size_t total = given.count * ranks_.size();
    std::vector<Values> out(ranks_.size(), Values(total, -1)), in;
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) in.push_back(Input(rank, total));
    ExpectAll(Run([&](std::uint32_t rank, Session& session) {
                return session.AllToAllAsync(in[rank].data(), out[rank].data(), total, DType::kI32, given.options);
              }),
              Code::kOk);
    for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      for (std::uint32_t from = 0; from < ranks_.size(); ++from)
        EXPECT_EQ(Part(out[rank], from, given.count), Part(in[from], rank, given.count)) << from << " to " << rank;
    }
  }

  static Values Input(std::uint32_t rank, std::size_t count) {
    Values values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<std::int32_t>(1000 * (rank + 1) + i % 997);
    return values;
  }
  static Values Part(const Values& all, std::uint32_t place, std::size_t count) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(place * count);
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }
  void Kill(std::uint32_t rank) { cluster_.daemon(daemon_of_[rank]).Kill(); }
  // Those that are left, in order of their ranks now.
  void Forget(std::uint32_t rank) {
    ranks_.erase(ranks_.begin() + rank);
    daemon_of_.erase(daemon_of_.begin() + rank);
  }

  Cluster cluster_{{.daemons = kPeers}};
  Sessions ranks_;
  std::vector<std::size_t> daemon_of_;
};

TEST_F(RootedTest, EveryCollectiveIsRightFromEveryRootAtEverySize) {
  for (std::uint32_t root = 0; root < kPeers; ++root) {
    for (const std::size_t count : {0, 1, 2, 255, 1000, 100'003, 1'000'003}) {
      SCOPED_TRACE(std::to_string(count) + " from " + std::to_string(root));
      const Given given{.root = root, .count = count};
      CheckBroadcast(given);
      CheckReduce(given);
      CheckGather(given);
      CheckScatter(given);
      CheckAllToAll(given);
    }
  }
  ExpectAll(Run([](std::uint32_t, Session& session) { return session.BarrierAsync(); }), Code::kOk);
}

TEST_F(RootedTest, EveryAlgorithmIsRightAndNamed) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect, Algorithm::kTree, Algorithm::kNaive}) {
    SCOPED_TRACE(NameOf(algorithm));
    CheckBroadcast({.root = 1, .count = 300'007, .options = {.algorithm = algorithm}});
    CheckReduce({.root = 2, .count = 300'007, .options = {.algorithm = algorithm}});
    std::vector<float> data(1000);
    for (const auto& result : Run([&](std::uint32_t, Session& session) {
           return session.BroadcastAsync(data.data(), 10, DType::kF32, 0, {.algorithm = algorithm});
         })) {
      EXPECT_EQ(result.value().algorithm, algorithm);
    }
  }
}

// The root, too, goes on with what the others decode.
TEST_F(RootedTest, BroadcastWithACodecGivesEqualBytesOnAllRanks) {
  for (const CodecInfo& codec : kCodecs) {
    SCOPED_TRACE(codec.name);
    std::vector<std::vector<float>> data(kPeers, std::vector<float>(70'001));
    for (std::size_t i = 0; i < data[1].size(); ++i) data[1][i] = 0.001F * static_cast<float>(i % 4001) - 2;
    const std::vector<float> exact = data[1];
    ExpectAll(Run([&](std::uint32_t rank, Session& session) {
                return session.BroadcastAsync(data[rank].data(), exact.size(), DType::kF32, 1, {.codec = codec.codec});
              }),
              Code::kOk);
    EXPECT_EQ(data[0], data[1]);
    EXPECT_EQ(data[2], data[1]);
    for (std::size_t i = 0; i < exact.size(); ++i)
      ASSERT_NEAR(data[1][i], exact[i], 2.1 * ErrorOf(codec.codec) + 1e-9) << i;
  }
}

TEST_F(RootedTest, RanksThatNameDifferentRootsAllGetAMismatch) {
  std::vector<Values> data(kPeers, Values(1000));
  const auto results = Run([&](std::uint32_t rank, Session& session) {
    return session.GatherAsync(data[rank].data(), 10, data[rank].data() + 100, 30, DType::kI32, rank == 0 ? 1 : 0);
  });
  ExpectAll(results, Code::kMismatch);
  EXPECT_NE(results[0].status().text().find("root 1"), std::string::npos) << results[0].status().text();
  CheckGather({.root = 0, .count = 10});
}

TEST_F(RootedTest, WrongCallsAreRefusedByNameAndSubmitNothing) {
  Session& rank = *ranks_[0];
  Values data(100);
  const auto text = [](const auto& outcome) {
    EXPECT_EQ(outcome.status().code(), Code::kInvalidArgument) << outcome.status().text();
    return outcome.status().text();
  };
  EXPECT_NE(text(rank.BroadcastAsync(data.data(), 10, DType::kI32, 3)).find("root is 3"), std::string::npos);
  EXPECT_NE(text(rank.BroadcastAsync(nullptr, 10, DType::kI32, 0)).find("null"), std::string::npos);
  EXPECT_NE(text(rank.ReduceAsync(data.data(), nullptr, 10, DType::kI32, ReduceOp::kSum, 0)).find("output is null"),
            std::string::npos);
  EXPECT_NE(text(rank.GatherAsync(data.data(), 10, data.data() + 10, 29, DType::kI32, 0)).find("room for 29"),
            std::string::npos);
  EXPECT_NE(text(rank.ScatterAsync(data.data(), 29, data.data() + 50, 10, DType::kI32, 0)).find("has 29 elements"),
            std::string::npos);
  EXPECT_NE(text(rank.AllToAllAsync(data.data(), data.data() + 50, 10, DType::kI32)).find("equal parts"),
            std::string::npos);
  EXPECT_NE(text(rank.AllToAllAsync(data.data(), data.data() + 20, 30, DType::kI32)).find("overlap"),
            std::string::npos);
  const OpOptions one_shot{.algorithm = Algorithm::kOneShot};
  EXPECT_EQ(rank.BroadcastAsync(data.data(), 10, DType::kI32, 0, one_shot).status().code(), Code::kNotSupported);
  CheckBroadcast({.root = 0, .count = 10});
}

TEST_F(RootedTest, SurvivorsGoOnAfterTheDeathOfAnother) {
  std::vector<Values> in(kPeers, Values(kLargeCount, 1)), out(kPeers, Values(2 * kLargeCount));
  cluster_.daemon(daemon_of_[1]).Freeze();
  std::vector<Work> works;
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    auto work =
        ranks_[rank]->ReduceAsync(in[rank].data(), out[rank].data(), kLargeCount, DType::kI32, ReduceOp::kSum, 2);
    ASSERT_TRUE(work.ok()) << work.status().text();
    works.push_back(std::move(*work));
  }
  Kill(1);
  works[1] = Work();
  for (const std::uint32_t rank : {0U, 2U}) {
    const auto result = works[rank].Wait(kPatience);
    ASSERT_TRUE(result.ok()) << result.status().text();
    EXPECT_EQ(result->world_size, 2U);
  }
  EXPECT_EQ(Part(out[2], 0, kLargeCount), Values(kLargeCount, 2));
  Forget(1);
  CheckGather({.root = 1, .count = 1000});
  CheckAllToAll({.count = 1000});
}

TEST_F(RootedTest, DeathOfTheRootIsAnErrorOnAllAndTheNextRootIsKnown) {
  std::vector<Values> data(kPeers, Values(kLargeCount, 1));
  cluster_.daemon(daemon_of_[0]).Freeze();
  std::vector<Work> works;
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    auto work = ranks_[rank]->BroadcastAsync(data[rank].data(), kLargeCount, DType::kI32, 0);
    ASSERT_TRUE(work.ok()) << work.status().text();
    works.push_back(std::move(*work));
  }
  Kill(0);
  works[0] = Work();
  for (const std::uint32_t rank : {1U, 2U}) {
    const auto result = works[rank].Wait(kPatience);
    EXPECT_EQ(result.status().code(), Code::kPeerLost) << result.status().text();
    EXPECT_NE(result.status().text().find("its root, has left"), std::string::npos) << result.status().text();
    EXPECT_EQ(ranks_[rank]->world_size(), 2U);
    EXPECT_EQ(ranks_[rank]->rank(), rank - 1);
  }
  Forget(0);
  CheckBroadcast({.root = 0, .count = 1000});
  CheckScatter({.root = 1, .count = 1000});
}

// An input that was laid out for three ranks does not fit two.
TEST_F(RootedTest, PartsForALargerWorldAreAnErrorOnAll) {
  Kill(2);
  std::vector<Values> in(kPeers, Values(300)), out(kPeers, Values(300));
  Forget(2);
  const auto results = Run([&](std::uint32_t rank, Session& session) {
    return session.AllToAllAsync(in[rank].data(), out[rank].data(), 300, DType::kI32);
  });
  ExpectAll(results, Code::kPeerLost);
  EXPECT_NE(results[0].status().text().find("laid out for 3"), std::string::npos) << results[0].status().text();
  for (const auto& session : ranks_) EXPECT_EQ(session->world_size(), 2U);
  CheckAllToAll({.count = 150});
}

}  // namespace
}  // namespace ringway::e2e
