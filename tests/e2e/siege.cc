#include "tests/e2e/siege.h"

#include <sys/resource.h>

#include <algorithm>

namespace ringway::e2e {
namespace {

// The soft limit of open descriptors of this process becomes its hard one.
void RaiseDescriptorLimit() {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

}  // namespace

void SiegeTest::SetUp() {
  RaiseDescriptorLimit();
  good_ = cluster_.JoinWorld(static_cast<std::uint32_t>(cluster_.daemon_count()));
  ASSERT_EQ(good_.size(), cluster_.daemon_count());
  Reduce();
}

void SiegeTest::Reduce(const std::function<void()>& meanwhile) {
  Round round(good_, {.reduction = {}, .count = 300'000, .number = ++rounds_});
  for (std::size_t i = 1; i < good_.size(); ++i) round.SubmitOn(i);
  if (meanwhile) meanwhile();
  round.SubmitOn(0);
  EXPECT_EQ(round.Check().world_size, good_.size());
}

std::vector<std::size_t> SiegeTest::Descriptors() {
  std::vector<std::size_t> counts = {cluster_.master().OpenDescriptors()};
  for (std::size_t i = 0; i < cluster_.daemon_count(); ++i) counts.push_back(cluster_.daemon(i).OpenDescriptors());
  return counts;
}

bool SiegeTest::Freed(const std::vector<std::size_t>& before) {
  const std::vector<std::size_t> now = Descriptors();
  return std::equal(now.begin(), now.end(), before.begin(), before.end(), std::less_equal<>());
}

}  // namespace ringway::e2e
