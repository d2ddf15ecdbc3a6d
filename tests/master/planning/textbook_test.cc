#include "tests/master/planning/textbook.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "master/planning/cost_model.h"
#include "tests/master/planning/path_worlds.h"

namespace ringway {
namespace {

struct PublishedRow {
  std::size_t peers;
  std::uint64_t bytes;
  std::string naive;  // milliseconds as printed
  std::string tree;
  std::string ring;
  Algorithm winner;
};

constexpr UniformLink kPublishedLink = {.delay = 5e-6, .seconds_per_byte = 1 / 100e9};

std::string PrintedMilliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f", seconds * 1e3);
  return text;
}

void ExpectPublished(const PublishedRow& row) {
  const auto seconds = [&row](Algorithm algorithm) {
    return TextbookSeconds(algorithm, row.peers, static_cast<double>(row.bytes), kPublishedLink);
  };
  EXPECT_EQ(PrintedMilliseconds(seconds(Algorithm::kNaive)), row.naive) << row.peers << " peers, " << row.bytes;
  EXPECT_EQ(PrintedMilliseconds(seconds(Algorithm::kTree)), row.tree) << row.peers << " peers, " << row.bytes;
  EXPECT_EQ(PrintedMilliseconds(seconds(Algorithm::kRing)), row.ring) << row.peers << " peers, " << row.bytes;
  const auto candidates = {Algorithm::kNaive, Algorithm::kTree, Algorithm::kRing};
  const Algorithm winner = std::min(candidates, [&](Algorithm a, Algorithm b) { return seconds(a) < seconds(b); });
  EXPECT_EQ(winner, row.winner) << row.peers << " peers, " << row.bytes;
}

TEST(TextbookCost, GivesThePublishedTableOverWorldSizes) {
  for (const PublishedRow& row : {
           PublishedRow{2, 64 * kMiB, "1.352", "1.352", "0.681", Algorithm::kRing},
           PublishedRow{8, 64 * kMiB, "9.465", "4.057", "1.244", Algorithm::kRing},
           PublishedRow{32, 64 * kMiB, "41.917", "6.761", "1.610", Algorithm::kRing},
           PublishedRow{128, 64 * kMiB, "171.727", "9.465", "2.602", Algorithm::kRing},
           PublishedRow{512, 64 * kMiB, "690.963", "12.170", "6.450", Algorithm::kRing},
           PublishedRow{1024, 64 * kMiB, "1383.277", "13.522", "11.571", Algorithm::kRing},
       }) {
    ExpectPublished(row);
  }
}

TEST(TextbookCost, GivesThePublishedTableOverSizes) {
  for (const PublishedRow& row : {
           PublishedRow{64, 256, "0.630", "0.060", "0.630", Algorithm::kTree},
           PublishedRow{64, 4096, "0.635", "0.060", "0.630", Algorithm::kTree},
           PublishedRow{64, 64 * kKiB, "0.713", "0.068", "0.631", Algorithm::kTree},
           PublishedRow{64, kMiB, "1.951", "0.186", "0.651", Algorithm::kTree},
           PublishedRow{64, 16 * kMiB, "21.769", "2.073", "0.960", Algorithm::kRing},
           PublishedRow{64, 256 * kMiB, "338.859", "32.272", "5.915", Algorithm::kRing},
       }) {
    ExpectPublished(row);
  }
}

TEST(TextbookCost, PricesTheOtherSchedules) {
  const UniformLink link = {.delay = 10, .seconds_per_byte = 1};
  const auto seconds = [&link](Algorithm algorithm, std::size_t peers) {
    return TextbookSeconds(algorithm, peers, 8, link);
  };
  EXPECT_EQ(seconds(Algorithm::kDirect, 4), 2 * 10 + 2 * 6);
  EXPECT_EQ(seconds(Algorithm::kOneShot, 4), 10 + 3 * 8);
  EXPECT_EQ(seconds(Algorithm::kTwoRings, 4), 6 * 10 + 2 * 6);
  EXPECT_EQ(seconds(Algorithm::kHalvingDoubling, 8), 6 * 10 + 2 * 7);
  EXPECT_EQ(seconds(Algorithm::kHalvingDoubling, 11), 6 * 10 + 2 * 7 + 2 * (10 + 8));
  for (const Algorithm algorithm : kAlgorithms) EXPECT_EQ(seconds(algorithm, 1), 0);
}

}  // namespace
}  // namespace ringway
