// A layout says what each rank has of a collective with counts by rank (HasCounts). One rank makes it, for one world.
//
//   all_gather_v, reduce_scatter_v   counts[r]: rank r's part of the buffer, the same list at all ranks
//   all_to_all_v                     counts[r]: what comes from rank r; sends[r]: what of the own input goes there
//
// Units: elements. No rank knows all counts of an all_to_all_v, so each pair of ranks compares its own two.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "proto/hash.h"
#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::collective {

using Range = Part;

struct Layout {
  Rank self;
  std::vector<std::uint64_t> counts;  // by rank
  std::vector<Range> sends;           // by rank, of an all_to_all_v; they may overlap

  // REQUIRES of all below: no sum overflows, ranks are in the lists.
  std::uint64_t total() const { return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}); }
  Range PartOf(Rank rank) const {
    const auto at = counts.begin() + rank.value;
    return {std::accumulate(counts.begin(), at, std::uint64_t{0}), *at};
  }
  // Parts in rank order, one after the other.
  std::vector<Range> Parts() const {
    std::vector<Range> parts;
    std::uint64_t begin = 0;
    for (const std::uint64_t count : counts) {
      parts.push_back({begin, count});
      begin += count;
    }
    return parts;
  }
  // Elements of the input up to the end of the last range.
  std::uint64_t sent_upto() const {
    std::uint64_t end = 0;
    for (const Range& range : sends) end = std::max<std::uint64_t>(end, range.begin + range.count);
    return end;
  }
};

// Never 0.
inline std::uint64_t HashOf(const Layout& layout) {
  const std::uint64_t hash = Hash64(std::as_bytes(std::span(layout.counts)));
  return hash == 0 ? 1 : hash;
}

// Returns what `self` and `other` must agree on: both derive the same from the counts that they know.
inline Descriptor DescriptorWith(Descriptor descriptor, const Layout& layout, Rank self, Rank other) {
  if (descriptor.kind != OpKind::kAllToAllV) return descriptor;
  const std::uint64_t there = layout.sends[other.value].count;
  const std::uint64_t back = layout.counts[other.value];
  descriptor.count = self < other ? there : back;
  descriptor.layout = self < other ? back : there;
  return descriptor;
}

}  // namespace ringway::collective
