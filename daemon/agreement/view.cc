#include "daemon/agreement/view.h"

#include <algorithm>
#include <set>

#include "proto/collective/shares.h"
#include "proto/local_abi.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

namespace {

std::vector<AlgorithmRule> RulesFrom(const google::protobuf::RepeatedPtrField<control::AlgorithmRule>& rules,
                                     OpKind kind) {
  constexpr std::size_t kRulesMax = 64;
  std::vector<AlgorithmRule> out;
  for (const control::AlgorithmRule& rule : rules) {
    const bool ascends = out.empty() || rule.bytes_upto() > out.back().bytes_upto;
    if (!ascends || rule.algorithm() >= kAlgorithmCount || out.size() >= kRulesMax) continue;
    const auto algorithm = static_cast<Algorithm>(rule.algorithm());
    if (HasAlgorithm(kind, algorithm)) out.push_back({rule.bytes_upto(), algorithm});
  }
  return out;
}

}  // namespace

Plan PlanFrom(const control::Plan& plan) {
  constexpr std::uint64_t kSegmentBytesMin = 4096;  // holds a block of every dtype
  Plan out;
  if (plan.segment_bytes_max() != 0) {
    out.segment_bytes_max = std::clamp<std::uint64_t>(plan.segment_bytes_max(), kSegmentBytesMin, kPayloadBytesMax);
  }
  if (plan.small_bytes_max() != 0) out.small_bytes_max = std::min<std::uint64_t>(plan.small_bytes_max(), 1 << 20);
  out.retained_bytes_max = std::max(out.small_bytes_max, plan.retained_bytes_max());
  if (plan.eager_bytes_max() != 0) out.eager_bytes_max = std::min<std::uint64_t>(plan.eager_bytes_max(), 16 << 20);
  if (plan.heartbeat_ms() != 0) out.heartbeat = std::chrono::milliseconds(plan.heartbeat_ms());
  if (plan.detect_ms() != 0) out.detect = std::chrono::milliseconds(plan.detect_ms());
  out.algorithms[OpKind::kAllReduce] = RulesFrom(plan.algorithms(), OpKind::kAllReduce);
  out.algorithms[OpKind::kAllGather] = RulesFrom(plan.gathers(), OpKind::kAllGather);
  out.algorithms[OpKind::kReduceScatter] = RulesFrom(plan.scatters(), OpKind::kReduceScatter);
  out.algorithms[OpKind::kBroadcast] = RulesFrom(plan.broadcasts(), OpKind::kBroadcast);
  out.algorithms[OpKind::kReduce] = RulesFrom(plan.reduces(), OpKind::kReduce);
  return out;
}

Algorithm Plan::AlgorithmFor(OpKind kind, std::uint64_t wire_bytes) const {
  if (kind == OpKind::kAllGatherV) kind = OpKind::kAllGather;
  if (kind == OpKind::kReduceScatterV) kind = OpKind::kReduceScatter;
  // An operation without elements goes as the smallest all-reduce.
  const auto rules = algorithms.find(algorithms.contains(kind) ? kind : OpKind::kAllReduce);
  if (rules == algorithms.end()) return Algorithm::kRing;
  for (const AlgorithmRule& rule : rules->second) {
    if (wire_bytes <= rule.bytes_upto) return rule.algorithm;
  }
  return Algorithm::kRing;
}

std::optional<Rank> View::RankOf(PeerId peer) const {
  const auto found = ranks.find(peer);
  if (found == ranks.end()) return std::nullopt;
  return found->second;
}

namespace {

// `count` shares of at most `most`; also none: equal ones.
bool AreShares(const std::vector<std::uint32_t>& shares, std::size_t count, std::uint32_t most) {
  std::uint64_t sum = 0;
  for (const std::uint32_t share : shares) {
    if (share > most) return false;
    sum += share;
  }
  return shares.empty() || (shares.size() == count && sum == kWholeShare);
}

// Numbers from 0 without a gap, one for each rank.
bool AreSites(const std::vector<std::uint32_t>& sites, std::uint32_t world) {
  const std::set<std::uint32_t> numbers(sites.begin(), sites.end());
  return sites.size() == world && *numbers.rbegin() + 1 == numbers.size();
}

// Replaces the sites of labels where the view has others.
Status TakeSites(const control::View& view, std::uint32_t world, collective::Routes* out) {
  if (view.sites_size() > 0) out->sites.assign(view.sites().begin(), view.sites().end());
  if (!AreSites(out->sites, world)) return {Code::kProtocol, "view's sites are not numbered, or not one for each rank"};
  out->site_shares.assign(view.site_shares().begin(), view.site_shares().end());
  const std::size_t sites = *std::max_element(out->sites.begin(), out->sites.end()) + 1;
  if (AreShares(out->site_shares, sites, SiteShareMax(sites))) return Status::Ok();
  return {Code::kProtocol, "view's shares of sites are none for its sites"};
}

std::optional<std::vector<Rank>> RingFrom(const google::protobuf::RepeatedField<std::uint32_t>& ranks,
                                          std::uint32_t world) {
  std::vector<bool> seen(world, false);
  std::vector<Rank> ring;
  for (const std::uint32_t rank : ranks) {
    if (rank >= world || seen[rank]) return std::nullopt;
    seen[rank] = true;
    ring.emplace_back(rank);
  }
  if (ring.size() != world) return std::nullopt;
  return ring;
}

Status TakeRoutes(const control::View& view, std::uint32_t world, collective::Routes* out) {
  std::optional<std::vector<Rank>> ring = RingFrom(view.ring(), world);
  if (!ring) return {Code::kProtocol, "view's ring is no permutation of its ranks"};
  out->ring = std::move(*ring);
  out->shares.assign(view.shares().begin(), view.shares().end());
  if (!AreShares(out->shares, world, ShareMax(world))) return {Code::kProtocol, "view's shares are none for its ranks"};
  std::uint64_t whole = 0;
  for (const control::WeightedRing& weighted : view.rings()) {
    std::optional<std::vector<Rank>> order = RingFrom(weighted.order(), world);
    if (!order) return {Code::kProtocol, "one of view's rings is no permutation of its ranks"};
    out->rings.push_back({.order = std::move(*order), .share = weighted.share()});
    whole += weighted.share();
    if (out->rings.size() > kRingsMax) break;
  }
  const bool adds_up = out->rings.empty() || (out->rings.size() <= kRingsMax && whole == kWholeShare);
  return adds_up ? Status::Ok() : Status(Code::kProtocol, "view has too many rings, or their shares are no whole");
}

}  // namespace

Result<View> ViewFrom(const control::View& view, PeerId self) {
  View out;
  out.epoch = Epoch(view.epoch());
  out.min_world = view.min_world();
  out.hung = std::chrono::milliseconds(view.hung_ms());
  out.plan = PlanFrom(view.plan());
  const auto world = static_cast<std::uint32_t>(view.members_size());
  if (world == 0 || world > abi::kWorldSizeMax) return Status(Code::kProtocol, "view has no members, or too many");
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
  if (Status routes = TakeRoutes(view, world, &out.routes); !routes.ok()) return routes;
  if (Status sites = TakeSites(view, world, &out.routes); !sites.ok()) return sites;
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

}  // namespace ringway::agreement
