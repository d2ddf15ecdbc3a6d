// A master that errs in its verdicts costs its peer the membership, and not the daemon.
#include <gtest/gtest.h>

#include "tests/daemon/agreement/duo.h"

namespace ringway::agreement {
namespace {

class VerdictsTest : public DuoTest {
 protected:
  static control::Verdict Commit(std::uint64_t seq) {
    control::Verdict verdict;
    verdict.set_seq(seq);
    verdict.set_result_epoch(Epoch::Of(1, 1).value);
    return verdict;
  }
};

TEST_F(VerdictsTest, CommitForNobodyEndsThePeerWhateverFollows) {
  SubmitBoth();
  SubmitBoth();
  Install(2, {Commit(1), Commit(2)});
  EXPECT_EQ(nodes_[0].ended, Code::kProtocol);
  EXPECT_EQ(nodes_[0].reported, Code::kProtocol);
}

TEST_F(VerdictsTest, VerdictThatContradictsWhatWasReportedEndsThePeer) {
  SubmitBoth(/*bytes=*/500);
  for (std::uint32_t lane = 0; lane < kDuoLanes; ++lane) (void)Run(lane, nullptr);
  ASSERT_EQ(nodes_[0].reported, Code::kOk);
  control::Verdict failed = Commit(1);
  failed.set_code(static_cast<std::uint32_t>(Code::kCancelled));
  Install(2, {failed});
  EXPECT_EQ(nodes_[0].ended, Code::kProtocol);
  EXPECT_TRUE(Said(0, "contradiction"));
}

}  // namespace
}  // namespace ringway::agreement
