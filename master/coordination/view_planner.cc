#include "master/coordination/view_planner.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "master/coordination/names.h"
#include "master/planning/slow_host.h"
#include "master/planning/topology.h"
#include "proto/lane_roles.h"

namespace ringway {
namespace {

// A lane that random losses bound needs a second for a megabit, and an operation waits for its slowest one. More than
// what small lanes take, for these are kept free for small operations.
constexpr std::decay_t<decltype(control::Plan().segment_bytes_max())> kFarSegmentBytesMax = 96 * 1024;
static_assert(kFarSegmentBytesMax > kSmallLanePayloadBytes);

}  // namespace

ViewPlanner::ViewPlanner(std::string group, bool fail_on_peer_loss, const GroupOptions& options, HostRates& rates)
    : group_(std::move(group)), fail_on_peer_loss_(fail_on_peer_loss), options_(options), rates_(rates) {}

void ViewPlanner::OnMeasured(const control::Measured& measured, const GroupPeers& peers, TimePoint now) {
  const PeerId peer(measured.peer());
  const PeerId other(measured.other());
  bool news = false;
  if (other == PeerId()) {
    news = paths_.SetUplink(peer, measured.bytes_per_second());
    if (news) rates_.Learn(KeyInRates(peers.at(peer).info), "", measured.bytes_per_second());
  } else if (other != peer && peers.contains(other)) {
    news = paths_.SetRate(peer, other, measured.bytes_per_second());
    paths_.NoteMeasured(peer, other, now);
    if (news) {
      rates_.Learn(KeyInRates(peers.at(peer).info), KeyInRates(peers.at(other).info), measured.bytes_per_second());
    }
    news = paths_.SetRoundTrip(peer, other, Duration(measured.round_trip_us())) || news;
  }
  if (news) AddNews(now);
}

void ViewPlanner::OnRecovered(TimePoint now) {
  if (paths_.knows_rates()) AddNews(now);
}

void ViewPlanner::AddNews(TimePoint now) {
  if (!news_) news_ = News{.since = now, .last = now};
  news_->last = now;
}

// Measurements come in bursts, as pairs are measured one after the other.
std::optional<control::View> ViewPlanner::Replan(const control::View& current, TimePoint now) {
  constexpr Duration kQuiet = std::chrono::seconds(1);
  constexpr Duration kBunchMax = std::chrono::seconds(5);
  if (!news_ || current.members_size() < 2) return std::nullopt;
  if (now - news_->last < kQuiet && now - news_->since < kBunchMax) return std::nullopt;
  news_.reset();
  control::View view = current;
  const PathMatrix paths = PathsOf(current);
  LookForSlowHost(paths, current);
  if (!Improve(paths, PlanFor(paths), &view)) return std::nullopt;
  view.clear_verdicts();
  view.clear_next_seq();
  return view;
}

void ViewPlanner::LookForSlowHost(const PathMatrix& paths, const control::View& current) {
  const std::optional<SlowHost> found = FindSlowHost(paths, current.plan());
  slow_peer_.reset();
  if (!found) return;
  const control::PeerInfo& info = current.members(static_cast<int>(found->peer));
  slow_peer_ = {
      .peer = PeerId(info.peer_id()), .name = NameOfPeer(info) + " at daemon " + info.daemon(), .ratio = found->ratio};
}

control::View ViewPlanner::MakeView(Epoch epoch, const std::set<PeerId>& members, const GroupPeers& peers,
                                    const control::View& before) const {
  control::View view;
  view.set_group(group_);
  view.set_epoch(epoch.value);
  view.set_fail_on_peer_loss(fail_on_peer_loss_);
  std::uint32_t min_world = std::max(1u, before.min_world());
  std::uint32_t hung_ms = 0;
  bool never_hung = before.epoch() != 0 && before.hung_ms() == 0;
  std::vector<control::PeerInfo> infos;
  for (const PeerId id : members) {
    const PeerState& peer = peers.at(id);
    infos.push_back(peer.info);
    min_world = std::max(min_world, peer.min_world);
    hung_ms = std::max(hung_ms, peer.hung_ms);
    never_hung = never_hung || peer.hung_ms == 0;
  }
  SortByRank(infos);
  const PathMatrix paths = PathsBetween(infos);
  const Routes routes = RoutesWith(RingOrder(infos, paths, before), paths, RingSearch::kStrides);
  SetRoutes(routes, &view);
  *view.mutable_plan() = PlanFor(paths);
  PlanOperations(paths, routes, before, view.mutable_plan());
  for (control::PeerInfo& info : infos) *view.add_members() = std::move(info);
  view.set_min_world(min_world);
  view.set_hung_ms(never_hung ? 0 : std::max(hung_ms, before.hung_ms()));
  return view;
}

control::Plan ViewPlanner::PlanFor(const PathMatrix& paths) const {
  control::Plan plan = options_.plan;
  const bool far = AreFarApart(paths);
  const Duration detect = far ? options_.detect_far : options_.detect;
  plan.set_detect_ms(static_cast<std::uint32_t>(detect / std::chrono::milliseconds(1)));
  if (far) plan.set_segment_bytes_max(std::min(plan.segment_bytes_max(), kFarSegmentBytesMax));
  return plan;
}

PathMatrix ViewPlanner::PathsOf(const control::View& view) const {
  return PathsBetween({view.members().begin(), view.members().end()});
}

PathMatrix ViewPlanner::PathsBetween(const std::vector<control::PeerInfo>& members) const {
  PathMatrix paths = paths_.Between(members, rates_);
  const Pricing& pricing = options_.pricing;
  if (pricing.list == nullptr) return paths;
  ForEachPath(members.size(), [&](std::uint32_t from, std::uint32_t to) {
    if (!paths.shares_host(from, to))
      paths.set_money(from, to, pricing.list->PerByte(members[from].site(), members[to].site()));
  });
  if (pricing.prefer_cheap) paths.set_slower_max(kCheapRatio);
  return paths;
}

}  // namespace ringway
