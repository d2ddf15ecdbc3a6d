#include "master/planning/plan_times.h"

#include <gtest/gtest.h>

#include "proto/peer_counts.h"

namespace ringway {
namespace {

TEST(CheckedCountersTest, NoMoreCountsAreKeptThanThereAre) {
  control::PeerCounters counters;
  counters.set_peer(7);
  for (std::uint64_t i = 0; i < 10'000; ++i) counters.add_counts(i);
  const control::PeerCounters checked = CheckedCounters(counters);
  EXPECT_EQ(checked.peer(), 7U);
  ASSERT_EQ(checked.counts_size(), static_cast<int>(kPeerCounts.size()));
  EXPECT_EQ(checked.counts(1), 1U);
}

TEST(CheckedCountersTest, ThoseOfAnOlderDaemonAreFewer) {
  control::PeerCounters counters;
  counters.add_counts(5);
  EXPECT_EQ(CheckedCounters(counters).counts_size(), 1);
}

TEST(PeerCountsTest, EachNameIsItsMembers) {
  PeerCounts counts;
  std::uint64_t next = 1;
  for (const PeerCountInfo& count : kPeerCounts) counts.*count.member = next++;
  EXPECT_EQ(counts.ops_done, 1U);
  EXPECT_EQ(kPeerCounts[0].name, "ops_done");
  EXPECT_EQ(counts.inputs_late, kPeerCounts.size());
}

}  // namespace
}  // namespace ringway
