#include "master/planning/ring_search.h"

#include <algorithm>
#include <compare>
#include <numeric>
#include <optional>

#include "proto/check.h"

namespace ringway {
namespace {

struct Weight {
  std::int64_t classes_missed = 0;
  LinkCost cost = 0;
  friend auto operator<=>(const Weight&, const Weight&) = default;
  friend Weight operator+(const Weight& a, const Weight& b) {
    return {a.classes_missed + b.classes_missed, a.cost + b.cost};
  }
  friend Weight operator-(const Weight& a, const Weight& b) {
    return {a.classes_missed - b.classes_missed, a.cost - b.cost};
  }
};

// One ring that is improved to a local optimum. Places 0 .. n-1 along the ring; place n is place 0 again.
class Search {
 public:
  // `steps_left`: counted down; at 0 the search stops.
  Search(const RingLinks& links, RateClass wanted, std::size_t& steps_left)
      : links_(links), wanted_(wanted), steps_left_(steps_left), forward_(links.size()), backward_(links.size()) {}

  void Build(std::uint32_t start);
  void Improve();

  Weight weight() const { return forward_.back() + Link(ring_.size() - 1, ring_.size()); }
  // Rotated to start at peer 0.
  std::vector<std::uint32_t> Ring() const;

 private:
  Weight OfPeers(std::uint32_t from, std::uint32_t to) const {
    const int missed = int{links_.rate_class(from, to)} - int{wanted_};
    return {std::max(missed, 0), links_.cost(from, to)};
  }
  // Between the peers at two places.
  Weight Link(std::size_t from, std::size_t to) const { return OfPeers(At(from), At(to)); }
  std::uint32_t At(std::size_t place) const { return ring_[place < ring_.size() ? place : place - ring_.size()]; }

  bool Step() { return steps_left_ > 0 && steps_left_-- > 0; }
  void Remeasure();
  bool TurnAround();
  bool MoveStretch();
  bool MoveStretch(std::size_t first, std::size_t end);
  void Put(std::size_t first, std::size_t end, std::size_t before);

  const RingLinks& links_;
  const RateClass wanted_;
  std::size_t& steps_left_;
  std::vector<std::uint32_t> ring_;
  std::vector<Weight> forward_;   // of the links from place 0 to each place
  std::vector<Weight> backward_;  // of the same links reversed
};

void Search::Build(std::uint32_t start) {
  std::vector<std::uint32_t> left(links_.size());
  std::iota(left.begin(), left.end(), 0);
  left.erase(left.begin() + start);
  ring_ = {start};
  while (!left.empty()) {
    const auto nearest = std::min_element(left.begin(), left.end(), [this](std::uint32_t a, std::uint32_t b) {
      return OfPeers(ring_.back(), a) < OfPeers(ring_.back(), b);
    });
    steps_left_ -= std::min(steps_left_, left.size());
    ring_.push_back(*nearest);
    left.erase(nearest);
  }
  Remeasure();
}

void Search::Improve() {
  // No move changes place 0, so the ring is rotated by half between passes: two passes without a gain tried all moves.
  for (int passes_in_vain = 0; passes_in_vain < 2 && steps_left_ > 0; ++passes_in_vain) {
    std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(ring_.size() / 2), ring_.end());
    Remeasure();
    const bool turned = TurnAround();
    const bool moved = MoveStretch();
    if (turned || moved) passes_in_vain = -1;
  }
}

void Search::Remeasure() {
  for (std::size_t place = 1; place < ring_.size(); ++place) {
    forward_[place] = forward_[place - 1] + Link(place - 1, place);
    backward_[place] = backward_[place - 1] + Link(place, place - 1);
  }
}

// 2-opt over all stretches [first, last] without place 0. Returns whether anything improved.
bool Search::TurnAround() {
  bool improved = false;
  for (std::size_t first = 1; first + 1 < ring_.size(); ++first) {
    for (std::size_t last = first + 1; last < ring_.size() && Step(); ++last) {
      const Weight now = Link(first - 1, first) + (forward_[last] - forward_[first]) + Link(last, last + 1);
      const Weight turned = Link(first - 1, last) + (backward_[last] - backward_[first]) + Link(first, last + 1);
      if (turned >= now) continue;
      std::reverse(ring_.begin() + static_cast<std::ptrdiff_t>(first),
                   ring_.begin() + static_cast<std::ptrdiff_t>(last) + 1);
      Remeasure();
      improved = true;
    }
  }
  return improved;
}

// Or-opt over all stretches of up to a dozen peers, so that a site can move as a whole. Returns whether anything
// improved.
bool Search::MoveStretch() {
  constexpr std::size_t kStretchMax = 12;
  bool improved = false;
  for (std::size_t first = 1; first < ring_.size(); ++first) {
    const std::size_t end_max = std::min(first + kStretchMax, ring_.size());
    for (std::size_t end = first + 1; end <= end_max; ++end) improved |= MoveStretch(first, end);
  }
  return improved;
}

// Moves the peers at [first, end) to the first better place. Returns whether there was one.
bool Search::MoveStretch(std::size_t first, std::size_t end) {
  const Weight saved = Link(first - 1, first) + Link(end - 1, end) - Link(first - 1, end);
  for (std::size_t before = 1; before <= ring_.size() && Step(); ++before) {
    if (before >= first && before <= end) continue;  // its own place
    const Weight spent = Link(before - 1, first) + Link(end - 1, before) - Link(before - 1, before);
    if (spent >= saved) continue;
    Put(first, end, before);
    Remeasure();
    return true;
  }
  return false;
}

// Moves the peers at [first, end) in front of the one at `before`, which is not among them.
void Search::Put(std::size_t first, std::size_t end, std::size_t before) {
  const auto at = [this](std::size_t place) { return ring_.begin() + static_cast<std::ptrdiff_t>(place); };
  if (before < first) {
    std::rotate(at(before), at(first), at(end));
  } else {
    std::rotate(at(first), at(end), at(before));
  }
}

std::vector<std::uint32_t> Search::Ring() const {
  std::vector<std::uint32_t> ring = ring_;
  std::rotate(ring.begin(), std::find(ring.begin(), ring.end(), 0U), ring.end());
  return ring;
}

}  // namespace

std::vector<std::uint32_t> SearchRing(const RingLinks& links, RateClass wanted) {
  RINGWAY_CHECK(links.size() >= 2);
  std::size_t steps_left = kSearchStepsMax;
  std::optional<Weight> best_weight;
  std::vector<std::uint32_t> best;
  for (std::uint32_t start = 0; start < links.size() && steps_left > 0; ++start) {
    Search search(links, wanted, steps_left);
    search.Build(start);
    search.Improve();
    if (best_weight && search.weight() >= *best_weight) continue;
    best_weight = search.weight();
    best = search.Ring();
  }
  return best;
}

}  // namespace ringway
