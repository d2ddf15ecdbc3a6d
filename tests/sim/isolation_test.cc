// One member of a group whose links to all others die, although the master hears everybody.
#include "tests/sim/isolation_scenarios.h"

namespace ringway::sim {
namespace {

using std::chrono::milliseconds;

TEST(Isolation, MemberWhoseLinksAreRefusedGoesAloneInWhateverOrderItsLinksDie) {
  for (const std::uint32_t world : {3, 4, 5}) {
    for (const int spread_ms : {1, 10, 40, 200}) {
      EXPECT_EQ(LossesOfHealthy(true, milliseconds(spread_ms), world), 0U) << world << ", " << spread_ms << " ms";
    }
  }
}

TEST(Isolation, MemberWhoseLinksCannotBeOpenedAgainGoesAloneInWhateverOrderTheyDie) {
  for (const std::uint32_t world : {3, 4, 5}) {
    for (const int spread_ms : {1, 100, 1000, 2500}) {
      EXPECT_EQ(LossesOfHealthy(false, milliseconds(spread_ms), world), 0U) << world << ", " << spread_ms << " ms";
    }
  }
}

}  // namespace
}  // namespace ringway::sim
