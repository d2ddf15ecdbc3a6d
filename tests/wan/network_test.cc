#include "tests/wan/network.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ringway::wan {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kMtu = 1500;
const TimePoint kStart{std::chrono::seconds(1)};

// Two hosts, 100 bytes a millisecond out of each, 10 ms from one to the other.
Scenario Two() {
  Scenario scenario;
  scenario.hosts.assign(
      2, Host{.site = "s", .uplink = {.bytes_per_second = 100'000, .queue_seconds = 0.05}, .way_out = {}});
  scenario.paths.assign(2, std::vector<Path>(2));
  for (auto& row : scenario.paths) {
    for (Path& path : row) path.delay = milliseconds(10);
  }
  return scenario;
}

PacketInfo Packet(std::uint32_t segments) {
  return {.destination = 0,
          .header_bytes = 50,
          .payload_bytes = segments * (kMtu - 50),
          .segments = segments,
          .segment_bytes = kMtu - 50};
}

std::uint32_t Arrived(const std::vector<Delivery>& deliveries) {
  return std::accumulate(deliveries.begin(), deliveries.end(), 0U,
                         [](std::uint32_t sum, const Delivery& delivery) { return sum + delivery.count; });
}

TEST(WanNetwork, PacketArrivesAfterItsBytesAndTheDelay) {
  Network network(Two());
  const auto first = network.Send(0, 1, Packet(1), kStart);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].due, kStart + milliseconds(15 + 10));
  const auto second = network.Send(0, 1, Packet(2), kStart);  // behind the first
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].due, kStart + milliseconds(15 + 30 + 10));
  EXPECT_EQ(network.traffic(0, 1).bytes, 3u * kMtu);
}

TEST(WanNetwork, HostsOfASiteShareItsWayOutAndNothingInside) {
  Scenario scenario;
  for (const char* const site : {"a", "a", "b"}) {
    scenario.hosts.push_back({.site = site, .uplink = {}, .way_out = {.bytes_per_second = 100'000}});
  }
  scenario.paths.assign(3, std::vector<Path>(3));
  Network network(scenario);
  EXPECT_EQ(network.Send(0, 2, Packet(1), kStart)[0].due, kStart + milliseconds(15));
  EXPECT_EQ(network.Send(1, 2, Packet(1), kStart)[0].due, kStart + milliseconds(30)) << "behind its neighbour's";
  EXPECT_EQ(network.Send(0, 1, Packet(1), kStart)[0].due, kStart);
  EXPECT_EQ(network.Send(2, 0, Packet(1), kStart)[0].due, kStart + milliseconds(15)) << "another site's way out";
}

TEST(WanNetwork, UplinkIsSharedByAllPathsAndAPathIsNot) {
  Scenario scenario = Two();
  scenario.hosts.push_back(scenario.hosts[0]);
  scenario.paths.assign(3, std::vector<Path>(3));
  scenario.paths[0][1].pipe.bytes_per_second = 50'000;
  Network network(scenario);
  EXPECT_EQ(network.Send(0, 1, Packet(1), kStart)[0].due, kStart + milliseconds(15 + 30));
  EXPECT_EQ(network.Send(0, 2, Packet(1), kStart)[0].due, kStart + milliseconds(30)) << "the uplink's turn";
  EXPECT_EQ(network.Send(1, 2, Packet(1), kStart)[0].due, kStart + milliseconds(15)) << "another uplink";
}

TEST(WanNetwork, QueueDropsTheTailOfWhatDoesNotFit) {
  Network network(Two());  // 50 ms of queue: three packets of 15 ms, and no fourth
  const auto deliveries = network.Send(0, 1, Packet(10), kStart);
  EXPECT_EQ(Arrived(deliveries), 3u);
  EXPECT_EQ(deliveries[0].first, 0u);
  EXPECT_EQ(network.traffic(0, 1).overflowed, 7u);
  EXPECT_EQ(Arrived(network.Send(0, 1, Packet(1), kStart + milliseconds(15))), 1u) << "one has gone out";
}

TEST(WanNetwork, LossIsByPacketAsOftenAsSaidAndTheSameForOneSeed) {
  Scenario scenario = Two();
  scenario.hosts[0].uplink = {};
  scenario.paths[0][1].loss = 0.1;
  Network network(scenario), again(scenario);
  std::uint32_t arrived = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto deliveries = network.Send(0, 1, Packet(10), kStart);
    arrived += Arrived(deliveries);
    EXPECT_EQ(Arrived(deliveries), Arrived(again.Send(0, 1, Packet(10), kStart)));
  }
  EXPECT_NEAR(arrived, 9000, 200);
  EXPECT_EQ(network.traffic(0, 1).lost, 10'000u - arrived);
}

TEST(WanNetwork, BlackHoleIsOneWayAndEndsWhenTheScenarioSaysSo) {
  Scenario scenario = Two();
  scenario.paths[0][1].black_hole = true;
  Network network(scenario);
  EXPECT_EQ(Arrived(network.Send(0, 1, Packet(1), kStart)), 0u);
  EXPECT_EQ(Arrived(network.Send(1, 0, Packet(1), kStart)), 1u);
  network.Change(Two());
  EXPECT_EQ(Arrived(network.Send(0, 1, Packet(1), kStart)), 1u);
}

TEST(WanNetwork, ShorterDelayDoesNotReorder) {
  Network network(Two());
  const TimePoint due = network.Send(0, 1, Packet(1), kStart)[0].due;
  Scenario near = Two();
  near.paths[0][1].delay = milliseconds(1);
  near.hosts[0].uplink = {};
  network.Change(near);
  EXPECT_EQ(network.Send(0, 1, Packet(1), kStart)[0].due, due);
}

TEST(WanNetwork, CorruptPacketsTravelAlone) {
  Scenario scenario = Two();
  scenario.hosts[0].uplink = {};
  scenario.paths[0][1].corrupt = 1;
  Network network(scenario);
  const auto deliveries = network.Send(0, 1, Packet(3), kStart);
  ASSERT_EQ(deliveries.size(), 3u);
  for (const Delivery& delivery : deliveries) EXPECT_TRUE(delivery.corrupt && delivery.count == 1);
}

}  // namespace
}  // namespace ringway::wan
