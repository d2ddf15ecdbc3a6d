// A planted bug that makes operations hang: the watchdog finds it, and they start anew.
#include "proto/mutation.h"
#include "tests/sim/scenario.h"

namespace ringway::sim {
namespace {

using mutation::Mutant;

class HangTest : public testing::Test {
 protected:
  HangTest() { mutation::active = Mutant::kForgetLostSegments; }
  ~HangTest() override { mutation::active = Mutant::kNone; }
};

TEST_F(HangTest, AnOperationThatLostItsSegmentsStartsAnew) {
  auto cluster = Formed(3, {.expects_stuck = true});
  SubmitAll(*cluster, {0, 1, 2}, SumF32(kLarge));
  cluster->RunEvents(40);
  for (const std::uint32_t lane : {0U, 1U}) cluster->CutLane(0, 1, LaneId(lane));
  ASSERT_TRUE(Finish(*cluster, {0, 1, 2})) << cluster->Describe(0);
  CheckAgreement(*cluster, {0, 1, 2});
  std::uint64_t stuck = 0;
  for (const std::uint32_t node : {0U, 1U, 2U}) stuck += cluster->StatusOf(node).ops_stuck;
  EXPECT_GE(stuck, 1U);
  for (const auto& [name, outcome] : cluster->OutcomesOf(0)) {
    EXPECT_EQ(outcome.code, Code::kOk);
    EXPECT_GE(outcome.retries, 1U);
    EXPECT_EQ(outcome.contributors.size(), 3U);
  }
}

}  // namespace
}  // namespace ringway::sim
