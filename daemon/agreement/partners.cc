#include "daemon/agreement/partners.h"

#include <algorithm>
#include <vector>

#include "proto/local_abi.h"
#include "proto/mutation.h"

namespace ringway::agreement {

std::string PartnerLost(const Context& ctx, const Submission& submission) {
  const OpKind kind = submission.descriptor.kind;
  if (HasRoot(kind) && !ctx.view().Contains(submission.root()))
    return ctx.NameOf(submission.root()) + ", its root, has left the group";
  const PeerId without_from = submission.descriptor.without_from();
  const bool is_known = without_from == PeerId() || RINGWAY_MUTANT(kSumNothing);
  if (!is_known && !FirstWithInput(ctx.view(), without_from))
    return "all ranks that had an input for it have left the group";
  if (!IsForOneWorld(kind) || RINGWAY_MUTANT(kForgetLayout)) return "";
  const std::vector<PeerId>& members = ctx.view().members;
  const abi::OpSpec& spec = submission.spec;
  const bool fits = spec.members == abi::MembersHash(members, &PeerId::value) && spec.world_size == members.size();
  const bool same_place = submission.layout == nullptr || submission.layout->self == ctx.view().RankOf(ctx.self);
  if (fits && same_place) return "";
  return "its input is laid out for " + std::to_string(spec.world_size) + " ranks, and the group has " +
         std::to_string(members.size()) + " now, or others: submit one for these";
}

std::optional<PeerId> FirstWithInput(const View& view, PeerId from) {
  const auto first = std::find_if(view.members.begin(), view.members.end(), [&](PeerId peer) { return peer < from; });
  return first == view.members.end() ? std::nullopt : std::optional(*first);
}

void FindRoot(const Context& ctx, Operation& op) {
  const OpKind kind = op.submission.descriptor.kind;
  op.submission.descriptor.root = 0;
  op.done_after.reset();
  if (!HasRoot(kind)) return;
  op.submission.descriptor.root = static_cast<std::uint8_t>(ctx.view().RankOf(op.submission.root())->value);
  const bool collects = kind == OpKind::kReduce || kind == OpKind::kGather;
  if (collects && op.submission.root() != ctx.self && !RINGWAY_MUTANT(kDoneBeforeRoot))
    op.done_after = op.submission.root();
}

std::set<PeerId> PartnersOf(const Context& ctx, const Operation& op) {
  std::set<PeerId> partners = op.receivers;
  if (op.attempt.round() != nullptr) partners.insert(ctx.view().members.begin(), ctx.view().members.end());
  partners.erase(ctx.self);
  for (const collective::Arrival& arrival : op.attempt.executor().arrivals())
    partners.insert(ctx.view().members[arrival.from.value]);
  return partners;
}

}  // namespace ringway::agreement
