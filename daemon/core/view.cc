#include "daemon/core/view.h"

#include <algorithm>

#include "proto/local_abi.h"
#include "proto/segment_header.h"
#include "proto/shares.h"

namespace ringway::core {

Plan PlanFrom(const control::Plan& plan) {
  constexpr std::uint64_t kSegmentBytesMin = 4096;  // holds a block of every dtype
  constexpr std::size_t kRulesMax = 64;
  Plan out;
  if (plan.segment_bytes_max() != 0) {
    out.segment_bytes_max = std::clamp<std::uint64_t>(plan.segment_bytes_max(), kSegmentBytesMin, kPayloadBytesMax);
  }
  if (plan.small_bytes_max() != 0) out.small_bytes_max = std::min<std::uint64_t>(plan.small_bytes_max(), 1 << 20);
  if (plan.eager_bytes_max() != 0) out.eager_bytes_max = std::min<std::uint64_t>(plan.eager_bytes_max(), 16 << 20);
  if (plan.heartbeat_ms() != 0) out.heartbeat = std::chrono::milliseconds(plan.heartbeat_ms());
  if (plan.detect_ms() != 0) out.detect = std::chrono::milliseconds(plan.detect_ms());
  for (const control::AlgorithmRule& rule : plan.algorithms()) {
    const bool ascends = out.algorithms.empty() || rule.bytes_upto() > out.algorithms.back().bytes_upto;
    if (!ascends || rule.algorithm() >= kAlgorithmCount || out.algorithms.size() >= kRulesMax) continue;
    out.algorithms.push_back({rule.bytes_upto(), static_cast<Algorithm>(rule.algorithm())});
  }
  return out;
}

Algorithm Plan::AlgorithmFor(std::uint64_t bytes) const {
  for (const AlgorithmRule& rule : algorithms) {
    if (bytes <= rule.bytes_upto) return rule.algorithm;
  }
  return Algorithm::kRing;
}

std::optional<Rank> View::RankOf(PeerId peer) const {
  const auto found = ranks.find(peer);
  if (found == ranks.end()) return std::nullopt;
  return found->second;
}

namespace {

// Also none: equal ones.
bool AreShares(const std::vector<std::uint32_t>& shares, std::uint32_t world) {
  std::uint64_t sum = 0;
  for (const std::uint32_t share : shares) {
    if (share > ShareMax(world)) return false;
    sum += share;
  }
  return shares.empty() || (shares.size() == world && sum == kWholeShare);
}

}  // namespace

Result<View> ViewFrom(const control::View& view, PeerId self) {
  View out;
  out.epoch = Epoch(view.epoch());
  out.min_world = view.min_world();
  out.plan = PlanFrom(view.plan());
  const auto world = static_cast<std::uint32_t>(view.members_size());
  if (world == 0 || world > abi::kWorldSizeMax || view.ring_size() != view.members_size()) {
    return Status(Code::kProtocol, "view has no members, too many, or a ring of another size");
  }
  std::map<std::string, std::uint32_t> site_of;
  for (const control::PeerInfo& info : view.members()) {
    const PeerId peer(info.peer_id());
    const Rank rank(static_cast<std::uint32_t>(out.members.size()));
    if (!out.ranks.emplace(peer, rank).second) return Status(Code::kProtocol, "view names a member twice");
    out.members.push_back(peer);
    out.infos.push_back(info);
    out.routes.sites.push_back(
        site_of.try_emplace(info.site(), static_cast<std::uint32_t>(site_of.size())).first->second);
  }
  std::vector<bool> seen(world, false);
  for (const std::uint32_t rank : view.ring()) {
    if (rank >= world || seen[rank]) return Status(Code::kProtocol, "view's ring is no permutation of its ranks");
    seen[rank] = true;
    out.routes.ring.emplace_back(rank);
  }
  out.routes.shares.assign(view.shares().begin(), view.shares().end());
  if (!AreShares(out.routes.shares, world)) return Status(Code::kProtocol, "view's shares are none for its ranks");
  if (!out.Contains(self)) return Status(Code::kProtocol, "view does not contain its addressee");
  return out;
}

ChannelSeqs SeqsFrom(const google::protobuf::RepeatedPtrField<control::ChannelSeq>& seqs) {
  ChannelSeqs out;
  for (const control::ChannelSeq& seq : seqs) {
    if (seq.channel() < abi::kChannelCountMax) out[ChannelId(seq.channel())] = seq.seq();
  }
  return out;
}

void SeqsTo(const ChannelSeqs& seqs, google::protobuf::RepeatedPtrField<control::ChannelSeq>& out) {
  for (const auto& [channel, seq] : seqs) {
    control::ChannelSeq* entry = out.Add();
    entry->set_channel(channel.value);
    entry->set_seq(seq);
  }
}

}  // namespace ringway::core
