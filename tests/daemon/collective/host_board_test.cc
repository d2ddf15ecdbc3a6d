// All ranks of one operation in one process, and what a board makes of their inputs.
#include "daemon/collective/host_board.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/collective/executor.h"

namespace ringway::collective {
namespace {

constexpr std::uint64_t kRoundBytes = 4096;
constexpr std::uint64_t kEverything = ~std::uint64_t{0};

class KeptMember final : public BoardMember {
 public:
  void OnRoundAdvanced(const OpName& op) override { over.push_back(op); }
  std::vector<OpName> over;
};

// Small whole numbers: sums are exact, whatever their order.
template <typename T>
class BoardWorld {
 public:
  BoardWorld(std::uint32_t world, Descriptor descriptor, bool staged = false) : descriptor_(descriptor) {
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      auto& input = inputs_.emplace_back(descriptor.count);
      for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<T>((i + 3 * rank) % 7);
      outputs_.emplace_back(descriptor.count, T{99});
      board_.Enter(PeerOf(rank), &members_.emplace_back());
      ranks_.emplace_back(rank);
    }
    executors_.resize(world);
    rounds_.resize(world);
    staged_ = staged;
  }

  static PeerId PeerOf(std::uint32_t rank) { return PeerId(rank + 10); }
  void Join(std::uint32_t rank) { Join(rank, descriptor_); }
  void Join(std::uint32_t rank, const Descriptor& descriptor) {
    Schedule schedule;
    schedule.in_process = true;
    executors_[rank] = std::make_unique<Executor>(
        Share(std::move(schedule)), ExecutorOptions{.descriptor = descriptor,
                                                    .shape = ShapeOf(descriptor, world(), Rank(rank)),
                                                    .world_size = world(),
                                                    .segment_bytes_max = kRoundBytes,
                                                    .input = reinterpret_cast<const std::byte*>(inputs_[rank].data()),
                                                    .output = reinterpret_cast<std::byte*>(outputs_[rank].data()),
                                                    .input_bytes_ready = staged_ ? 0 : descriptor.count * sizeof(T),
                                                    .stamp = {Epoch(10 + rank), 100 - rank},
                                                    .self = Rank(rank)});
    rounds_[rank] = board_.Join(kName, ranks_, PeerOf(rank), executors_[rank].get());
  }
  void JoinAll() {
    for (std::uint32_t rank = 0; rank < world(); ++rank) Join(rank);
  }
  std::uint64_t Work(std::uint32_t rank, std::uint64_t bytes = kEverything) {
    return rounds_[rank]->Work(Rank(rank), bytes);
  }
  void Leave(std::uint32_t rank) {
    board_.Leave(rounds_[rank], Rank(rank));
    executors_[rank] = nullptr;
  }
  std::uint32_t world() const { return static_cast<std::uint32_t>(inputs_.size()); }
  bool complete(std::uint32_t rank) const { return executors_[rank]->complete(); }

  // Each rank has the sums of all inputs as they are now.
  void ExpectSums() const {
    for (std::size_t i = 0; i < descriptor_.count; ++i) {
      T sum{};
      for (const auto& input : inputs_) sum = static_cast<T>(sum + input[i]);
      if (descriptor_.op == ReduceOp::kAvg) sum = static_cast<T>(sum / static_cast<T>(world()));
      for (const auto& output : outputs_) ASSERT_EQ(output[i], sum) << "element " << i;
    }
  }

  static constexpr OpName kOp{ChannelId(1), 5};
  inline static const HostRound::Name kName{.group = "g", .epoch = Epoch::Of(1, 2), .op = kOp};

  HostBoard board_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<T>> inputs_;
  std::vector<std::vector<T>> outputs_;
  std::vector<std::unique_ptr<Executor>> executors_;
  std::vector<HostRound*> rounds_;
  std::deque<KeptMember> members_;
  Descriptor descriptor_;
  bool staged_ = false;
};

Descriptor RoundOf(DType dtype, std::uint64_t count, ReduceOp op = ReduceOp::kSum) {
  return {.kind = OpKind::kAllReduce, .dtype = dtype, .op = op, .count = count};
}

TEST(HostBoard, LastToJoinMakesTheSumOfAllAtAll) {
  for (const std::uint32_t world : {2U, 3U, 4U, 8U}) {
    for (const std::uint64_t count : {0UL, 1UL, 1000UL, 1024UL, 5000UL}) {
      SCOPED_TRACE(std::to_string(world) + " ranks, count " + std::to_string(count));
      BoardWorld<float> all(world, RoundOf(DType::kF32, count));
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        EXPECT_EQ(all.rounds_[0] != nullptr && all.rounds_[0]->can_advance(), false);
        all.Join(rank);
      }
      EXPECT_TRUE(all.rounds_[0]->can_advance());
      EXPECT_EQ(all.Work(world - 1), world * count * sizeof(float));
      all.ExpectSums();
      for (std::uint32_t rank = 0; rank < world; ++rank) {
        EXPECT_TRUE(all.complete(rank));
        EXPECT_EQ(all.executors_[rank]->stamp().prepared, Epoch(10));
        EXPECT_EQ(all.executors_[rank]->stamp().acknowledged, 100 - (world - 1));
        EXPECT_EQ(all.members_[rank].over.size(), rank + 1 < world ? 1U : 0U);
      }
      EXPECT_FALSE(all.rounds_[0]->can_advance());
    }
  }
}

TEST(HostBoard, AveragesAndIntegersAreExact) {
  BoardWorld<float> average(4, RoundOf(DType::kF32, 3000, ReduceOp::kAvg));
  average.JoinAll();
  (void)average.Work(0);
  average.ExpectSums();
  BoardWorld<std::int32_t> integers(3, RoundOf(DType::kI32, 3000));
  integers.JoinAll();
  (void)integers.Work(2);
  integers.ExpectSums();
}

TEST(HostBoard, WorkGoesOnInSlicesWhicheverRankDoesIt) {
  BoardWorld<float> all(3, RoundOf(DType::kF32, 4 * kRoundBytes / sizeof(float)));
  all.JoinAll();
  for (std::uint32_t slice = 0; slice < 4; ++slice) {
    EXPECT_FALSE(all.complete(0));
    EXPECT_EQ(all.Work(slice % 3, 1), 3 * kRoundBytes);
  }
  EXPECT_TRUE(all.complete(0) && all.complete(1) && all.complete(2));
  all.ExpectSums();
}

TEST(HostBoard, SegmentWaitsForTheInputOfEveryRank) {
  BoardWorld<float> all(2, RoundOf(DType::kF32, 2 * kRoundBytes / sizeof(float)), true);
  all.JoinAll();
  EXPECT_EQ(all.Work(0), 0U);
  all.executors_[0]->InputReady(2 * kRoundBytes);
  EXPECT_EQ(all.Work(0), 0U);
  all.executors_[1]->InputReady(kRoundBytes + 1);
  EXPECT_EQ(all.Work(1), 2 * kRoundBytes);
  EXPECT_FALSE(all.complete(0) || all.complete(1));
  all.executors_[1]->InputReady(2 * kRoundBytes);
  EXPECT_EQ(all.Work(1), 2 * kRoundBytes);
  EXPECT_TRUE(all.complete(0) && all.complete(1));
  all.ExpectSums();
}

// What trainers write to their memory meanwhile changes the results of no two ranks differently.
TEST(HostBoard, TrainersThatWriteMeanwhileLeaveTheSameBytesOnAllRanks) {
  BoardWorld<float> all(3, RoundOf(DType::kF32, 3 * kRoundBytes / sizeof(float)));
  all.JoinAll();
  (void)all.Work(0, 1);
  for (float& value : all.inputs_[1]) value = 50;
  for (std::size_t i = kRoundBytes / sizeof(float); i < all.outputs_[2].size(); ++i) all.outputs_[2][i] = 70;
  (void)all.Work(1);
  EXPECT_TRUE(all.complete(0));
  EXPECT_EQ(all.outputs_[0], all.outputs_[1]);
  EXPECT_EQ(all.outputs_[0], all.outputs_[2]);
}

TEST(HostBoard, RankThatLeavesInTheMiddleEndsTheRoundForAll) {
  BoardWorld<float> all(3, RoundOf(DType::kF32, 2 * kRoundBytes / sizeof(float)));
  all.JoinAll();
  (void)all.Work(0, 1);
  all.Leave(1);
  EXPECT_FALSE(all.rounds_[0]->can_advance());
  EXPECT_EQ(all.Work(0), 0U);
  EXPECT_FALSE(all.complete(0) || all.complete(2));
  all.Join(1);  // the same rank, which cannot make it whole again
  EXPECT_EQ(all.Work(1), 0U);
  for (const std::uint32_t rank : {0U, 1U, 2U}) all.Leave(rank);
  all.JoinAll();  // nothing is left of the old one
  (void)all.Work(0);
  EXPECT_TRUE(all.complete(2));
}

TEST(HostBoard, RanksThatLeaveAFinishedRoundTakeNothingFromTheOthers) {
  BoardWorld<float> all(3, RoundOf(DType::kF32, 100));
  all.JoinAll();
  (void)all.Work(2);
  all.Leave(0);
  EXPECT_TRUE(all.complete(1) && all.complete(2));
  all.Leave(1);
  all.Leave(2);
}

TEST(HostBoard, RanksThatDifferLearnFromEachOtherAndNothingIsSummed) {
  BoardWorld<float> all(2, RoundOf(DType::kF32, 100));
  all.Join(0);
  EXPECT_EQ(all.rounds_[0]->DiffersFrom(Rank(0)), nullptr);
  all.Join(1, RoundOf(DType::kF32, 50));
  ASSERT_NE(all.rounds_[1]->DiffersFrom(Rank(1)), nullptr);
  EXPECT_EQ(all.rounds_[1]->DiffersFrom(Rank(1))->peer, all.PeerOf(0));
  EXPECT_EQ(all.rounds_[0]->DiffersFrom(Rank(0))->peer, all.PeerOf(1));
  EXPECT_EQ(all.Work(1), 0U);
  EXPECT_EQ(all.outputs_[0][0], 99);
}

TEST(HostBoard, RanksAreHereFromEnterToExit) {
  HostBoard board;
  KeptMember member;
  const std::vector<PeerId> members = {PeerId(3), PeerId(1), PeerId(2)};
  board.Enter(PeerId(1), &member);
  EXPECT_EQ(board.RanksHere(members), std::vector{Rank(1)});
  board.Enter(PeerId(2), &member);
  EXPECT_EQ(board.RanksHere(members), (std::vector{Rank(1), Rank(2)}));
  board.Exit(PeerId(1));
  EXPECT_EQ(board.RanksHere(members), std::vector{Rank(2)});
}

}  // namespace
}  // namespace ringway::collective
