// A group's plan and its reasons for operations of one size, as JSON for ringwayctl. Pure.
//
//   {"group", "epoch", "world_size", "bytes", "currency": or null, "prefers": "fast" or "cheap", "chosen": algorithm,
//    "prepared": epoch of the newest prepared view, or null,
//    "algorithms": [{"name", "predicted_ms", "measured_ms", "operations", "cost"}],   null: no sample, no price
//    "ring": {"round_trip_ms", "rate_mbit", "bottleneck": index of a link,        null with one member
//             "links": [{"from", "from_site", "to", "to_site", "delay_ms", "rate_mbit",
//                        "delay_measured", "rate_measured"}]},
//    "paths": {"all", "delays_measured", "rates_measured"}}                       directed pairs of members
//
// "predicted_ms" is the cost model's, from the paths as they are known now; "measured_ms" the median of the members'
// samples in this view and size class (proto/byte_size.h). Delays are one way; unmeasured values are assumptions
// (master/planning/path_matrix.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "master/coordination/group.h"
#include "master/planning/path_matrix.h"
#include "master/planning/plan_times.h"
#include "proto/control.pb.h"
#include "proto/result.h"

namespace ringway {

// The key of a report: equal inputs have equal reports, so reports can be cached.
struct PlanInputs {
  control::View view;
  PathMatrix measured;
  std::array<std::optional<SeenTime>, kAlgorithmCount> seen;
  Epoch prepared;
  std::uint64_t bytes = 0;
  std::string currency = {};  // empty: nothing has a price

  // A view does not change under its epoch.
  friend bool operator==(const PlanInputs& a, const PlanInputs& b) {
    return a.view.epoch() == b.view.epoch() && a.view.group() == b.view.group() && a.bytes == b.bytes &&
           a.prepared == b.prepared && a.seen == b.seen && a.measured == b.measured;
  }
};

// `group`: null if there is none of this name. Errors: kInvalidArgument for null or an impossible size; kWorldTooSmall
// while the group has no view.
Result<PlanInputs> PlanInputsOf(const Group* group, const control::PlanRequest& request);

// Takes 40 ms for the largest group. The size is bounded, as a view's members are.
std::string PlanJson(const PlanInputs& inputs);
Result<std::string> PlanJson(const Group* group, const control::PlanRequest& request);

}  // namespace ringway
