#include "master/planning/host_rates.h"

#include <gtest/gtest.h>

#include <string>

namespace ringway {
namespace {

TEST(HostRates, TheNewestOfEachPathIsKnown) {
  HostRates rates;
  EXPECT_EQ(rates.Known("a:1", "b:1"), 0u);
  rates.Learn("a:1", "b:1", 5);
  rates.Learn("a:1", "b:1", 6);
  rates.Learn("a:1", "", 7);
  rates.Learn("", "b:1", 8);
  EXPECT_EQ(rates.Known("a:1", "b:1"), 6u);
  EXPECT_EQ(rates.Known("a:1", ""), 7u);
  EXPECT_EQ(rates.Known("b:1", "a:1"), 0u);
  EXPECT_EQ(rates.Known("", "b:1"), 0u) << "a daemon without an address";
}

TEST(HostRates, TheOneLearnedTheLongestAgoGoesFirst) {
  HostRates rates;
  for (std::size_t i = 0; i < HostRates::kMax; ++i) rates.Learn(std::to_string(i), "", 1 + i);
  rates.Learn("0", "", 9);
  rates.Learn("one more", "", 5);
  EXPECT_EQ(rates.Known("0", ""), 9u);
  EXPECT_EQ(rates.Known("1", ""), 0u);
  EXPECT_EQ(rates.Known("2", ""), 3u);
  EXPECT_EQ(rates.Known("one more", ""), 5u);
}

}  // namespace
}  // namespace ringway
