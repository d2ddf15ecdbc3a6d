// Why a group's plan is as it is, for operations of one size, as JSON for ringwayctl. Pure.
//
//   {"group", "epoch", "world_size", "bytes", "chosen": algorithm,
//    "prepared": epoch of a newer view that waits for UpdateView, or null,
//    "algorithms": [{"name", "predicted_ms", "measured_ms", "operations"}],       measured_ms null: never seen
//    "ring": {"round_trip_ms", "rate_mbit", "bottleneck": index of a link,        null with one member
//             "links": [{"from", "from_site", "to", "to_site", "delay_ms", "rate_mbit",
//                        "delay_measured", "rate_measured"}]},
//    "paths": {"all", "delays_measured", "rates_measured"}}                       directed pairs of members
//
// "predicted_ms" is the cost model's, of the paths as they are known now; "measured_ms" the median of what the members
// saw in this view at this size class (proto/byte_size.h). Delays are one way; what was not measured is assumed
// (master/path_matrix.h).
#pragma once

#include <string>

#include "master/group.h"
#include "proto/control.pb.h"
#include "proto/result.h"

namespace ringway {

// `group` may be null: there is none of the name. kInvalidArgument then, and for a size that no operation has;
// kWorldTooSmall while the group has no view. Bounded, as the members of a view are.
Result<std::string> PlanJson(const Group* group, const control::PlanRequest& request);

}  // namespace ringway
