#include "master/planning/path_book.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace ringway {
namespace {

using std::chrono::milliseconds;

std::vector<control::PeerInfo> PeerInfos(std::initializer_list<std::uint64_t> ids) {
  std::vector<control::PeerInfo> members;
  for (const std::uint64_t id : ids) members.emplace_back().set_peer_id(id);
  return members;
}

TEST(PathBook, FactsAreAsTheyWereReportedWithTheirTime) {
  PathBook book;
  const TimePoint now{milliseconds(5)};
  (void)book.SetRate(PeerId(7), PeerId(9), 5'000'000);
  (void)book.SetRoundTrip(PeerId(7), PeerId(9), milliseconds(100));
  book.NoteMeasured(PeerId(7), PeerId(9), now);
  const PathBook::Facts facts = book.FactsOf(PeerId(7), PeerId(9));
  EXPECT_EQ(facts.bytes_per_second, 5'000'000U);
  EXPECT_EQ(facts.round_trip, Duration(milliseconds(100)));
  EXPECT_EQ(facts.measured_at, now);
  EXPECT_EQ(book.FactsOf(PeerId(9), PeerId(7)).measured_at, std::nullopt);
  book.Forget(PeerId(9));
  EXPECT_EQ(book.FactsOf(PeerId(7), PeerId(9)).measured_at, std::nullopt);
}

TEST(PathBook, RatesGoOneWayAndRoundTripsBoth) {
  PathBook book;
  EXPECT_TRUE(book.SetRate(PeerId(7), PeerId(9), 5'000'000));
  EXPECT_TRUE(book.SetUplink(PeerId(9), 8'000'000));
  EXPECT_TRUE(book.SetRoundTrip(PeerId(7), PeerId(9), milliseconds(100)));
  const PathMatrix paths = book.Between(PeerInfos({7, 9}));
  EXPECT_EQ(paths.rate(0, 1), 5e6);
  EXPECT_EQ(paths.rate(1, 0), 0) << "nobody has said";
  EXPECT_EQ(paths.uplink(0), 0);
  EXPECT_EQ(paths.uplink(1), 8e6);
  EXPECT_DOUBLE_EQ(paths.delay(0, 1), 0.05);
  EXPECT_DOUBLE_EQ(paths.delay(1, 0), 0.05);
}

TEST(PathBook, OfTwoRoundTripsTheShorterCountsForTheOtherHadABusyMoment) {
  PathBook book;
  EXPECT_TRUE(book.SetRoundTrip(PeerId(1), PeerId(2), milliseconds(300)));
  EXPECT_TRUE(book.SetRoundTrip(PeerId(2), PeerId(1), milliseconds(20)));
  EXPECT_DOUBLE_EQ(book.Between(PeerInfos({1, 2})).delay(0, 1), 0.01);
}

TEST(PathBook, WhatCannotBeOrWasSaidBeforeIsNoNews) {
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  PathBook book;
  EXPECT_FALSE(book.SetRate(PeerId(1), PeerId(2), 0));
  EXPECT_FALSE(book.SetRate(PeerId(1), PeerId(2), kHuge));
  EXPECT_FALSE(book.SetUplink(PeerId(1), PathBook::kBytesPerSecondMax + 1));
  EXPECT_FALSE(book.SetRoundTrip(PeerId(1), PeerId(2), Duration(-1)));
  EXPECT_FALSE(book.SetRoundTrip(PeerId(1), PeerId(2), PathBook::kRoundTripMax * 2));
  EXPECT_TRUE(book.SetRate(PeerId(1), PeerId(2), 1000));
  EXPECT_FALSE(book.SetRate(PeerId(1), PeerId(2), 1000));
  EXPECT_FALSE(book.SetRate(PeerId(1), PeerId(2), 0)) << "and what was known stays";
  EXPECT_EQ(book.Between(PeerInfos({1, 2})).rate(0, 1), 1000);
}

TEST(PathBook, WhoIsGoneIsForgotten) {
  PathBook book;
  EXPECT_TRUE(book.SetRate(PeerId(1), PeerId(2), 1000));
  EXPECT_TRUE(book.SetRate(PeerId(2), PeerId(3), 2000));
  EXPECT_TRUE(book.SetUplink(PeerId(1), 3000));
  book.Forget(PeerId(1));
  const PathMatrix paths = book.Between(PeerInfos({1, 2, 3}));
  EXPECT_EQ(paths.rate(0, 1), 0);
  EXPECT_EQ(paths.uplink(0), 0);
  EXPECT_EQ(paths.rate(1, 2), 2000);
}

TEST(PathBook, HostsThatShareAWayOutAreTakenForEquals) {
  auto members = PeerInfos({1, 2, 3, 4});
  for (const std::size_t i : {0, 1}) members[i].set_site("east");
  for (const std::size_t i : {2, 3}) members[i].set_site("west");
  PathBook book;
  EXPECT_TRUE(book.SetRate(PeerId(1), PeerId(2), 60000));
  EXPECT_TRUE(book.SetRate(PeerId(1), PeerId(3), 10));
  EXPECT_TRUE(book.SetRate(PeerId(1), PeerId(4), 4000));
  EXPECT_TRUE(book.SetRate(PeerId(2), PeerId(3), 300));
  EXPECT_TRUE(book.SetRate(PeerId(3), PeerId(1), 30));
  const PathMatrix paths = book.Between(members);
  EXPECT_EQ(paths.rate(0, 1), 60000) << "inside nothing is shared";
  EXPECT_EQ(paths.rate(0, 2), 300) << "it has not received faster from anybody";
  EXPECT_EQ(paths.rate(0, 3), 4000);
  EXPECT_EQ(paths.rate(1, 2), 300) << "it has not sent faster to anybody";
  EXPECT_EQ(paths.rate(1, 3), 300) << "not measured, but its neighbour's was";
  EXPECT_EQ(paths.rate(2, 0), 30) << "another direction, another way out";
  EXPECT_EQ(paths.rate(3, 0), 0) << "nothing is known of the sender";
}

TEST(PathBook, RatesThatScatterAreTakenForAlike) {
  PathBook book;
  EXPECT_TRUE(book.SetRate(PeerId(1), PeerId(2), 90));
  EXPECT_TRUE(book.SetRate(PeerId(1), PeerId(3), 84));
  EXPECT_TRUE(book.SetRate(PeerId(2), PeerId(1), 100));
  EXPECT_TRUE(book.SetRate(PeerId(2), PeerId(3), 50));
  EXPECT_TRUE(book.SetRate(PeerId(3), PeerId(1), 42));
  EXPECT_TRUE(book.SetUplink(PeerId(1), 70));
  EXPECT_TRUE(book.SetUplink(PeerId(2), 80));
  auto members = PeerInfos({1, 2, 3});
  for (std::size_t i = 0; i < members.size(); ++i) members[i].set_site(std::to_string(i));
  const PathMatrix paths = book.Between(members);
  for (const auto& [from, to] : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 0)})
    EXPECT_EQ(paths.rate(from, to), 90);
  EXPECT_EQ(paths.rate(1, 2), paths.rate(2, 0)) << "the slow ones likewise";
  EXPECT_LE(paths.rate(1, 2), 50) << "half of another is not like it";
  EXPECT_EQ(paths.rate(2, 1), 0) << "unknown stays unknown";
  EXPECT_EQ(paths.uplink(0), paths.uplink(1));
}

TEST(PathBook, PeersOfOneAddressAreOneHostsAndShareWhatIsKnownOfIt) {
  auto members = PeerInfos({1, 2, 3, 4});
  members[0].set_address("10.0.0.1:7401");
  members[1].set_address("10.0.0.1:7401");
  members[2].set_address("10.0.0.1:7402");
  members[3].set_address("10.0.0.2:7401");
  PathBook book;
  EXPECT_TRUE(book.SetRate(PeerId(1), PeerId(4), 500));
  EXPECT_TRUE(book.SetRate(PeerId(1), PeerId(2), 90'000));
  EXPECT_TRUE(book.SetUplink(PeerId(2), 700));
  PathMatrix paths = book.Between(members);
  EXPECT_TRUE(paths.shares_host(0, 1) && paths.shares_host(0, 2));
  EXPECT_FALSE(paths.shares_host(0, 3));
  EXPECT_EQ(paths.rate(1, 3), 500) << "the same path";
  EXPECT_EQ(paths.rate(0, 1), 90'000);
  const PathMatrix filled = WithAssumptions(paths);
  for (const std::size_t peer : {0, 1, 2}) EXPECT_EQ(filled.uplink(peer), 700);
  EXPECT_EQ(filled.LinkRate(0, 2), kAssumedHostRate) << "its uplink is no limit inside";
  EXPECT_EQ(filled.downlink(3), 500);
}

TEST(PathBook, PeersOfOneDaemonThatHasNoAddressAreOneHosts) {
  auto members = PeerInfos({1, 2, 3, 4, 5});
  members[0].set_daemon("a");
  members[1].set_daemon("a");
  members[2].set_daemon("b");
  const PathMatrix paths = PathBook().Between(members);
  EXPECT_TRUE(paths.shares_host(0, 1));
  EXPECT_FALSE(paths.shares_host(0, 2));
  EXPECT_FALSE(paths.shares_host(3, 4)) << "of whom nothing is known";
}

TEST(PathBook, TwoHostsBehindOneAddressAreFurtherApartThanOneIs) {
  auto members = PeerInfos({1, 2, 3});
  for (int i = 0; i < 3; ++i) members[i].set_address("192.0.2.1:" + std::to_string(7401 + i));
  PathBook book;
  EXPECT_TRUE(book.SetRoundTrip(PeerId(1), PeerId(2), std::chrono::microseconds(100)));
  EXPECT_TRUE(book.SetRoundTrip(PeerId(1), PeerId(3), milliseconds(2)));
  const PathMatrix paths = book.Between(members);
  EXPECT_TRUE(paths.shares_host(0, 1));
  EXPECT_FALSE(paths.shares_host(0, 2));
}

TEST(PathBook, ASitesUplinkIsTheLeastThatItsDaemonsName) {
  auto members = PeerInfos({1, 2, 3});
  for (const std::size_t i : {0, 1}) members[i].set_site("east");
  members[0].set_site_uplink(700);
  EXPECT_EQ(PathBook().Between(members).site_uplink(1), 700);
  EXPECT_EQ(PathBook().Between(members).site_uplink(2), 0);
  members[1].set_site_uplink(600);
  EXPECT_EQ(PathBook().Between(members).site_uplink(0), 600);
}

TEST(PathBook, MembersOfOneSiteShareItsNumber) {
  auto members = PeerInfos({1, 2, 3});
  members[0].set_site("east");
  members[1].set_site("west");
  members[2].set_site("east");
  const PathMatrix paths = PathBook().Between(members);
  EXPECT_EQ(paths.site(0), 0u);
  EXPECT_EQ(paths.site(1), 1u);
  EXPECT_EQ(paths.site(2), 0u);
}

}  // namespace
}  // namespace ringway
