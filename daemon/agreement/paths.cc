#include "daemon/agreement/paths.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proto/lane_roles.h"
#include "proto/rules.h"

namespace ringway::agreement {
namespace {

constexpr std::size_t kProbeBytes = 256 * 1024;
// The rate of an uplink that is limited no more and was never measured, in bytes per second: beyond any path.
constexpr double kNoLimit = 1e11;
// A view with so many others at most is taken to use all paths; a larger one those on its rings.
constexpr std::size_t kFewPaths = 4;
// From a view's installation until paths are warmed for its losses: a newcomer's, if one waits, go first.
constexpr Duration kStandbyAfter = std::chrono::seconds(2);

}  // namespace

Paths::Paths(Context& ctx, Links& links)
    : ctx_(ctx),
      links_(links),
      book_(ctx.options.probes != nullptr ? ctx.options.probes : std::make_shared<flow::ProbeBook>()),
      prober_(ctx.self, book_),
      warmer_(book_) {}

void Paths::OnStanding(PeerId other, const LinkTerms& terms) {
  prober_.Want(other, terms.host, terms.probe_bytes, ctx_.now);
  warmer_.Know(other, terms.host, terms.probe_bytes, terms.round_trip);
  reports_.Recall(other, prober_.RateTo(other));
  reports_.Recall({}, prober_.RateTo({}));
  SayAllowed();
}

void Paths::Forget(PeerId other) {
  reports_.Forget(other);
  prober_.Forget(other);
  warmer_.Forget(other);
}

bool Paths::OnSamples(std::span<const flow::PathSample> samples, const flow::Bandwidth& uplink) {
  const bool moved = std::any_of(samples.begin(), samples.end(), [&](const flow::PathSample& sample) {
    return sample.traffic.delivered > 0 && ctx_.view().Contains(sample.other) && warmer_.warming() != sample.other;
  });
  const bool warms = warmer_.is_active();
  if (!warms) reports_.Add(samples, uplink, ctx_.now);
  if (prober_.turn().empty()) Report();  // a probe's end says more than its beginning
  prober_.OnSamples(warms ? std::span<const flow::PathSample>() : samples, ctx_.now);
  warmer_.OnSamples(samples, ctx_.now);
  return moved;
}

void Paths::Repeat() {
  reports_.Repeat();
  said_allowed_ = 0;
  SayAllowed();
  Report(false);
}

double Paths::AtMostAllowed(double rate) const {
  return book_->allowed() > 0 ? std::min(rate, book_->allowed()) : rate;
}

void Paths::SayAllowed() {
  if (std::exchange(said_allowed_, book_->allowed()) == book_->allowed()) return;
  const double measured = prober_.RateTo({}) > 0 ? prober_.RateTo({}) : kNoLimit;
  Report({}, AtMostAllowed(measured), Duration());
}

void Paths::Report(std::optional<PeerId> other, double rate, Duration round_trip) {
  control::ToMaster message;
  message.mutable_measured()->set_peer(ctx_.self.value);
  message.mutable_measured()->set_other(other.value_or(PeerId()).value);
  message.mutable_measured()->set_bytes_per_second(static_cast<std::uint64_t>(rate));
  message.mutable_measured()->set_round_trip_us(static_cast<std::uint32_t>(round_trip.count()));
  ctx_.SendToMaster(std::move(message));
}

void Paths::Report(bool is_news) {
  for (const PathReport& report : reports_.Take(ctx_.now)) {
    Report(report.other, AtMostAllowed(static_cast<double>(report.bytes_per_second)), report.round_trip);
    if (is_news) prober_.Learn(report.other, static_cast<double>(report.bytes_per_second));
    if (report.rerouted) prober_.Again(*report.other);
    ctx_.AddNote("path_measured", (report.other ? ctx_.FieldsOf(*report.other) : LogFields{{"other", "all"}}) +
                                      LogFields{{"bytes_per_second", report.bytes_per_second},
                                                {"round_trip_us", report.round_trip.count()}});
  }
}

// ---------------------------------------------------------------------------------------------- probes

static_assert(static_cast<int>(flow::Prober::Step::kAsk) == control::Probe::STEP_ASK);
static_assert(static_cast<int>(flow::Prober::Step::kGrant) == control::Probe::STEP_GRANT);
static_assert(static_cast<int>(flow::Prober::Step::kRelease) == control::Probe::STEP_RELEASE);
static_assert(static_cast<int>(flow::Prober::Step::kStop) == control::Probe::STEP_STOP);

void Paths::OnProbe(PeerId from, const control::Probe& probe) {
  if (!links_.Knows(from)) return;
  if (!control::Probe::Step_IsValid(probe.step())) return;  // of a later version
  RINGWAY_REACHED(kTakeProbe);
  prober_.On(from, static_cast<flow::Prober::Step>(probe.step()), ctx_.now);
  SendProbeMessages();
}

void Paths::SendProbeMessages() {
  for (const flow::Prober::Message& said : prober_.TakeMessages()) {
    control::PeerMessage message;
    message.mutable_probe()->set_step(static_cast<control::Probe::Step>(said.step));
    links_.Send(said.to, std::move(message));
  }
}

Paths::Neighbours Paths::NeighboursOnRings(const View& view) const {
  const collective::Routes& routes = view.routes;
  const auto self = view.RankOf(ctx_.self);
  Neighbours neighbours;
  const auto add = [&](const std::vector<Rank>& order) {
    const auto here = std::find(order.begin(), order.end(), *self);
    if (here == order.end()) return;
    const Rank before = here == order.begin() ? order.back() : *(here - 1);
    const Rank after = here + 1 == order.end() ? order.front() : *(here + 1);
    const auto place = static_cast<std::size_t>(here - order.begin());
    neighbours.before.insert(view.members[before.value]);
    neighbours.after.insert(view.members[after.value]);
    neighbours.beyond.insert(view.members[order[(place + 2) % order.size()].value]);
  };
  if (!self) return neighbours;
  add(routes.ring);
  for (const collective::WeightedRing& ring : routes.rings) add(ring.order);
  return neighbours;
}

std::vector<PeerId> Paths::UsedBy(const View& view, const Neighbours& neighbours) const {
  std::vector<PeerId> used(neighbours.after.begin(), neighbours.after.end());
  used.insert(used.end(), neighbours.before.begin(), neighbours.before.end());
  if (view.world_size() <= kFewPaths + 1) used.insert(used.end(), view.members.begin(), view.members.end());
  return used;
}

void Paths::OnPrepared(const View& next) {
  warmer_.Stop();
  warmed_in_ = ctx_.view().epoch;
  const Neighbours neighbours = NeighboursOnRings(next);
  for (const PeerId other : UsedBy(next, neighbours)) {
    const bool is_after = neighbours.after.contains(other);
    warmer_.Begin(other, is_after ? Duration() : flow::Warmer::kLater, ctx_.now);
  }
}

// Not before the operations of this view have filled a path: where they are small, a cold one costs nothing.
void Paths::WarmForLosses() {
  if (!is_standby_due_ || ctx_.now < standby_at_ || !warmer_.has_warm() || warmer_.is_active()) return;
  is_standby_due_ = false;
  warmed_in_ = ctx_.view().epoch;
  const Neighbours neighbours = NeighboursOnRings(ctx_.view());
  for (const PeerId other : neighbours.beyond) warmer_.Begin(other, {}, ctx_.now);
  for (const PeerId other : UsedBy(ctx_.view(), neighbours)) warmer_.Begin(other, {}, ctx_.now);
}

void Paths::Tick(bool may_probe) {
  SayAllowed();
  if (ctx_.views.installed() && std::exchange(rings_of_, ctx_.view().epoch) != ctx_.view().epoch) {
    Neighbours used = NeighboursOnRings(ctx_.view());
    used.after.merge(used.before);
    prober_.SetUsed(std::move(used.after));
    standby_at_ = ctx_.now + kStandbyAfter;
    is_standby_due_ = true;
  }
  if (warmed_in_ != ctx_.view().epoch) warmer_.Stop();
  WarmForLosses();
  warmer_.Tick(ctx_.now);
  if (warmer_.is_active()) OnWork();
  const flow::Prober::Ended ended = prober_.Tick(ctx_.now, may_probe && !warmer_.is_active());
  SendProbeMessages();
  const std::map<PeerId, double> probed = prober_.TakeProbed();
  for (const auto& [other, rate] : probed) reports_.Adopt(other, rate);
  const std::set<PeerId> overdue = prober_.TakeOverdue(ctx_.now);
  for (const PeerId other : overdue) reports_.OnProbed({other});
  if (overdue.size() > 1) reports_.OnProbed(overdue);
  if (!ended.others.empty()) {
    reports_.OnProbed(ended.others);
    const bool one = ended.others.size() == 1;
    if (one) prober_.Learn(*ended.others.begin(), reports_.RateOf(*ended.others.begin()));
    ctx_.AddNote("path_probed", (one ? ctx_.FieldsOf(*ended.others.begin()) : LogFields{{"other", "all"}}) +
                                    LogFields{{"bytes", ended.bytes},
                                              {"ms", ended.lasted / std::chrono::milliseconds(1)},
                                              {"settled", ended.settled}});
  }
  if (!ended.others.empty() || !overdue.empty() || !probed.empty()) Report();
}

void Paths::AddTargets(bool may_probe, std::vector<PeerId>& out) const {
  if (warmer_.warming()) out.push_back(*warmer_.warming());
  if (!may_probe || warmer_.is_active()) return;
  out.insert(out.end(), prober_.turn().begin(), prober_.turn().end());
}

bool Paths::NextDummy(const LinkId& lane, std::uint32_t payload_bytes_max, bool may_probe, Outbound& out) {
  if (payload_bytes_max <= kSmallLanePayloadBytes) return false;  // large segments are what the path is measured for
  if (!links_.IsUp(lane)) return false;
  if (warmed_in_ != ctx_.view().epoch) warmer_.Stop();
  const auto room = std::min<std::uint32_t>(payload_bytes_max, kProbeBytes);
  std::uint32_t bytes = 0;
  if (warmer_.warming() == lane.other)
    bytes = warmer_.Take(lane.other, room, ctx_.now);
  else if (may_probe && !warmer_.is_active() && prober_.turn().contains(lane.other))
    bytes = prober_.Take(lane.other, room);
  if (bytes == 0) return false;
  Encode(lane, bytes, out);
  ctx_.counts.probe_bytes += bytes;
  return true;
}

bool Paths::EmptyFrame(const LinkId& lane, Outbound& out) {
  if (!links_.IsUp(lane)) return false;
  Encode(lane, 0, out);
  return true;
}

void Paths::Encode(const LinkId& lane, std::uint32_t bytes, Outbound& out) {
  static const std::vector<std::byte> kNothing(kProbeBytes);
  SegmentHeader header;
  header.kind = SegmentKind::kProbe;
  header.payload_bytes = bytes;
  EncodeSegmentHeader(header, out.header);
  out.payload = std::span(kNothing).first(bytes);
  // Both ends count frames; this one belongs to no attempt, so it is not sent again when its lane is lost.
  links_.CountOut(lane, links::SentFrame{});
}

}  // namespace ringway::agreement
