#include "daemon/runtime/pair_lanes.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <map>

namespace ringway::daemon {
namespace {

class FakeLane final : public net::Lane {
 public:
  FakeLane(LaneId id, std::uint32_t payload_bytes_max) : Lane({PeerId(2), id}, payload_bytes_max) {}
  void Start(net::UniqueFd, std::span<const std::byte>, net::LaneSink*) override {}
  void Close() override {}
  bool idle() const override { return !busy; }
  bool Send(net::LaneOutbound) override { return true; }

  std::uint64_t limit() const {
    std::uint64_t bytes_per_second = 0;
    socklen_t bytes = sizeof bytes_per_second;
    EXPECT_EQ(::getsockopt(socket_.get(), SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_second, &bytes), 0);
    return bytes_per_second;
  }

  bool busy = false;

 protected:
  int fd() override { return socket_.get(); }

 private:
  net::UniqueFd socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
};

struct PairLanesTest : testing::Test {
  void Make(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      lanes.push_back(
          std::make_shared<FakeLane>(LaneId(i), i < SmallLanes(count) ? kSmallLanePayloadBytes : kPayloadBytesMax));
    }
  }
  FakeLane& At(std::size_t i) { return static_cast<FakeLane&>(*lanes[i]); }
  std::vector<std::size_t> Used(std::size_t large, Turns from = {}) const {
    std::vector<std::size_t> used;
    ForEachUsed(
        lanes, large, [&](std::size_t i, net::Lane&) { used.push_back(i); }, from);
    return used;
  }
  // The lanes that take `segments`, which all fit everywhere.
  std::vector<std::uint32_t> Round(int segments, std::size_t large = 4) {
    std::vector<std::uint32_t> took;
    GiveRound(lanes, large, turns, [&](net::Lane& lane) {
      if (segments-- <= 0) return false;
      took.push_back(lane.label().id.value);
      return true;
    });
    return took;
  }

  Lanes lanes;
  Turns turns;
};

using Indices = std::vector<std::size_t>;
using Ids = std::vector<std::uint32_t>;

TEST_F(PairLanesTest, RolesFollowFromTheCount) {
  const std::map<std::size_t, std::size_t> small{{0, 0}, {1, 0}, {2, 1}, {5, 1}, {6, 2}, {8, 2}, {9, 3}, {128, 3}};
  for (const auto& [count, expected] : small) EXPECT_EQ(SmallLanes(count), expected) << count;
}

TEST_F(PairLanesTest, UsedAreTheSmallOnesAndTheFirstLargeOnes) {
  Make(11);
  EXPECT_EQ(Used(4), (Indices{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Used(4, {.small = 2}), (Indices{2, 0, 1, 3, 4, 5, 6}));
  EXPECT_EQ(Used(4, {.large = 5}), (Indices{0, 1, 2, 5, 6, 3, 4}));
  EXPECT_EQ(Used(4, {.small = 1, .large = 5, .large_first = true}), (Indices{5, 6, 3, 4, 1, 2, 0}));
  lanes[1] = nullptr;
  lanes[4] = nullptr;
  EXPECT_EQ(Used(4), (Indices{0, 2, 3, 5, 6, 7})) << "the next ones stand in for what is down";
}

TEST_F(PairLanesTest, ALoneLaneIsUsed) {
  Make(1);
  EXPECT_EQ(Used(1), Indices{0});
}

TEST_F(PairLanesTest, SegmentsOneByOneTakeTheSmallLanesInTurn) {
  Make(11);
  EXPECT_EQ(Round(1), Ids{0});
  EXPECT_EQ(Round(1), Ids{1});
  EXPECT_EQ(Round(1), Ids{2});
  EXPECT_EQ(Round(1), Ids{0});
  lanes[1] = nullptr;
  EXPECT_EQ(Round(1), Ids{2});
}

TEST_F(PairLanesTest, ManySegmentsTakeAllIdleLanes) {
  Make(11);
  At(1).busy = At(4).busy = true;
  EXPECT_EQ(Round(9), (Ids{0, 2, 3, 5, 6}));
  EXPECT_EQ(Round(1), Ids{0}) << "after the last that took one";
}

TEST_F(PairLanesTest, LargeSegmentsOneByOneTakeTheLargeLanesInTurn) {
  Make(11);
  const auto next = [&] {
    std::uint32_t took = 0;
    bool given = false;
    GiveRound(lanes, 4, turns, [&](const net::Lane& lane) {
      if (given || !TakesEverySize(lane)) return false;
      took = lane.label().id.value;
      return given = true;
    });
    return took;
  };
  Ids took;
  for (int i = 0; i < 6; ++i) took.push_back(next());
  EXPECT_EQ(took, (Ids{3, 4, 5, 6, 3, 4}));
  EXPECT_EQ(turns.small, 0U);
}

TEST_F(PairLanesTest, EachLaneMaySendABitMoreThanAllTogetherAndSmallOnesEnoughForAnOperation) {
  Make(11);
  LimitBursts(lanes, 80e6);
  for (const std::size_t i : {0, 3, 10}) EXPECT_EQ(At(i).limit(), 120'000'000U) << i;
  LimitBursts(lanes, 400e3);
  EXPECT_EQ(At(3).limit(), 600'000U);
  EXPECT_EQ(At(0).limit(), 1'000'000U);
  lanes[1] = nullptr;
  LimitBursts(lanes, 0);
  EXPECT_EQ(At(0).limit(), ~std::uint64_t{0});
  EXPECT_EQ(At(3).limit(), ~std::uint64_t{0});
}

TEST_F(PairLanesTest, SmallLanesAloneAreJudgedByTheirWindow) {
  constexpr Duration kFar = std::chrono::milliseconds(100);
  std::vector<net::TcpTraffic> traffic(
      11, {.round_trip = kFar, .window_bytes = 1000, .fresh_window_bytes = 14'000, .in_use = true});
  traffic[1] = {.round_trip = kFar, .window_bytes = 20'000, .fresh_window_bytes = 14'000};
  traffic[2].round_trip = kFar / 50;
  const std::vector<flow::LaneAllowance> allowances = AllowancesOf(traffic);
  ASSERT_EQ(allowances.size(), 3U);
  EXPECT_EQ(allowances[0].now, 1000U);
  EXPECT_EQ(allowances[0].fresh, 14'000U);
  EXPECT_TRUE(allowances[0].in_use);
  EXPECT_EQ(allowances[1].now, 20'000U);
  EXPECT_FALSE(allowances[1].in_use);
  EXPECT_EQ(allowances[2].now, 0U) << "fast enough";
}

TEST_F(PairLanesTest, IsBackloggedWhileAllLargeLanesInUseAreBusy) {
  Make(11);
  EXPECT_FALSE(IsBacklogged(lanes, 2));
  At(3).busy = At(4).busy = true;
  EXPECT_TRUE(IsBacklogged(lanes, 2));
  EXPECT_FALSE(IsBacklogged(lanes, 3));
}

}  // namespace
}  // namespace ringway::daemon
