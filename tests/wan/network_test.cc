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
  Host host;
  host.site = "s";
  host.uplink = {.bytes_per_second = 100'000, .queue_seconds = 0.05};
  scenario.hosts.assign(2, host);
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

TEST(WanNetwork, HostsOfASiteShareItsUplinkAndNothingInside) {
  Scenario scenario;
  for (const char* const site : {"a", "a", "b"}) {
    Host host;
    host.site = site;
    host.site_uplink.bytes_per_second = 100'000;
    scenario.hosts.push_back(host);
  }
  scenario.paths.assign(3, std::vector<Path>(3));
  Network network(scenario);
  EXPECT_EQ(network.Send(0, 2, Packet(1), kStart)[0].due, kStart + milliseconds(15));
  EXPECT_EQ(network.Send(1, 2, Packet(1), kStart)[0].due, kStart + milliseconds(30)) << "behind its neighbour's";
  EXPECT_EQ(network.Send(0, 1, Packet(1), kStart)[0].due, kStart);
  EXPECT_EQ(network.Send(2, 0, Packet(1), kStart)[0].due, kStart + milliseconds(15)) << "another site's uplink";
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

TEST(WanNetwork, QueueThatDropsSuperPacketsTakesOneWholeOrNotAtAll) {
  Scenario scenario = Two();  // 50 ms of queue
  scenario.hosts[0].drops = Drops::kSuperPackets;
  Network network(scenario);
  const auto first = network.Send(0, 1, Packet(10), kStart);
  EXPECT_EQ(Arrived(first), 10u) << "it finds the uplink free";
  EXPECT_EQ(first[0].due, kStart + milliseconds(150 + 10));
  EXPECT_TRUE(network.Send(0, 1, Packet(2), kStart + milliseconds(121)).empty()) << "29 ms are left, and 30 ms more";
  EXPECT_EQ(network.traffic(0, 1).overflowed, 2u);
  EXPECT_EQ(Arrived(network.Send(0, 1, Packet(1), kStart + milliseconds(121))), 1u);
  EXPECT_EQ(Arrived(network.Send(0, 1, Packet(2), kStart + milliseconds(145))), 2u);
}

TEST(WanNetwork, PathAndDownlinkDropSuperPacketsAsTheirHostsSay) {
  Scenario scenario = Two();
  scenario.hosts[0].uplink = {};
  scenario.hosts[0].drops = Drops::kSuperPackets;
  scenario.hosts[1].downlink = {.bytes_per_second = 100'000, .queue_seconds = 0.05};
  scenario.paths[0][1].pipe = {.bytes_per_second = 100'000, .queue_seconds = 0.05};
  Network network(scenario);
  EXPECT_EQ(Arrived(network.Send(0, 1, Packet(1), kStart)), 1u);
  EXPECT_TRUE(network.Send(0, 1, Packet(3), kStart).empty()) << "the path has room for two";
  EXPECT_EQ(Arrived(network.Advance(Stage::kDownlink, 0, 1, Packet(5), kStart)), 3u) << "packets";
  scenario.hosts[1].drops = Drops::kSuperPackets;
  network.Change(scenario);
  EXPECT_TRUE(network.Advance(Stage::kDownlink, 0, 1, Packet(3), kStart + milliseconds(30)).empty());
  EXPECT_EQ(Arrived(network.Advance(Stage::kDownlink, 0, 1, Packet(2), kStart + milliseconds(30))), 2u);
}

TEST(WanNetwork, PolicerTakesPacketsOneByOneWhateverQueuesDrop) {
  Scenario scenario = Two();
  scenario.hosts[0].uplink = {};
  scenario.hosts[0].policer = {.bytes_per_second = 100'000, .burst_bytes = 4.0 * kMtu};
  scenario.hosts[0].drops = Drops::kSuperPackets;
  Network network(scenario);
  EXPECT_EQ(Arrived(network.Send(0, 1, Packet(10), kStart)), 4u);
}

TEST(WanNetwork, UplinkBehindItsQueueAtTheDeviceDelaysAndDropsNothing) {
  Scenario scenario = Two();
  scenario.hosts[0].drops = Drops::kDevice;
  scenario.paths[0][1].pipe = {.bytes_per_second = 50'000, .queue_seconds = 0.05};
  Network network(scenario);
  const auto other_path = network.Send(0, 1, Packet(10), kStart);
  EXPECT_LT(Arrived(other_path), 10u) << "the path's queue drops packets";
  EXPECT_GT(Arrived(other_path), 0u);
  scenario.paths[0][1].pipe = {};
  network.Change(scenario);
  const auto deliveries = network.Send(0, 1, Packet(10), kStart);
  EXPECT_EQ(Arrived(deliveries), 10u);
  EXPECT_EQ(deliveries[0].due, kStart + milliseconds(300 + 10)) << "behind the first ten";
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

TEST(WanNetwork, HostThatLetsNoneInIsReachedOnlyByConnectionsOfItsOwn) {
  Scenario scenario = Two();
  scenario.hosts[1].inbound = false;
  Network network(scenario);
  PacketInfo opening = Packet(1);
  opening.opens = true;
  EXPECT_TRUE(network.Send(0, 1, opening, kStart).empty());
  EXPECT_EQ(network.traffic(0, 1).turned_away, 1u);
  EXPECT_EQ(network.Send(1, 0, opening, kStart).size(), 1u);
  EXPECT_EQ(network.Send(0, 1, Packet(1), kStart).size(), 1u);
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

TEST(WanNetwork, JitterIsUniformUpToItsMostAndKeepsTheOrder) {
  Scenario scenario = Two();
  scenario.hosts[0].uplink = {};
  scenario.paths[0][1].jitter = milliseconds(8);
  Network network(scenario);
  double sum_ms = 0;
  int above_half = 0;
  TimePoint last;
  constexpr int kPackets = 4000;
  for (int i = 0; i < kPackets; ++i) {
    const TimePoint sent = kStart + milliseconds(20 * i);  // far enough from each other to be drawn for anew
    const auto delivery = network.Send(0, 1, Packet(1), sent);
    const Nanoseconds extra = delivery[0].due - sent - milliseconds(10);
    ASSERT_TRUE(extra >= milliseconds(0) && extra <= milliseconds(8)) << extra.count();
    sum_ms += static_cast<double>(extra.count()) / 1e6;
    above_half += extra > milliseconds(4) ? 1 : 0;
  }
  EXPECT_NEAR(sum_ms / kPackets, 4, 0.2);
  EXPECT_NEAR(above_half, 0.5 * kPackets, 150);
  bool held_back = false;
  for (int i = 0; i < kPackets; ++i) {
    const TimePoint due = network.Send(0, 1, Packet(1), kStart + milliseconds(20 * kPackets + i))[0].due;
    ASSERT_GE(due, last);
    held_back |= due == last;
    last = due;
  }
  EXPECT_TRUE(held_back) << "a shorter delay waits for a longer one before it";
}

TEST(WanNetwork, JitterReordersWhereTheScenarioSaysSo) {
  Scenario scenario = Two();
  scenario.hosts[0].uplink = {};
  scenario.paths[0][1].jitter = milliseconds(8);
  scenario.paths[0][1].reorder = true;
  Network network(scenario);
  const auto deliveries = network.Send(0, 1, Packet(10), kStart);
  ASSERT_EQ(deliveries.size(), 10u) << "each has a delay of its own";
  bool overtakes = false;
  for (std::size_t i = 1; i < deliveries.size(); ++i) overtakes |= deliveries[i].due < deliveries[i - 1].due;
  EXPECT_TRUE(overtakes);
}

TEST(WanNetwork, PolicerDropsTheExcessAtOnceAndDelaysNothing) {
  Scenario scenario = Two();
  scenario.hosts[0].uplink = {};
  scenario.hosts[0].policer = {.bytes_per_second = 100'000, .burst_bytes = 4.0 * kMtu};
  Network network(scenario);
  const auto burst = network.Send(0, 1, Packet(10), kStart);
  EXPECT_EQ(Arrived(burst), 4u) << "what the bucket holds";
  EXPECT_EQ(burst[0].due, kStart + milliseconds(10)) << "no queue";
  EXPECT_EQ(network.traffic(0, 1).policed, 6u);
  EXPECT_EQ(Arrived(network.Send(0, 1, Packet(10), kStart + milliseconds(30))), 2u) << "30 ms of its rate";
  EXPECT_EQ(Arrived(network.Send(0, 1, Packet(10), kStart + milliseconds(10'000))), 4u) << "never more than its depth";
  EXPECT_EQ(Arrived(network.Send(1, 0, Packet(10), kStart)), 3u) << "the other host has none";
}

TEST(WanNetwork, DownlinkIsSharedInTheOrderOfArrivalAndDropsTheTail) {
  Scenario scenario = Two();
  scenario.hosts.push_back(scenario.hosts[0]);
  for (Host& host : scenario.hosts) host.uplink = {};
  scenario.hosts[0].downlink = {.bytes_per_second = 100'000, .queue_seconds = 0.05};
  scenario.paths.assign(3, std::vector<Path>(3));
  scenario.paths[1][0].delay = milliseconds(100);
  scenario.paths[2][0].delay = milliseconds(10);
  Network network(scenario);
  const auto far = network.Send(1, 0, Packet(1), kStart);
  const auto near = network.Send(2, 0, Packet(5), kStart + milliseconds(1));
  ASSERT_EQ(far[0].next, Stage::kDownlink);
  ASSERT_EQ(near[0].due, kStart + milliseconds(11));
  const auto first = network.Advance(Stage::kDownlink, 2, 0, Packet(5), near[0].due);
  EXPECT_EQ(Arrived(first), 3u) << "50 ms of queue: three packets of 15 ms";
  EXPECT_EQ(first[0].due, kStart + milliseconds(11 + 45));
  EXPECT_EQ(first[0].next, Stage::kArrived);
  EXPECT_EQ(network.traffic(2, 0).overflowed, 2u);
  EXPECT_EQ(network.Advance(Stage::kDownlink, 1, 0, Packet(1), far[0].due)[0].due, kStart + milliseconds(115))
      << "sent first, there last: it waits for nobody";
  EXPECT_EQ(network.Send(0, 1, Packet(1), kStart)[0].next, Stage::kArrived) << "another host's downlink";
}

TEST(WanNetwork, HostsMeetAtTheirSitesUplinkWhenTheirOwnHaveLetThemGo) {
  Scenario scenario = Two();
  scenario.hosts.push_back(scenario.hosts[0]);
  scenario.hosts[2].site = "t";
  for (Host& host : scenario.hosts) host.site_uplink.bytes_per_second = 1'000'000;
  scenario.paths.assign(3, std::vector<Path>(3));
  Network network(scenario);
  const auto slow = network.Send(0, 2, Packet(3), kStart);
  const auto quick = network.Send(1, 2, Packet(1), kStart);
  ASSERT_EQ(slow[0].next, Stage::kSiteUplink);
  ASSERT_EQ(quick[0].due, kStart + milliseconds(15));
  EXPECT_EQ(network.Advance(Stage::kSiteUplink, 1, 2, Packet(1), quick[0].due)[0].due,
            kStart + milliseconds(15) + std::chrono::microseconds(1500))
      << "not behind what comes out of the other uplink later";
  EXPECT_EQ(network.Send(0, 1, Packet(1), kStart + milliseconds(100))[0].next, Stage::kArrived) << "inside";
}

TEST(WanNetwork, UplinkFollowsItsScheduleFromItsStart) {
  Scenario scenario = Two();
  scenario.hosts[0].schedule = {{.at = 1, .bytes_per_second = 10'000}, {.at = 3, .bytes_per_second = 100'000}};
  Network network(scenario);
  const auto took = [&](TimePoint at) { return network.Send(0, 1, Packet(1), at)[0].due - at - milliseconds(10); };
  const TimePoint begin = kStart + std::chrono::seconds(100);
  network.StartSchedule(begin);
  EXPECT_EQ(took(begin), milliseconds(15));
  EXPECT_EQ(took(begin + milliseconds(999)), milliseconds(15));
  EXPECT_EQ(took(begin + milliseconds(1015)), milliseconds(150));
  EXPECT_EQ(took(begin + milliseconds(3000)), milliseconds(15));
  network.StartSchedule(begin + milliseconds(5000));
  EXPECT_EQ(took(begin + milliseconds(5000)), milliseconds(15));
  EXPECT_EQ(took(begin + milliseconds(6000)), milliseconds(150)) << "it began anew";
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
