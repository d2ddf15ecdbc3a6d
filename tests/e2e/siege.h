// Good trainers that go on reducing while a test plays somebody without manners, and what shows that they did not
// suffer.
//
// Threads: one, as the cluster's.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "tests/e2e/cluster.h"

namespace ringway::e2e {

class SiegeTest : public ::testing::Test {
 protected:
  // One good trainer a daemon.
  explicit SiegeTest(int daemons) : cluster_({.daemons = daemons}) {}
  explicit SiegeTest(const ClusterOptions& options) : cluster_(options) {}
  void SetUp() override;

  // The good trainers reduce; the sum is exact and none is missing. `meanwhile` runs when all but one have submitted.
  void Reduce(const std::function<void()>& meanwhile = {});
  // Returns the number of descriptors that each program holds, master first.
  std::vector<std::size_t> Descriptors();
  // Returns whether no program holds more descriptors than then. Fewer are no leak: one may just have been closing.
  bool Freed(const std::vector<std::size_t>& before);

  Cluster cluster_;
  Sessions good_;

 private:
  std::uint64_t rounds_ = 0;
};

}  // namespace ringway::e2e
