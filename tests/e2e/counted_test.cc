// Collectives with counts by rank on real daemons: counts of every size, many of them 0, beside results that are
// computed element by element; ranks that disagree; deaths; cancellation.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/e2e/checks.h"

namespace ringway::e2e {
namespace {

using Floats = std::vector<float>;
using Counts = std::vector<std::size_t>;
using Matrix = std::vector<Counts>;  // [from][to]

constexpr std::uint32_t kCountedPeers = 4;

// Whole numbers below 256, which every codec without blocks keeps; no shift of them is the same.
Floats FloatsOf(std::uint32_t rank, std::size_t count) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((i * 7 + i / 251 + rank * 53) % 251);
  return values;
}

class CountedTest : public testing::Test {
 protected:
  void SetUp() override {
    ranks_ = cluster_.JoinWorld(kCountedPeers);
    ASSERT_EQ(ranks_.size(), kCountedPeers);
    daemon_of_ = SortByRank(&ranks_);
  }

  using SubmitAt = std::function<Result<Work>(std::uint32_t rank, Session& session)>;
  std::vector<Result<OpResult>> Run(const SubmitAt& submit) {
    std::vector<Result<Work>> works;
    for (std::uint32_t rank = 0; rank < world(); ++rank) works.push_back(submit(rank, *ranks_[rank]));
    std::vector<Result<OpResult>> out;
    for (Result<Work>& work : works) out.push_back(work.ok() ? work->Wait(kPatience) : work.status());
    return out;
  }
  static void ExpectAll(const std::vector<Result<OpResult>>& results, Code code) {
    for (const auto& result : results) EXPECT_EQ(result.status().code(), code) << result.status().text();
  }
  std::uint32_t world() const { return static_cast<std::uint32_t>(ranks_.size()); }
  static Counts Column(const Matrix& counts, std::uint32_t to) {
    Counts out;
    for (const Counts& row : counts) out.push_back(row[to]);
    return out;
  }
  static std::size_t Sum(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), std::size_t{0}); }

  // One after the other, or, where they `overlap`, each from half of the one before on. In shared memory or not.
  static std::vector<Part> Sends(const Counts& counts, bool overlap) {
    std::vector<Part> sends = PartsOf(counts);
    for (std::size_t i = 0; overlap && i < sends.size(); ++i) sends[i].begin /= 2;
    return sends;
  }
  void CheckAllToAllV(const Matrix& counts, bool overlap, bool shared, const OpOptions& options = {}) {
    std::vector<Floats> in(world()), out(world());
    std::vector<Buffer> buffers;
    std::vector<const float*> results(world());
    const auto submit = [&](std::uint32_t rank, Session& session) -> Result<Work> {
      const std::vector<Part> sends = Sends(counts[rank], overlap);
      in[rank] = FloatsOf(rank, sends.back().begin + sends.back().count + Sum(counts[rank]));
      out[rank].assign(Sum(Column(counts, rank)) + 1, -1);
      results[rank] = out[rank].data();
      if (!shared)
        return session.AllToAllVAsync(in[rank].data(), sends, out[rank].data(), Column(counts, rank), DType::kF32,
                                      options);
      auto input = session.Allocate(in[rank].size() * sizeof(float) + 4);
      auto output = session.Allocate(out[rank].size() * sizeof(float));
      if (!input.ok() || !output.ok()) return input.ok() ? output.status() : input.status();
      std::copy(in[rank].begin(), in[rank].end(), input->as<float>());
      std::fill_n(output->as<float>(), out[rank].size(), -1.0F);
      results[rank] = output->as<float>();
      buffers.push_back(std::move(*input));
      buffers.push_back(std::move(*output));
      return session.AllToAllVAsync(buffers[buffers.size() - 2].data(), sends, buffers.back().data(),
                                    Column(counts, rank), DType::kF32, options);
    };
    const auto outcomes = Run(submit);
    ExpectAll(outcomes, Code::kOk);
    for (std::uint32_t rank = 0; rank < world(); ++rank) {
      const float* got = results[rank];
      for (std::uint32_t from = 0; from < world(); ++from) {
        const Part sent = Sends(counts[from], overlap)[rank];
        for (std::size_t i = 0; i < sent.count; ++i, ++got)
          ASSERT_EQ(*got, in[from][sent.begin + i]) << i << " from " << from << " to " << rank;
      }
      EXPECT_EQ(*got, -1) << "beyond the last";
      EXPECT_EQ(outcomes[rank].value().part.count, Sum(Column(counts, rank)));
      EXPECT_FALSE(outcomes[rank].value().update_waits);
    }
  }

  void CheckAllGatherV(const Counts& counts, const OpOptions& options = {}) {
    Floats all;
    for (std::uint32_t rank = 0; rank < world(); ++rank) {
      const Floats part = FloatsOf(rank, counts[rank]);
      all.insert(all.end(), part.begin(), part.end());
    }
    std::vector<Floats> in(world()), out(world(), Floats(all.size(), -1));
    ExpectAll(Run([&](std::uint32_t rank, Session& session) {
                in[rank] = FloatsOf(rank, counts[rank]);
                return session.AllGatherVAsync(in[rank].data(), out[rank].data(), counts, DType::kF32, options);
              }),
              Code::kOk);
    for (std::uint32_t rank = 0; rank < world(); ++rank) EXPECT_EQ(out[rank], all) << "rank " << rank;
  }

  void CheckReduceScatterV(const Counts& counts, const OpOptions& options = {}) {
    std::vector<Floats> in, out(world(), Floats(Sum(counts), -1));
    Floats sum(Sum(counts));
    for (std::uint32_t rank = 0; rank < world(); ++rank) {
      in.push_back(FloatsOf(rank, sum.size()));
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += in[rank][i];
    }
    const auto results = Run([&](std::uint32_t rank, Session& session) {
      return session.ReduceScatterVAsync(in[rank].data(), out[rank].data(), counts, DType::kF32, ReduceOp::kSum,
                                         options);
    });
    ExpectAll(results, Code::kOk);
    const std::vector<Part> parts = PartsOf(counts);
    for (std::uint32_t rank = 0; rank < world(); ++rank) {
      const Part& part = results[rank].value().part;
      EXPECT_EQ(part.begin, parts[rank].begin);
      EXPECT_EQ(part.count, counts[rank]);
      for (std::size_t i = 0; i < sum.size(); ++i) {
        const bool inside = i >= part.begin && i < part.begin + part.count;
        ASSERT_EQ(out[rank][i], inside ? sum[i] : -1) << i << " at rank " << rank;
      }
    }
  }

  Cluster cluster_{{.daemons = kCountedPeers}};
  Sessions ranks_;
  std::vector<std::size_t> daemon_of_;
};

Matrix RandomMatrix(std::uint32_t world, std::size_t most, std::mt19937_64& random) {
  Matrix counts(world, Counts(world));
  for (Counts& row : counts) {
    for (std::size_t& count : row) count = random() % 2 == 0 ? 0 : random() % (most + 1);
  }
  return counts;
}

TEST_F(CountedTest, EachRankGetsWhatTheOthersHaveForIt) {
  std::mt19937_64 random(1);
  CheckAllToAllV(Matrix(kCountedPeers, Counts(kCountedPeers)), false, false);
  for (const std::size_t most : {1, 300, 20'000, 700'000}) {
    for (const bool overlap : {false, true}) {
      for (const bool shared : {false, true})
        CheckAllToAllV(RandomMatrix(kCountedPeers, most, random), overlap, shared);
    }
  }
  Matrix stripes(kCountedPeers, Counts(kCountedPeers));  // two hold it, two lack it
  for (const std::uint32_t holder : {0U, 2U}) stripes[holder][1] = stripes[holder][3] = 500'000 + holder;
  CheckAllToAllV(stripes, true, true);
  CheckAllToAllV(stripes, true, false, {.channel = 5, .codec = Codec::kBf16});
}

TEST_F(CountedTest, PartsAreAsLongAsTheCountsSay) {
  for (const Counts& counts : {Counts{0, 0, 0, 0}, Counts{1, 0, 0, 0}, Counts{0, 300, 7, 0},
                               Counts{9, 70'000, 0, 40'000}, Counts{1'000'000, 1, 257, 300'000}}) {
    for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect}) {
      CheckAllGatherV(counts, {.algorithm = algorithm});
      CheckReduceScatterV(counts, {.algorithm = algorithm});
    }
    CheckAllGatherV(counts, {.codec = Codec::kBf16});
    CheckReduceScatterV(counts);
  }
}

TEST_F(CountedTest, RanksThatDisagreeGetAMismatchThatNamesBoth) {
  const auto outcomes_of = [&](const Matrix& sent, const Matrix& received) {
    std::vector<Floats> in(kCountedPeers, Floats(100)), out(kCountedPeers, Floats(100));
    const auto results = Run([&](std::uint32_t rank, Session& session) {
      return session.AllToAllVAsync(in[rank].data(), PartsOf(sent[rank]), out[rank].data(), Column(received, rank),
                                    DType::kF32);
    });
    ExpectAll(results, Code::kMismatch);
    return results[0].status().text();
  };
  const Matrix right(kCountedPeers, Counts(kCountedPeers, 10));
  Matrix more = right, none = right;
  more[1][2] = 11;
  none[1][2] = 0;
  const std::string text = outcomes_of(more, right);
  EXPECT_NE(text.find("10 to the higher rank"), std::string::npos) << text;
  EXPECT_NE(text.find("11 to the higher rank"), std::string::npos) << text;
  outcomes_of(right, more);
  outcomes_of(none, right);  // rank 2 waits for what nobody sends
  outcomes_of(right, none);
  const Matrix nothing(kCountedPeers, Counts(kCountedPeers));
  Matrix one = nothing;
  one[1][2] = 5;
  outcomes_of(one, nothing);
  outcomes_of(nothing, one);
  std::vector<Floats> in(kCountedPeers, Floats(100)), out(kCountedPeers, Floats(100));
  ExpectAll(Run([&](std::uint32_t rank, Session& session) {
              const Counts counts = rank == 3 ? Counts{20, 30, 0, 0} : Counts{30, 20, 0, 0};
              return session.AllGatherVAsync(in[rank].data(), out[rank].data(), counts, DType::kF32);
            }),
            Code::kMismatch);
  CheckAllToAllV(right, false, false);
}

// Only its two neighbours exchange anything with it.
TEST_F(CountedTest, DeathIsAnErrorOnAllThatStayWhetherTheyExchangeSomethingOrNot) {
  Matrix counts(kCountedPeers, Counts(kCountedPeers));
  counts[0][1] = counts[1][0] = 1'000'000;
  counts[1][2] = 5;
  cluster_.daemon(daemon_of_[1]).Freeze();
  std::vector<Floats> in(kCountedPeers, Floats(1'000'005)), out(kCountedPeers, Floats(1'000'005));
  std::vector<Work> works;
  for (std::uint32_t rank = 0; rank < kCountedPeers; ++rank) {
    auto work = ranks_[rank]->AllToAllVAsync(in[rank].data(), PartsOf(counts[rank]), out[rank].data(),
                                             Column(counts, rank), DType::kF32);
    ASSERT_TRUE(work.ok()) << work.status().text();
    works.push_back(std::move(*work));
  }
  cluster_.daemon(daemon_of_[1]).Kill();
  works[1] = Work();
  for (const std::uint32_t rank : {0U, 2U, 3U}) {
    const auto result = works[rank].Wait(kPatience);
    EXPECT_EQ(result.status().code(), Code::kPeerLost) << result.status().text();
    EXPECT_EQ(ranks_[rank]->world_size(), kCountedPeers - 1);
  }
  ranks_.erase(ranks_.begin() + 1);
  CheckAllToAllV({{1, 2, 3}, {0, 0, 70'000}, {9, 0, 0}}, false, false);
  CheckAllGatherV({5, 0, 1000});
  CheckReduceScatterV({5, 0, 1000});
}

TEST_F(CountedTest, CountsForALargerWorldAreAnErrorOnAll) {
  cluster_.daemon(daemon_of_[3]).Kill();
  ranks_.erase(ranks_.begin() + 3);
  std::vector<Floats> in(3, Floats(8)), out(3, Floats(8));
  ExpectAll(Run([&](std::uint32_t rank, Session& session) {
              return session.ReduceScatterVAsync(in[rank].data(), out[rank].data(), {2, 2, 2, 2}, DType::kF32,
                                                 ReduceOp::kSum);
            }),
            Code::kPeerLost);
  for (const auto& session : ranks_) EXPECT_EQ(session->world_size(), 3U);
  CheckReduceScatterV({2, 2, 4});
}

TEST_F(CountedTest, CancellingIsAgreedWithThoseWhoExchangeNothing) {
  Matrix counts(kCountedPeers, Counts(kCountedPeers));
  counts[0][1] = 1000;
  std::vector<Floats> in(kCountedPeers, Floats(1000)), out(kCountedPeers, Floats(1000));
  const auto submit = [&](std::uint32_t rank) {
    return ranks_[rank]->AllToAllVAsync(in[rank].data(), PartsOf(counts[rank]), out[rank].data(), Column(counts, rank),
                                        DType::kF32);
  };
  std::vector<Work> works;
  for (std::uint32_t rank = 0; rank + 1 < kCountedPeers; ++rank) {
    auto work = submit(rank);
    ASSERT_TRUE(work.ok()) << work.status().text();
    works.push_back(std::move(*work));
  }
  ASSERT_TRUE(works[2].Cancel().ok());
  for (Work& work : works) EXPECT_EQ(work.Wait(kPatience).status().code(), Code::kCancelled);
  auto late = submit(kCountedPeers - 1);
  ASSERT_TRUE(late.ok()) << late.status().text();
  EXPECT_EQ(late->Wait(kPatience).status().code(), Code::kCancelled);
  CheckAllToAllV(counts, false, false);
}

TEST_F(CountedTest, WrongCallsAreRefusedByNameAndSubmitNothing) {
  Session& rank = *ranks_[0];
  Floats data(200);
  const auto text = [](const auto& outcome) {
    EXPECT_EQ(outcome.status().code(), Code::kInvalidArgument) << outcome.status().text();
    return outcome.status().text();
  };
  float* const in = data.data();
  float* const out = in + 100;
  const Counts counts(kCountedPeers, 10), few(kCountedPeers - 1, 10);
  EXPECT_NE(text(rank.AllToAllVAsync(in, PartsOf(few), out, few, DType::kF32)).find("counts for 3 ranks"),
            std::string::npos);
  EXPECT_NE(text(rank.AllToAllVAsync(in, PartsOf(counts), out, few, DType::kF32)).find("counts for 0 ranks"),
            std::string::npos);
  EXPECT_NE(text(rank.AllToAllVAsync(in, PartsOf({9, 1, 1, 1}), out, counts, DType::kF32)).find("to itself"),
            std::string::npos);
  EXPECT_NE(text(rank.AllToAllVAsync(in, PartsOf(counts), in + 39, counts, DType::kF32)).find("overlap"),
            std::string::npos);
  EXPECT_NE(text(rank.AllToAllVAsync(nullptr, PartsOf(counts), out, counts, DType::kF32)).find("input is null"),
            std::string::npos);
  const std::size_t huge = std::size_t{1} << 62;
  EXPECT_NE(text(rank.AllGatherVAsync(in, out, {huge, huge, huge, huge}, DType::kF32)).find("2^46"), std::string::npos);
  const OpOptions ring{.algorithm = Algorithm::kRing};
  EXPECT_EQ(rank.AllToAllVAsync(in, PartsOf(counts), out, counts, DType::kF32, ring).status().code(),
            Code::kNotSupported);
  CheckAllToAllV(Matrix(kCountedPeers, counts), false, false);
}

TEST(CountedAloneTest, WhatIsSentToItselfLiesElsewhereInTheInput) {
  const Cluster cluster({.daemons = 1});
  const Sessions alone = cluster.JoinWorld(1);
  const Floats in = FloatsOf(0, 1000);
  Floats out(100, -1);
  const auto moved = alone[0]->AllToAllV(in.data(), {{900, 90}}, out.data(), {90}, DType::kF32);
  ASSERT_TRUE(moved.ok()) << moved.status().text();
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i < 90 ? in[900 + i] : -1) << i;
  const auto gathered = alone[0]->AllGatherV(in.data(), out.data(), {100}, DType::kF32);
  ASSERT_TRUE(gathered.ok()) << gathered.status().text();
  EXPECT_EQ(out, FloatsOf(0, 100));
}

}  // namespace
}  // namespace ringway::e2e
