#include "daemon/agreement/partners.h"

#include <algorithm>
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
  const std::vector<PeerId>& members = ctx.view().members;
  const bool fits =
      submission.members == abi::MembersHash(members, &PeerId::value) && submission.world_size == members.size();
  const bool same_place = submission.layout == nullptr || submission.layout->self == ctx.view().RankOf(ctx.self);
  if (fits && same_place) return "";
  return "its input is laid out for " + std::to_string(submission.world_size) + " ranks, and the group has " +
         std::to_string(members.size()) + " now, or others: submit one for these";
}

Status RoomFor(const Submission& submission, PeerId self, std::uint32_t world_size) {
  const Descriptor& descriptor = submission.descriptor;
  const Sizes sizes = SizesOf(descriptor.kind, descriptor.count, std::max(1U, world_size), submission.root == self);
  const std::uint64_t needed = sizes.output * SizeOf(descriptor.dtype);
  const std::uint64_t room = submission.buffers->output_bytes_max();
  if (needed <= room) return Status::Ok();
  return {Code::kInvalidArgument, "the output has room for " + std::to_string(room) + " bytes, and a group of " +
                                      std::to_string(world_size) + " peers needs " + std::to_string(needed)};
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

std::set<PeerId> PartnersOf(const Context& ctx, const Operation& op) {
  std::set<PeerId> partners = op.receivers;
  for (const collective::Arrival& arrival : op.executor->arrivals())
    partners.insert(ctx.view().members[arrival.from.value]);
  return partners;
}

}  // namespace ringway::agreement
