#include "master/coordination/plan_report.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "master/planning/cost_model.h"
#include "master/planning/plan_times.h"
#include "master/planning/ring_order.h"
#include "master/planning/topology.h"
#include "proto/byte_size.h"
#include "proto/collective/shares.h"

namespace ringway {
namespace {

using Json = nlohmann::ordered_json;

double ToMs(double seconds) { return seconds * 1e3; }
double ToMbit(double bytes_per_second) { return bytes_per_second * 8 / 1e6; }

std::string LabelOf(const control::PeerInfo& member) {
  return member.name().empty() ? "peer " + std::to_string(member.peer_id()) : member.name();
}

Json AlgorithmsJson(const PlanInputs& inputs, const CostModel& model) {
  Json algorithms = Json::array();
  for (std::uint8_t i = 0; i < kAlgorithmCount; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    const std::optional<SeenTime>& seen = inputs.seen[i];
    algorithms.push_back({{"name", NameOf(algorithm)},
                          {"predicted_ms", ToMs(model.Seconds(algorithm, inputs.bytes))},
                          {"measured_ms", seen ? Json(ToMs(seen->seconds)) : Json()},
                          {"operations", seen ? seen->operations : 0},
                          {"cost", inputs.currency.empty() ? Json() : Json(model.Money(algorithm, inputs.bytes))}});
  }
  return algorithms;
}

Json LinkJson(const control::View& view, const PathMatrix& measured, const PathMatrix& assumed, const RingLink& link) {
  const control::PeerInfo& from = view.members(static_cast<int>(link.from));
  const control::PeerInfo& to = view.members(static_cast<int>(link.to));
  return {{"from", LabelOf(from)},
          {"from_site", from.site()},
          {"to", LabelOf(to)},
          {"to_site", to.site()},
          {"delay_ms", ToMs(assumed.delay(link.from, link.to))},
          {"rate_mbit", ToMbit(assumed.LinkRate(link.from, link.to))},
          {"delay_measured", measured.delay(link.from, link.to) > 0},
          {"rate_measured", measured.LinkRate(link.from, link.to) > 0}};
}

Json RingJson(const control::View& view, const PathMatrix& measured, const std::vector<std::uint32_t>& order) {
  if (order.size() < 2) return {};
  const PathMatrix assumed = WithAssumptions(measured);
  const Ring ring = MeasureRing(measured, order);
  Json links = Json::array();
  std::size_t bottleneck = 0;
  for (std::size_t i = 0; i < ring.order.size(); ++i) {
    const RingLink link{ring.order[i], ring.order[(i + 1) % ring.order.size()]};
    if (link == ring.bottleneck) bottleneck = i;
    links.push_back(LinkJson(view, measured, assumed, link));
  }
  return {{"round_trip_ms", ToMs(ring.delay_seconds)},
          {"rate_mbit", ToMbit(ring.rate)},
          {"bottleneck", bottleneck},
          {"links", std::move(links)}};
}

double PercentOf(std::uint32_t share) { return 100.0 * share / kWholeShare; }

// Shares of the direct schedule; null if they are equal.
Json SharesJson(const control::View& view, const std::vector<std::uint32_t>& shares) {
  Json out;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    out.push_back({{"peer", LabelOf(view.members(static_cast<int>(i)))}, {"percent", PercentOf(shares[i])}});
  }
  return out;
}

// Returns the rings of the rings schedule; null if there is only one.
Json RingsJson(const control::View& view, const PathMatrix& measured, const std::vector<WeightedRing>& rings) {
  Json out;
  for (const WeightedRing& ring : rings) {
    Json order = Json::array();
    for (const std::uint32_t rank : ring.order) order.push_back(LabelOf(view.members(static_cast<int>(rank))));
    out.push_back({{"percent", PercentOf(ring.share)},
                   {"rate_mbit", ToMbit(MeasureRing(measured, ring.order).rate)},
                   {"order", std::move(order)}});
  }
  return out;
}

Json PathsJson(const PathMatrix& measured) {
  std::uint64_t all = 0, delays = 0, rates = 0;
  ForEachPath(measured.size(), [&](std::uint32_t from, std::uint32_t to) {
    ++all;
    delays += measured.delay(from, to) > 0 ? 1 : 0;
    rates += measured.LinkRate(from, to) > 0 ? 1 : 0;
  });
  return {{"all", all}, {"delays_measured", delays}, {"rates_measured", rates}};
}

}  // namespace

Result<PlanInputs> PlanInputsOf(const Group* group, const control::PlanRequest& request) {
  if (request.bytes() == 0 || request.bytes() > kByteSizeMax) {
    return Status(Code::kInvalidArgument, "operations have 1 to 2^46 bytes; ask for such a size");
  }
  if (group == nullptr) return Status(Code::kInvalidArgument, "no group of this name; status lists the groups");
  const control::View& view = group->current();
  if (view.epoch() == 0) {
    return Status(Code::kWorldTooSmall, "group " + group->name() + " has no view yet: wait until it is formed");
  }
  SeenTimes seen_times(Epoch(view.epoch()), SizeClassOf(request.bytes()));
  for (const auto& [id, peer] : group->peers()) seen_times.Add(peer.counters);
  PlanInputs inputs{.view = view,
                    .measured = group->CurrentPaths(),
                    .seen = {},
                    .prepared = group->NewestPrepared(),
                    .bytes = request.bytes(),
                    .currency = group->pricing().list == nullptr ? "" : group->pricing().list->currency()};
  for (std::uint8_t i = 0; i < kAlgorithmCount; ++i) inputs.seen[i] = seen_times.Of(static_cast<Algorithm>(i));
  return inputs;
}

std::string PlanJson(const PlanInputs& inputs) {
  const control::View& view = inputs.view;
  const Routes routes = RoutesOf(view);
  const Json report = {{"group", view.group()},
                       {"epoch", ToString(Epoch(view.epoch()))},
                       {"world_size", view.members_size()},
                       {"bytes", inputs.bytes},
                       {"currency", inputs.currency.empty() ? Json() : Json(inputs.currency)},
                       {"prefers", inputs.measured.slower_max() > 1 ? "cheap" : "fast"},
                       {"chosen", NameOf(AlgorithmFor(view.plan(), inputs.bytes))},
                       {"prepared", inputs.prepared == Epoch() ? Json() : Json(ToString(inputs.prepared))},
                       {"algorithms", AlgorithmsJson(inputs, ModelOf(inputs.measured, routes, view.plan()))},
                       {"ring", RingJson(view, inputs.measured, routes.ring)},
                       {"rings", RingsJson(view, inputs.measured, routes.rings)},
                       {"shares", SharesJson(view, routes.shares)},
                       {"paths", PathsJson(inputs.measured)}};
  // Labels come from other hosts: invalid UTF-8 is replaced, where dump would throw by default.
  return report.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<std::string> PlanJson(const Group* group, const control::PlanRequest& request) {
  const Result<PlanInputs> inputs = PlanInputsOf(group, request);
  if (!inputs.ok()) return inputs.status();
  return PlanJson(inputs.value());
}

}  // namespace ringway
