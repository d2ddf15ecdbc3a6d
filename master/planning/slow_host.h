// The host whose line makes the large operations of a group over twice as slow as they would be without it: each with
// the plan that is best for it, by the cost model. Pure.
//
// A group on fewer than three hosts has none. Only the host with the slowest end is looked at, so two plans are made.
#pragma once

#include <cstddef>
#include <optional>

#include "master/planning/path_matrix.h"
#include "proto/control.pb.h"

namespace ringway {

struct SlowHost {
  std::size_t peer = 0;  // one of those that are on it
  double ratio = 1;      // of the times with it and without it
};

// An all-reduce of so many bytes is priced.
inline constexpr std::uint64_t kSlowHostBytes = std::uint64_t{64} << 20;
inline constexpr double kSlowHostRatio = 2;

// `measured`: the paths between the members. Returns nothing if no host is slow, or too little is known.
std::optional<SlowHost> FindSlowHost(const PathMatrix& measured, const control::Plan& plan);

}  // namespace ringway
