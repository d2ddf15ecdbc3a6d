// The plan of a group's views (ring, routes, algorithms), and when it is made anew.
#include <algorithm>
#include <type_traits>

#include "master/coordination/group.h"
#include "master/planning/topology.h"
#include "proto/lane_roles.h"

namespace ringway {
namespace {

// A lane that random losses bound needs a second for a megabit, and an operation waits for its slowest one. More than
// what small lanes take, for these are kept free for small operations.
constexpr std::decay_t<decltype(control::Plan().segment_bytes_max())> kFarSegmentBytesMax = 96 * 1024;
static_assert(kFarSegmentBytesMax > kSmallLanePayloadBytes);

}  // namespace

void Group::OnMeasured(const control::Measured& measured, TimePoint now) {
  const PeerId peer(measured.peer());
  const PeerId other(measured.other());
  bool news = false;
  if (other == PeerId()) {
    news = paths_.SetUplink(peer, measured.bytes_per_second());
    if (news) host_.rates().Learn(KeyInRates(peers_.at(peer).info), "", measured.bytes_per_second());
  } else if (other != peer && peers_.contains(other)) {
    news = paths_.SetRate(peer, other, measured.bytes_per_second());
    if (news) {
      host_.rates().Learn(KeyInRates(peers_.at(peer).info), KeyInRates(peers_.at(other).info),
                          measured.bytes_per_second());
    }
    news = paths_.SetRoundTrip(peer, other, Duration(measured.round_trip_us())) || news;
  }
  if (news) AddNews(now);
}

void Group::AddNews(TimePoint now) {
  if (!news_) news_ = News{.since = now, .last = now};
  news_->last = now;
}

// A better plan for the same members is a prepared view, adopted by UpdateView. Measurements come in bursts, as pairs
// are measured one after the other, so this waits for the end of a burst; and at most one such view is prepared.
void Group::TryReplan(TimePoint now) {
  constexpr Duration kQuiet = std::chrono::seconds(1);
  constexpr Duration kBunchMax = std::chrono::seconds(5);
  if (!news_ || current_.members_size() < 2 || !prepared_.empty() || revoking_) return;
  if (now - news_->last < kQuiet && now - news_->since < kBunchMax) return;
  news_.reset();
  control::View view = current_;
  const PathMatrix paths = CurrentPaths();
  if (!Improve(paths, PlanFor(paths), &view)) return;
  view.clear_verdicts();
  view.clear_next_seq();
  const Epoch epoch = host_.NextEpoch();
  view.set_epoch(epoch.value);
  prepared_[epoch] = view;
  host_.Changed(*this);
  SendViewToMembers(view, true);
}

control::View Group::MakeView(const std::set<PeerId>& members, const control::View& before) {
  control::View view;
  view.set_group(name_);
  view.set_epoch(host_.NextEpoch().value);
  view.set_fail_on_peer_loss(fail_on_peer_loss_);
  std::uint32_t min_world = std::max(1u, before.min_world());
  std::uint32_t hung_ms = 0;
  bool never_hung = before.epoch() != 0 && before.hung_ms() == 0;
  std::vector<control::PeerInfo> infos;
  for (const PeerId peer : members) {
    infos.push_back(peers_.at(peer).info);
    min_world = std::max(min_world, peers_.at(peer).min_world);
    hung_ms = std::max(hung_ms, peers_.at(peer).hung_ms);
    never_hung = never_hung || peers_.at(peer).hung_ms == 0;
  }
  SortByRank(infos);
  const PathMatrix paths = paths_.Between(infos, host_.rates());
  const Routes routes = RoutesWith(RingOrder(infos, paths, before), paths, RingSearch::kStrides);
  SetRoutes(routes, &view);
  *view.mutable_plan() = PlanFor(paths);
  PlanOperations(paths, routes, before, view.mutable_plan());
  for (control::PeerInfo& info : infos) *view.add_members() = std::move(info);
  view.set_min_world(min_world);
  view.set_hung_ms(never_hung ? 0 : std::max(hung_ms, before.hung_ms()));
  return view;
}

control::Plan Group::PlanFor(const PathMatrix& paths) const {
  control::Plan plan = options_.plan;
  const bool far = AreFarApart(paths);
  const Duration detect = far ? options_.detect_far : options_.detect;
  plan.set_detect_ms(static_cast<std::uint32_t>(detect / std::chrono::milliseconds(1)));
  if (far) plan.set_segment_bytes_max(std::min(plan.segment_bytes_max(), kFarSegmentBytesMax));
  return plan;
}

PathMatrix Group::CurrentPaths() const {
  return paths_.Between({current_.members().begin(), current_.members().end()}, host_.rates());
}

}  // namespace ringway
