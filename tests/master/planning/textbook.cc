#include "tests/master/planning/textbook.h"

#include <bit>
#include <cmath>

#include "proto/check.h"

namespace ringway {

double TextbookSeconds(Algorithm algorithm, std::size_t peers, double bytes, const UniformLink& link) {
  RINGWAY_CHECK(peers >= 1);
  if (peers == 1) return 0;
  const auto count = static_cast<double>(peers);
  const double whole = bytes * link.seconds_per_byte;  // Sb
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kTwoRings:
    case Algorithm::kRings:
      return 2 * (count - 1) * (link.delay + whole / count);
    case Algorithm::kDirect:
    case Algorithm::kHierarchical:
      return 2 * link.delay + 2 * (count - 1) / count * whole;
    case Algorithm::kOneShot:
      return link.delay + (count - 1) * whole;
    case Algorithm::kTree:
      return 2 * std::ceil(std::log2(count)) * (link.delay + whole);
    case Algorithm::kHalvingDoubling: {
      const auto core = static_cast<double>(std::bit_floor(peers));
      const double fold = core < count ? 2 * (link.delay + whole) : 0;
      return 2 * std::log2(core) * link.delay + 2 * (core - 1) / core * whole + fold;
    }
    case Algorithm::kNaive:
      return 2 * (count - 1) * (link.delay + whole);
  }
  RINGWAY_CHECK(false);
}

}  // namespace ringway
