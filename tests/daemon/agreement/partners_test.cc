#include "daemon/agreement/partners.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "proto/local_abi.h"

namespace ringway::agreement {
namespace {

constexpr PeerId kMine{7};

// Rank 1 of the three members 5, 7 and 9.
class PartnersTest : public testing::Test {
 protected:
  PartnersTest() : ctx_(kMine, "g", {}) {
    View view;
    view.epoch = Epoch(1);
    view.members = {PeerId(5), kMine, PeerId(9)};
    for (std::uint32_t rank = 0; rank < 3; ++rank) view.ranks[view.members[rank]] = Rank(rank);
    (void)ctx_.views.Install(std::move(view));
  }

  static Submission Of(OpKind kind) {
    Submission submission;
    submission.descriptor.kind = kind;
    submission.spec.members = abi::MembersHash(std::vector<std::uint64_t>{5, 7, 9});
    submission.spec.world_size = 3;
    if (HasRoot(kind)) submission.spec.root = 9;
    if (HasCounts(kind))
      submission.layout = std::make_shared<const collective::Layout>(
          collective::Layout{.self = Rank(1), .counts = {1, 2, 3}, .sends = {}});
    return submission;
  }

  Context ctx_;
};

TEST_F(PartnersTest, LayoutForTheseMembersIsDone) {
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kScatter, OpKind::kAllToAll, OpKind::kAllToAllV,
                            OpKind::kAllGatherV, OpKind::kReduceScatterV})
    EXPECT_EQ(PartnerLost(ctx_, Of(kind)), "") << NameOf(kind);
}

TEST_F(PartnersTest, RootThatIsGoneIsNamed) {
  Submission submission = Of(OpKind::kGather);
  submission.spec.root = 8;
  EXPECT_NE(PartnerLost(ctx_, submission).find("its root"), std::string::npos);
}

// A trainer's layout may be wrong: its buffers were checked for the number of members that it named.
TEST_F(PartnersTest, LayoutForOtherMembersOrAsManyOrAnotherRankIsRefused) {
  const std::vector<std::function<void(Submission&)>> lies = {
      [](Submission& s) {
        s.spec.members = abi::MembersHash(std::vector<std::uint64_t>{5, 7, 8});
      },
      [](Submission& s) {
        s.spec.members = abi::MembersHash(std::vector<std::uint64_t>{5, 9, 7});
      },
      [](Submission& s) { s.spec.world_size = 2; },
      [](Submission& s) { s.spec.world_size = 4; },
  };
  for (const OpKind kind : {OpKind::kScatter, OpKind::kAllToAll, OpKind::kAllToAllV, OpKind::kAllGatherV}) {
    for (const auto& lie : lies) {
      Submission submission = Of(kind);
      lie(submission);
      EXPECT_NE(PartnerLost(ctx_, submission).find("laid out for"), std::string::npos) << NameOf(kind);
    }
  }
  Submission other_rank = Of(OpKind::kAllGatherV);
  other_rank.layout =
      std::make_shared<const collective::Layout>(collective::Layout{.self = Rank(2), .counts = {1, 2, 3}, .sends = {}});
  EXPECT_NE(PartnerLost(ctx_, other_rank), "");
}

}  // namespace
}  // namespace ringway::agreement
