#include "proto/collective/schedule.h"

#include <algorithm>
#include <bit>
#include <map>
#include <span>
#include <utility>

#include "proto/check.h"
#include "proto/collective/shares.h"

namespace ringway::collective {
namespace {

using Ring = std::span<const Rank>;

std::uint16_t U16(std::size_t value) { return static_cast<std::uint16_t>(value); }

std::vector<std::uint32_t> Equal(std::size_t chunks) { return std::vector<std::uint32_t>(chunks, 1); }

// Takes all transfers of an all-reduce between all ranks, in an order that is the same on all, and keeps what concerns
// the collective.
class Builder {
 public:
  Builder(OpKind collective, Algorithm kind, std::vector<std::uint32_t> weights)
      : reduces_(Reduces(collective) || IsEmpty(collective)), copies_(IsTheSameOnAll(collective)) {
    out_.weights = std::move(weights);
    out_.rank_parts = collective == OpKind::kAllGather || collective == OpKind::kReduceScatter || HasCounts(collective);
    out_.everyone_sums = kind == Algorithm::kOneShot;
  }

  // The chunk that `owner` finishes, `place` in the schedule's own order.
  std::size_t ChunkOf(std::size_t place, Rank owner) const { return out_.rank_parts ? owner.value : place; }

  void Reduce(std::size_t step, std::size_t chunk, Rank from, Rank to) {
    if (reduces_) Add(step, chunk, from, to, true);
  }
  void Copy(std::size_t step, std::size_t chunk, Rank from, Rank to) {
    if (copies_) Add(step, chunk, from, to, false);
  }

  Transfers Take() { return std::move(out_); }

 private:
  void Add(std::size_t step, std::size_t chunk, Rank from, Rank to, bool reduce) {
    out_.all.push_back({.step = U16(step), .chunk = U16(chunk), .from = from, .to = to, .reduce = reduce});
  }

  bool reduces_, copies_;
  Transfers out_;
};

// What one rank does of them.
class RankSchedule {
 public:
  RankSchedule(Transfers&& transfers, Rank self, std::size_t world)
      : self_(self), adds_(world * transfers.weights.size()) {
    out_.weights = std::move(transfers.weights);
    out_.rank_parts = transfers.rank_parts;
    out_.everyone_sums = transfers.everyone_sums;
    for (const Transfer& transfer : transfers.all) transfer.reduce ? Reduce(transfer) : Copy(transfer);
  }

  Schedule WithSums(OpKind collective, Rank root) {
    const bool is_root = self_ == root;
    switch (collective) {
      case OpKind::kAllGather:
      case OpKind::kAllGatherV:
      case OpKind::kAllToAll:
      case OpKind::kAllToAllV:
        FinishOwn(self_.value);
        break;
      case OpKind::kGather:
      case OpKind::kScatter:
        if (is_root) FinishOwn(self_.value);
        break;
      case OpKind::kBroadcast:
        for (std::size_t chunk = 0; is_root && chunk < out_.chunks(); ++chunk) FinishOwn(chunk);
        break;
      case OpKind::kAllReduce:
      case OpKind::kUpdateView:
      case OpKind::kReduceScatter:
      case OpKind::kReduceScatterV:
      case OpKind::kReduce:
      case OpKind::kBarrier:
      case OpKind::kSend:
      case OpKind::kRecv:
        AddSums();
    }
    // Elements that only the sender has are sent from its input.
    const bool from_input = !IsTheSameOnAll(collective) && !Reduces(collective);
    for (Departure& departure : out_.departures) {
      if (from_input) departure.source = Source::kInput;
    }
    return std::move(out_);
  }

 private:
  void FinishOwn(std::size_t chunk) {
    out_.sums.push_back({.chunk = U16(chunk), .order = {Sum::kOwn}, .finishes = true});
  }

  void AddSums() {
    for (auto& [chunk, sum] : sums_) {
      // Second: the first to arrive then waits in the output, and both are added in one pass. Where several ranks add
      // up, they come in order of rank, and so does the own.
      std::ptrdiff_t place = 1;
      if (out_.everyone_sums) place = self_.value;
      sum.order.insert(sum.order.begin() + place, Sum::kOwn);
      out_.sums.push_back(std::move(sum));
    }
  }

  void Reduce(const Transfer& transfer) {
    const bool partial = !out_.everyone_sums && Adds(transfer.from, transfer.chunk);
    Adds(transfer.to, transfer.chunk) = true;
    if (transfer.from == self_) {
      Depart(transfer, partial ? Source::kPartial : Source::kInput);
      if (partial) sums_.at(transfer.chunk).finishes = false;
    }
    if (transfer.to != self_) return;
    Arrive(transfer, partial);
    Sum& sum = sums_[transfer.chunk];
    sum.chunk = transfer.chunk;
    sum.finishes = true;  // until it is sent on
    sum.order.push_back(static_cast<std::uint32_t>(out_.arrivals.size() - 1));
  }

  void Copy(const Transfer& transfer) {
    if (transfer.from == self_) Depart(transfer, Source::kFinished);
    if (transfer.to == self_) Arrive(transfer);
  }

  void Depart(const Transfer& transfer, Source source) {
    out_.departures.push_back({.step = transfer.step, .chunk = transfer.chunk, .to = transfer.to, .source = source});
  }
  void Arrive(const Transfer& transfer, bool partial = false) {
    out_.arrivals.push_back({.step = transfer.step,
                             .chunk = transfer.chunk,
                             .from = transfer.from,
                             .reduce = transfer.reduce,
                             .partial = partial});
  }
  std::vector<bool>::reference Adds(Rank rank, std::uint16_t chunk) {
    return adds_[rank.value * out_.weights.size() + chunk];
  }

  Rank self_;
  std::vector<bool> adds_;  // by rank and chunk: whether something has been sent to it to be added
  Schedule out_;
  std::map<std::uint16_t, Sum> sums_;
};

// Position i sends chunk i - step in every step. The first K-1 steps add up; then position i holds chunk i + 1
// finished, and the copies simply go on counting.
void AddRing(Builder& builder, Ring ring, std::size_t first_chunk) {
  const std::size_t world = ring.size();
  for (std::size_t step = 0; step + 2 < 2 * world; ++step) {
    for (std::size_t i = 0; i < world; ++i) {
      const std::size_t place = (i + 2 * world - step) % world;
      const std::size_t chunk = builder.ChunkOf(first_chunk + place, ring[(place + world - 1) % world]);
      const Rank right = ring[(i + 1) % world];
      step + 1 < world ? builder.Reduce(step, chunk, ring[i], right) : builder.Copy(step, chunk, ring[i], right);
    }
  }
}

// The rings that an algorithm goes around.
std::vector<WeightedRing> RingsOf(Algorithm kind, const Routes& routes) {
  const WeightedRing there{.order = routes.ring};
  const WeightedRing back{.order = {routes.ring.rbegin(), routes.ring.rend()}};
  if (kind == Algorithm::kTwoRings) return {there, back};
  return kind == Algorithm::kRing || routes.rings.empty() ? std::vector{there} : routes.rings;
}

std::vector<std::uint32_t> RingWeights(const std::vector<WeightedRing>& rings) {
  std::vector<std::uint32_t> weights;
  for (const WeightedRing& ring : rings) weights.insert(weights.end(), ring.order.size(), ring.share);
  return weights;
}

void AddRings(Builder& builder, const std::vector<WeightedRing>& rings) {
  std::size_t first_chunk = 0;
  for (const WeightedRing& ring : rings) {
    AddRing(builder, ring.order, first_chunk);
    first_chunk += ring.order.size();
  }
}

// Each chunk is of the one who finishes it.
std::vector<std::uint32_t> DirectWeights(const Routes& routes) {
  if (routes.shares.empty()) return Equal(routes.ring.size());
  std::vector<std::uint32_t> weights;
  for (const Rank owner : routes.ring) weights.push_back(routes.shares[owner.value]);
  return weights;
}

void AddDirect(Builder& builder, Ring ring) {
  const std::size_t world = ring.size();
  for (std::size_t distance = 1; distance < world; ++distance) {
    for (std::size_t i = 0; i < world; ++i) {
      const std::size_t other = (i + distance) % world;
      builder.Reduce(distance, builder.ChunkOf(other, ring[other]), ring[i], ring[other]);
      builder.Copy(world + distance, builder.ChunkOf(i, ring[i]), ring[i], ring[other]);
    }
  }
}

void AddOneShot(Builder& builder, std::size_t world) {
  for (std::size_t from = 0; from < world; ++from) {
    for (std::size_t to = 0; to < world; ++to) {
      if (from != to)
        builder.Reduce(from, 0, Rank(static_cast<std::uint32_t>(from)), Rank(static_cast<std::uint32_t>(to)));
    }
  }
}

// Position p's parent is p without its lowest bit.
void AddTree(Builder& builder, Ring ring) {
  const std::size_t world = ring.size();
  std::size_t step = 0;
  for (std::size_t bit = 1; bit < world; bit *= 2, ++step) {
    for (std::size_t p = bit; p < world; p += 2 * bit) builder.Reduce(step, 0, ring[p], ring[p - bit]);
  }
  for (std::size_t bit = std::bit_floor(world - 1); bit > 0; bit /= 2, ++step) {
    for (std::size_t p = bit; p < world; p += 2 * bit) builder.Copy(step, 0, ring[p - bit], ring[p]);
  }
}

void AddNaive(Builder& builder, Ring ring) {
  for (std::size_t p = 1; p < ring.size(); ++p) builder.Reduce(p, 0, ring[p], ring[0]);
  for (std::size_t p = 1; p < ring.size(); ++p) builder.Copy(ring.size() + p, 0, ring[0], ring[p]);
}

// Among the first `world` positions, a power of two. In halving step t the partners differ in the t-th highest bit of
// their positions; each keeps the half of its chunks that agree with its own position there. Doubling goes back.
void AddHalvingDoubling(Builder& builder, Ring ring) {
  const std::size_t world = std::bit_floor(ring.size());
  const auto fold = [&](auto&& visit) {
    for (std::size_t p = world; p < ring.size(); ++p) {
      for (std::size_t chunk = 0; chunk < world; ++chunk) visit(chunk, ring[p], ring[p - world]);
    }
  };
  std::size_t step = 0;
  fold([&](std::size_t chunk, Rank out, Rank in) { builder.Reduce(step, chunk, out, in); });
  for (std::size_t distance = world / 2; distance > 0; distance /= 2) {
    ++step;
    for (std::size_t p = 0; p < world; ++p) {
      const std::size_t partner = p ^ distance;
      const std::size_t first = partner & ~(distance - 1);  // the chunks that partner keeps
      for (std::size_t chunk = first; chunk < first + distance; ++chunk) {
        builder.Reduce(step, chunk, ring[p], ring[partner]);
      }
    }
  }
  for (std::size_t distance = 1; distance < world; distance *= 2) {
    ++step;
    for (std::size_t p = 0; p < world; ++p) {
      const std::size_t first = p & ~(distance - 1);  // the chunks that p has by now
      for (std::size_t chunk = first; chunk < first + distance; ++chunk) {
        builder.Copy(step, chunk, ring[p], ring[p ^ distance]);
      }
    }
  }
  ++step;
  fold([&](std::size_t chunk, Rank out, Rank in) { builder.Copy(step, chunk, in, out); });
}

// Members by site, sites in order of their first appearance along the ring.
std::vector<std::vector<Rank>> BySite(Ring ring, std::span<const std::uint32_t> sites) {
  std::map<std::uint32_t, std::size_t> place;
  std::vector<std::vector<Rank>> out;
  for (const Rank rank : ring) {
    const auto [found, added] = place.try_emplace(sites[rank.value], out.size());
    if (added) out.emplace_back();
    out[found->second].push_back(rank);
  }
  return out;
}

// One member of each site is in charge of a chunk, and one of those finishes it.
//
//   members of a site --sum--> the one in charge there --sum--> the one in charge of all: finished
//                     <-copy--                        <-copy--
//
// So a chunk leaves each site once and comes back once, and all members of a site share its uplink.
void AddHierarchical(Builder& builder, const std::vector<std::vector<Rank>>& sites, std::size_t chunks) {
  enum Phase : std::size_t { kGather, kCross, kCrossBack, kSpread };
  const auto step = [](Phase phase, Rank from) { return phase * 64 + from.value; };
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const auto in_charge = [&](const std::vector<Rank>& site) { return site[chunk / sites.size() % site.size()]; };
    const Rank owner = in_charge(sites[chunk % sites.size()]);
    for (const auto& site : sites) {
      const Rank head = in_charge(site);
      for (const Rank member : site) {
        if (member != head) builder.Reduce(step(kGather, member), chunk, member, head);
      }
    }
    for (const auto& site : sites) {
      const Rank head = in_charge(site);
      if (head != owner) builder.Reduce(step(kCross, head), chunk, head, owner);
    }
    for (const auto& site : sites) {
      const Rank head = in_charge(site);
      if (head != owner) builder.Copy(step(kCrossBack, owner), chunk, owner, head);
      for (const Rank member : site) {
        if (member != head) builder.Copy(step(kSpread, head), chunk, head, member);
      }
    }
  }
}

// A chunk for each site and each member of the largest site, by the shares of the sites that own them.
std::vector<std::uint32_t> SiteWeights(const std::vector<std::vector<Rank>>& by_site, const Routes& routes) {
  std::size_t largest = 0;
  for (const auto& site : by_site) largest = std::max(largest, site.size());
  std::vector<std::uint32_t> weights;
  for (std::size_t chunk = 0; chunk < by_site.size() * largest; ++chunk) {
    const std::uint32_t site = routes.sites[by_site[chunk % by_site.size()].front().value];
    weights.push_back(routes.site_shares.empty() ? 1 : routes.site_shares[site]);
  }
  return weights;
}

// Returns the ring from the root on.
std::vector<Rank> RingFrom(Ring ring, Rank root) {
  std::vector<Rank> out(ring.begin(), ring.end());
  std::rotate(out.begin(), std::find(out.begin(), out.end(), root), out.end());
  return out;
}

// The copies of a broadcast along `order`, which begins with the root. All transfers have steps of their own.
std::vector<Transfer> Copies(Algorithm algorithm, Ring order) {
  const std::size_t world = order.size();
  std::vector<Transfer> out;
  const auto copy = [&](std::size_t chunk, std::size_t from, std::size_t to) {
    out.push_back({.step = U16(out.size()), .chunk = U16(chunk), .from = order[from], .to = order[to]});
  };
  switch (algorithm) {
    case Algorithm::kTree:
      for (std::size_t bit = std::bit_floor(world - 1); bit > 0; bit /= 2) {
        for (std::size_t p = bit; p < world; p += 2 * bit) copy(0, p - bit, p);
      }
      break;
    case Algorithm::kNaive:
      for (std::size_t p = 1; p < world; ++p) copy(0, 0, p);
      break;
    case Algorithm::kDirect:
      for (std::size_t p = 1; p < world; ++p) copy(p - 1, 0, p);
      for (std::size_t distance = 1; distance + 1 < world; ++distance) {
        for (std::size_t p = 1; p < world; ++p) copy(p - 1, p, (p - 1 + distance) % (world - 1) + 1);
      }
      break;
    default:
      for (std::size_t p = 1; p < world; ++p) copy(0, p - 1, p);
  }
  return out;
}

// Returns the transfers of a collective with a root: a reduce takes a broadcast's paths in reverse.
Transfers Rooted(OpKind collective, Algorithm algorithm, Ring order) {
  Transfers out;
  if (algorithm == Algorithm::kDirect) out.weights = Equal(order.size() - 1);
  out.all = Copies(algorithm, order);
  if (collective == OpKind::kBroadcast) return out;
  std::reverse(out.all.begin(), out.all.end());
  for (Transfer& transfer : out.all) {
    std::swap(transfer.from, transfer.to);
    transfer.reduce = true;
  }
  return out;
}

// Each chunk from the one who has it to the one who gets it.
Transfers Moves(OpKind collective, Ring ring, Rank root) {
  Transfers out;
  out.weights = Equal(ring.size());
  out.rank_parts = true;
  const auto move = [&](Rank chunk, Rank from, Rank to) {
    out.all.push_back({.chunk = U16(chunk.value), .from = from, .to = to});
  };
  for (std::size_t distance = 1; distance < ring.size(); ++distance) {
    for (std::size_t i = 0; i < ring.size(); ++i) {
      const Rank from = ring[i];
      const Rank to = ring[(i + distance) % ring.size()];
      if (collective == OpKind::kScatter && from == root) move(to, from, to);
      if (collective == OpKind::kGather && to == root) move(from, from, to);
      if (collective == OpKind::kAllToAll || collective == OpKind::kAllToAllV) move(from, from, to);
    }
  }
  return out;
}

}  // namespace

Transfers TransfersOf(OpKind collective, Algorithm algorithm, const Routes& routes, Rank root) {
  const Ring ring = routes.ring;
  const std::size_t world = ring.size();
  RINGWAY_CHECK(HasAlgorithm(collective, algorithm) && root.value < world);
  if (world == 1) return Builder(OpKind::kAllReduce, algorithm, {1}).Take();
  if (collective == OpKind::kBroadcast || collective == OpKind::kReduce)
    return Rooted(collective, algorithm, RingFrom(ring, root));
  if (!IsTheSameOnAll(collective) && !Reduces(collective)) return Moves(collective, ring, root);
  const auto built = [&](std::vector<std::uint32_t> weights, auto&& add) {
    Builder builder(collective, algorithm, std::move(weights));
    add(builder);
    return builder.Take();
  };
  std::vector<Rank> ranks(ring.begin(), ring.end());
  std::sort(ranks.begin(), ranks.end());
  switch (algorithm) {
    case Algorithm::kRing:
    case Algorithm::kTwoRings:
    case Algorithm::kRings: {
      const std::vector<WeightedRing> rings = RingsOf(algorithm, routes);
      return built(RingWeights(rings), [&](Builder& builder) { AddRings(builder, rings); });
    }
    case Algorithm::kDirect:
      return built(DirectWeights(routes), [&](Builder& builder) { AddDirect(builder, ring); });
    case Algorithm::kOneShot:
      return built({1}, [&](Builder& builder) { AddOneShot(builder, world); });
    case Algorithm::kTree:
      return built({1}, [&](Builder& builder) { AddTree(builder, ranks); });
    case Algorithm::kHalvingDoubling:
      return built(Equal(std::bit_floor(world)), [&](Builder& builder) { AddHalvingDoubling(builder, ranks); });
    case Algorithm::kNaive:
      return built({1}, [&](Builder& builder) { AddNaive(builder, ranks); });
    case Algorithm::kHierarchical: {
      RINGWAY_CHECK(routes.sites.size() == world);
      const auto by_site = BySite(ring, routes.sites);
      const std::vector<std::uint32_t> weights = SiteWeights(by_site, routes);
      return built(weights, [&](Builder& builder) { AddHierarchical(builder, by_site, weights.size()); });
    }
  }
  RINGWAY_CHECK(false);
  return {};
}

Schedule MakeSchedule(OpKind collective, Algorithm algorithm, const Routes& routes, Rank self, Rank root) {
  RINGWAY_CHECK(std::find(routes.ring.begin(), routes.ring.end(), self) != routes.ring.end());
  // Alone, the result is the input, but for ranges of it.
  const bool alone = routes.ring.size() == 1 && collective != OpKind::kAllToAllV;
  return RankSchedule(TransfersOf(collective, algorithm, routes, root), self, routes.ring.size())
      .WithSums(alone ? OpKind::kAllReduce : collective, root);
}

Schedule WithoutEmpty(Schedule schedule, const Layout& layout) {
  std::erase_if(schedule.arrivals, [&](const Arrival& arrival) { return layout.counts[arrival.from.value] == 0; });
  std::erase_if(schedule.departures,
                [&](const Departure& departure) { return layout.sends[departure.to.value].count == 0; });
  if (layout.counts[layout.self.value] == 0) schedule.sums.clear();
  return schedule;
}

Algorithm AlgorithmFor(OpKind collective, Algorithm planned) {
  if (HasAlgorithm(collective, planned)) return planned;
  const bool goes_around = planned == Algorithm::kTwoRings || planned == Algorithm::kRings;
  return goes_around && HasAlgorithm(collective, Algorithm::kRing) ? Algorithm::kRing : Algorithm::kDirect;
}

std::uint64_t ReorderBytesMax(Algorithm algorithm, std::uint32_t world_size, std::uint64_t bytes) {
  switch (algorithm) {
    case Algorithm::kOneShot:
    case Algorithm::kNaive:
      return (world_size - 1) * bytes;
    case Algorithm::kTree:
      return std::bit_width(world_size - 1) * bytes;
    case Algorithm::kDirect:
    case Algorithm::kHierarchical:
      return kReorderBuffersMax * bytes;
    default:
      return bytes;
  }
}

Schedule FetchSchedule(Rank holder, Rank lacking, Rank self, std::uint32_t parts) {
  Schedule schedule;
  schedule.rank_parts = parts > 0;
  if (parts > 0) schedule.weights = Equal(parts);
  for (std::size_t chunk = 0; chunk < schedule.chunks(); ++chunk) {
    if (self == holder) {
      schedule.departures.push_back({.step = 0, .chunk = U16(chunk), .to = lacking, .source = Source::kFinished});
    }
    if (self == lacking) schedule.arrivals.push_back({.step = 0, .chunk = U16(chunk), .from = holder});
  }
  return schedule;
}

}  // namespace ringway::collective
