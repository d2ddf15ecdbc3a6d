#include "daemon/agreement/partners.h"

#include <cstdint>
#include <vector>

#include "proto/local_abi.h"
#include "proto/mutation.h"

namespace ringway::agreement {

std::string PartnerLost(const Context& ctx, const Submission& submission) {
  const OpKind kind = submission.descriptor.kind;
  if (HasRoot(kind) && !ctx.view().Contains(submission.root))
    return ctx.NameOf(submission.root) + ", its root, has left the group";
  if (!IsForOneWorld(kind) || RINGWAY_MUTANT(kForgetLayout)) return "";
  std::vector<std::uint64_t> members;
  for (const PeerId member : ctx.view().members) members.push_back(member.value);
  if (submission.members == abi::MembersHash(members)) return "";
  return "its input is laid out for " + std::to_string(submission.world_size) + " ranks, and the group has " +
         std::to_string(members.size()) + " now, or others: submit one for these";
}

void FindRoot(const Context& ctx, Operation& op) {
  const OpKind kind = op.submission.descriptor.kind;
  op.submission.descriptor.root = 0;
  op.done_after.reset();
  if (!HasRoot(kind)) return;
  op.submission.descriptor.root = static_cast<std::uint8_t>(ctx.view().RankOf(op.submission.root)->value);
  const bool collects = kind == OpKind::kReduce || kind == OpKind::kGather;
  if (collects && op.submission.root != ctx.self && !RINGWAY_MUTANT(kDoneBeforeRoot))
    op.done_after = op.submission.root;
}

}  // namespace ringway::agreement
