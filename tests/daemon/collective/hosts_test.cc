// Ranks of several hosts: those of one read each other's memory, and one frame a chunk travels between two hosts.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "daemon/collective/executor.h"
#include "daemon/collective/host_board.h"
#include "proto/collective/host_schedule.h"

namespace ringway::collective {
namespace {

constexpr std::uint64_t kHostSegmentBytes = 4096;
constexpr std::uint64_t kSlice = 1000;

class HostsWorld final : private BoardMember {
 public:
  // `sizes`: ranks by host. Ranks of a host are neighbours on the ring.
  HostsWorld(const std::vector<std::uint32_t>& sizes, const Descriptor& descriptor, bool staged = false)
      : descriptor_(descriptor), boards_(sizes.size()), sent_bytes_(sizes.size()) {
    for (std::uint32_t host = 0; host < sizes.size(); ++host) {
      for (std::uint32_t i = 0; i < sizes[host]; ++i) {
        routes_.ring.emplace_back(world());
        routes_.sites.push_back(host);
        boards_[host].Enter(PeerOf(world() - 1), this);
      }
    }
    for (std::uint32_t rank = 0; rank < world(); ++rank) {
      auto& input = inputs_.emplace_back(descriptor.count);
      for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>((i + 3 * rank) % 7);
      outputs_.emplace_back(descriptor.count, 99.0F);
    }
    executors_.resize(world());
    rounds_.resize(world());
    staged_ = staged;
  }

  std::uint32_t world() const { return static_cast<std::uint32_t>(routes_.ring.size()); }
  std::uint32_t host(std::uint32_t rank) const { return routes_.sites[rank]; }
  std::uint64_t sent_bytes(std::uint32_t host) const { return sent_bytes_[host]; }
  std::uint64_t sent_frames() const { return sent_frames_; }
  std::uint64_t direct_reads() const { return direct_reads_; }
  Executor& executor(std::uint32_t rank) { return *executors_[rank]; }
  std::vector<float>& output(std::uint32_t rank) { return outputs_[rank]; }

  void Join(std::uint32_t rank) {
    std::vector<PeerId> members;
    for (std::uint32_t other = 0; other < world(); ++other) members.push_back(PeerOf(other));
    const std::vector<Rank> here = boards_[host(rank)].RanksHere(members);
    ASSERT_TRUE(IsSite(routes_, here));
    Schedule schedule = MakeSchedule(OpKind::kAllReduce, Algorithm::kHierarchical, routes_, Rank(rank));
    if (here.size() > 1) schedule = WithoutHost(std::move(schedule), here);
    executors_[rank] =
        std::make_unique<Executor>(Share(std::move(schedule)),
                                   ExecutorOptions{.descriptor = descriptor_,
                                                   .shape = ShapeOf(descriptor_, world(), Rank(rank)),
                                                   .world_size = world(),
                                                   .segment_bytes_max = kHostSegmentBytes,
                                                   .input = reinterpret_cast<const std::byte*>(inputs_[rank].data()),
                                                   .output = reinterpret_cast<std::byte*>(outputs_[rank].data()),
                                                   .input_bytes_ready = staged_ ? 0 : descriptor_.count * sizeof(float),
                                                   .stamp = {Epoch(10 + rank), 100 - rank},
                                                   .self = Rank(rank)});
    if (here.size() > 1) {
      rounds_[rank] = boards_[host(rank)].Join({.group = "g", .epoch = Epoch::Of(1, 2), .op = {ChannelId(1), 5}}, here,
                                               PeerOf(rank), executors_[rank].get());
    }
  }
  void JoinAll() {
    for (std::uint32_t rank = 0; rank < world(); ++rank) Join(rank);
  }
  void Stage(std::uint32_t rank, std::uint64_t bytes) { executors_[rank]->InputReady(bytes); }
  void Leave(std::uint32_t rank) {
    boards_[host(rank)].Leave(rounds_[rank], Rank(rank));
    executors_[rank] = nullptr;
  }

  // Until nothing moves; frames overtake each other.
  void Run(std::uint64_t seed = 1) {
    std::mt19937_64 random(seed);
    for (WorkAndSend(); !wire_.empty(); WorkAndSend()) {
      std::swap(wire_[random() % wire_.size()], wire_.back());
      const Frame frame = std::move(wire_.back());
      wire_.pop_back();
      if (executors_[frame.to.value] == nullptr) continue;
      Executor& to = *executors_[frame.to.value];
      const auto claim = to.Take(frame.header, frame.from);
      ASSERT_TRUE(claim.ok() && !claim.value().skipped);
      if (claim.value().direct != nullptr) {
        std::memcpy(claim.value().direct, frame.payload.data(), frame.payload.size());
        ++direct_reads_;
      }
      to.Accept(claim.value(), frame.header, frame.payload);
    }
  }

  void ExpectSums() const {
    for (std::size_t i = 0; i < descriptor_.count; ++i) {
      float sum = 0;
      for (const auto& input : inputs_) sum += input[i];
      if (descriptor_.op == ReduceOp::kAvg) sum /= static_cast<float>(world());
      for (const auto& output : outputs_) ASSERT_EQ(output[i], sum) << "element " << i;
    }
  }

 private:
  struct Frame {
    Rank from;
    Rank to;
    SegmentHeader header;
    std::vector<std::byte> payload;
  };

  static PeerId PeerOf(std::uint32_t rank) { return PeerId(rank + 10); }
  void OnRoundAdvanced(const OpName& /*op*/) override {}

  void WorkAndSend() {
    bool moves = true;
    while (std::exchange(moves, false)) {
      for (std::uint32_t rank = 0; rank < world(); ++rank) {
        if (executors_[rank] == nullptr) continue;
        moves = executors_[rank]->Work(kSlice) > 0 || moves;
        SendFrom(rank);
      }
    }
  }
  void SendFrom(std::uint32_t rank) {
    std::vector<Rank> targets;
    executors_[rank]->ForEachReady([&](Rank to) { targets.push_back(to); });
    for (const Rank to : targets) {
      while (auto ready = executors_[rank]->PopReady(to, kPayloadBytesMax)) {
        const Executor::Encoded encoded = executors_[rank]->Encode(*ready, {});
        ASSERT_NE(host(rank), host(to.value));
        sent_bytes_[host(rank)] += encoded.payload.size();
        ++sent_frames_;
        wire_.push_back({Rank(rank), to, encoded.header, {encoded.payload.begin(), encoded.payload.end()}});
      }
    }
  }

  const Descriptor descriptor_;
  Routes routes_;
  std::vector<HostBoard> boards_;
  std::vector<std::vector<float>> inputs_, outputs_;
  std::vector<std::unique_ptr<Executor>> executors_;
  std::vector<HostRound*> rounds_;
  std::vector<Frame> wire_;
  std::vector<std::uint64_t> sent_bytes_;
  std::uint64_t sent_frames_ = 0;
  std::uint64_t direct_reads_ = 0;
  bool staged_ = false;
};

Descriptor SumOf(std::uint64_t count, ReduceOp op = ReduceOp::kSum) {
  return {
      .kind = OpKind::kAllReduce, .dtype = DType::kF32, .op = op, .schedule = Algorithm::kHierarchical, .count = count};
}

TEST(Hosts, SumOfAllIsAtAllWhateverTheOrder) {
  for (const auto& sizes : std::vector<std::vector<std::uint32_t>>{{2, 2}, {4, 4}, {1, 3}, {3, 1, 2}, {8, 8}}) {
    for (const std::uint64_t count : {0UL, 1UL, 1000UL, 50000UL}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg}) {
        SCOPED_TRACE(std::to_string(sizes.size()) + " hosts, count " + std::to_string(count));
        HostsWorld all(sizes, SumOf(count, op));
        all.JoinAll();
        all.Run(count + sizes.size());
        for (std::uint32_t rank = 0; rank < all.world(); ++rank) {
          ASSERT_TRUE(all.executor(rank).complete()) << rank;
          EXPECT_EQ(all.executor(rank).stamp().prepared, Epoch(10));
          EXPECT_EQ(all.executor(rank).stamp().acknowledged, 100 - (all.world() - 1));
        }
        if (op == ReduceOp::kSum) all.ExpectSums();
        for (std::uint32_t rank = 1; rank < all.world(); ++rank) ASSERT_EQ(all.output(rank), all.output(0));
      }
    }
  }
}

TEST(Hosts, EachOfTwoHostsSendsTheBytesOfOneRank) {
  constexpr std::uint64_t kCount = 64 * 1024;
  HostsWorld all({4, 4}, SumOf(kCount));
  all.JoinAll();
  all.Run();
  all.ExpectSums();
  for (const std::uint32_t host : {0U, 1U}) EXPECT_EQ(all.sent_bytes(host), kCount * sizeof(float));
}

TEST(Hosts, NothingIsSentBeforeTheInputsOfAllOfAHostAreThere) {
  constexpr std::uint64_t kBytes = 40000;
  HostsWorld all({2, 2}, SumOf(kBytes / sizeof(float)), true);
  for (const std::uint32_t rank : {0U, 2U, 3U}) all.Join(rank);
  all.Stage(0, kBytes);
  all.Run();
  EXPECT_EQ(all.sent_frames(), 0U);
  all.Join(1);
  all.Run();
  EXPECT_EQ(all.sent_frames(), 0U);
  all.Stage(1, kBytes / 2);
  all.Run();
  EXPECT_GT(all.sent_bytes(0), 0U);
  EXPECT_LE(all.sent_bytes(0), kBytes / 2);
  EXPECT_EQ(all.sent_bytes(1), 0U);
  for (const std::uint32_t rank : {1U, 2U, 3U}) all.Stage(rank, kBytes);
  all.Run();
  for (std::uint32_t rank = 0; rank < all.world(); ++rank) EXPECT_TRUE(all.executor(rank).complete());
  all.ExpectSums();
}

TEST(Hosts, RankThatLeavesEndsTheSumsOfItsHost) {
  HostsWorld all({2, 2}, SumOf(10000), true);
  all.JoinAll();
  for (const std::uint32_t rank : {0U, 1U, 2U}) all.Stage(rank, 40000);
  all.Leave(1);
  all.Stage(3, 40000);
  all.Run();
  EXPECT_EQ(all.sent_bytes(0), 0U);
  EXPECT_FALSE(all.executor(0).complete() || all.executor(2).complete() || all.executor(3).complete());
}

TEST(Hosts, RanksThatLeaveAFinishedOperationTakeNothingFromTheOthers) {
  HostsWorld all({2, 2}, SumOf(10000));
  all.JoinAll();
  all.Run();
  all.Leave(0);
  EXPECT_TRUE(all.executor(1).complete());
  all.ExpectSums();
}

// A received segment goes to the other ranks from where the daemon has read it, not from a trainer's memory.
TEST(Hosts, FinishedSegmentsAreNotReadIntoATrainersMemory) {
  HostsWorld all({2, 2}, SumOf(10000));
  all.JoinAll();
  all.Run();
  EXPECT_TRUE(all.executor(0).complete());
  EXPECT_EQ(all.direct_reads(), 0U);
  HostsWorld alone({1, 1}, SumOf(10000));
  alone.JoinAll();
  alone.Run();
  EXPECT_GT(alone.direct_reads(), 0U);
}

}  // namespace
}  // namespace ringway::collective
