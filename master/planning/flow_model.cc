#include "master/planning/flow_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <tuple>

#include "proto/collective/grid.h"

namespace ringway {
namespace {

// Segments of a chunk: as the grid cuts it, within these, and all together about kSegmentsOfAll.
constexpr std::size_t kSegmentsMost = 32;
constexpr std::size_t kSegmentsLeast = 2;
constexpr std::size_t kSegmentsOfAll = 1024;
constexpr std::size_t kPiecesMost = 4;  // of a segment, that take turns with those of others
constexpr double kGridSegmentsPerChunk = 4;
constexpr auto kGridSegmentBytesMin = static_cast<double>(collective::kSegmentBytesMin);

// Orders turns that are ready at the same time by segment, then piece, then flow. They are one number because pricing
// spends its time in a heap of turns.
class Turn {
 public:
  Turn(double ready_at, std::uint32_t segment, std::uint32_t piece, std::uint32_t flow)
      : ready(ready_at), order_(std::uint64_t{segment} << 40 | std::uint64_t{piece} << 32 | flow) {}

  double ready = 0;
  std::uint32_t segment() const { return static_cast<std::uint32_t>(order_ >> 40); }
  std::uint32_t piece() const { return order_ >> 32 & 0xff; }
  std::uint32_t flow() const { return static_cast<std::uint32_t>(order_); }
  bool operator>(const Turn& other) const {
    return ready > other.ready || (ready == other.ready && order_ > other.order_);
  }

 private:
  std::uint64_t order_;
};
static_assert(kPiecesMost <= 0xff);

// The grid cuts chunks at multiples of a block.
std::vector<double> ChunkBytes(const std::vector<double>& parts, double bytes) {
  constexpr double kBlockBytes = collective::kGridElements * sizeof(float);
  std::vector<double> chunks;
  double whole = 0;
  double before = 0;
  for (const double part : parts) {
    whole += part * std::ceil(bytes / kBlockBytes);
    const double end = std::min(bytes, std::floor(whole + 1e-6) * kBlockBytes);
    chunks.push_back(end - before);
    before = end;
  }
  chunks.back() += bytes - before;
  return chunks;
}

// Into how many segments the grid cuts a chunk of `bytes` where the longest has `longest`.
std::size_t SegmentCount(double bytes, double longest, std::uint64_t segment_bytes_max, std::size_t most) {
  const auto largest = static_cast<double>(segment_bytes_max);
  const double segment = std::clamp(longest / kGridSegmentsPerChunk, std::min(kGridSegmentBytesMin, largest), largest);
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::ceil(bytes / std::max(1.0, segment))), 1, most);
}

}  // namespace

FlowModel::FlowModel(const PathMatrix& paths)
    : peers_(paths.size()), ways_(paths.size() * paths.size()), longest_delay_(LongestDelay(paths)) {
  enum class Kind : std::uint8_t { kUplink, kDownlink, kPath, kSite };
  std::map<std::tuple<Kind, std::uint32_t, std::uint32_t>, std::uint32_t> known;
  // A pipe with several rates has the highest: none can exceed its capacity.
  const auto pipe = [&](Kind kind, std::uint32_t a, std::uint32_t b, double rate) {
    const auto next = static_cast<std::uint32_t>(seconds_per_byte_.size());
    const auto [found, is_new] = known.try_emplace({kind, a, b}, next);
    if (is_new) seconds_per_byte_.push_back(1 / rate);
    double& seconds = seconds_per_byte_[found->second];
    seconds = std::min(seconds, 1 / rate);
    return found->second;
  };
  ForEachPath(peers_, [&](std::uint32_t from, std::uint32_t to) {
    const std::uint32_t here = paths.host(from);
    const std::uint32_t there = paths.host(to);
    Way& way = ways_[from * peers_ + to];
    way.delay = paths.delay(from, to);
    way.money = paths.money(from, to);
    way.pipes.fill(kNoPipe);
    way.pipes[0] = pipe(Kind::kPath, here, there, paths.rate(from, to));
    if (here == there) return;
    way.pipes[1] = pipe(Kind::kUplink, here, 0, paths.uplink(from));
    way.pipes[2] = pipe(Kind::kDownlink, there, 0, paths.downlink(to));
    if (paths.crosses(from, to)) way.pipes[3] = pipe(Kind::kSite, paths.site(from), 0, paths.site_uplink(from));
  });
}

FlowModel::Flows FlowModel::FlowsOf(const collective::Transfers& transfers) const {
  Flows out;
  double whole = 0;
  for (const std::uint32_t weight : transfers.weights) whole += weight;
  for (const std::uint32_t weight : transfers.weights) out.parts.push_back(weight / whole);
  // Holds, for each rank and chunk, the transfers that arrive there to be added up, and finished.
  struct Arrived {
    std::vector<std::uint32_t> reduced, copied;
  };
  std::vector<Arrived> arrived(peers_ * out.parts.size());
  const auto at = [&](Rank rank, std::uint32_t chunk) -> Arrived& {
    return arrived[rank.value * out.parts.size() + chunk];
  };
  for (const collective::Transfer& transfer : transfers.all) {
    const Way& way = ways_[transfer.from.value * peers_ + transfer.to.value];
    Arrived& end = at(transfer.to, transfer.chunk);
    (transfer.reduce ? end.reduced : end.copied).push_back(static_cast<std::uint32_t>(out.flows.size()));
    out.money += out.parts[transfer.chunk] * way.money;
    out.flows.push_back({.pipes = way.pipes, .delay = way.delay, .chunk = transfer.chunk, .feeds = {}});
  }
  for (std::uint32_t i = 0; i < out.flows.size(); ++i) {
    const collective::Transfer& transfer = transfers.all[i];
    if (transfer.reduce && transfers.everyone_sums) continue;
    const Arrived& start = at(transfer.from, transfer.chunk);
    for (const std::uint32_t source : transfer.reduce || start.copied.empty() ? start.reduced : start.copied) {
      out.flows[source].feeds.push_back(i);
      ++out.flows[i].waits_for;
    }
  }
  out.busiest = BusiestOf(out);
  return out;
}

double FlowModel::Seconds(const Flows& flows, double bytes, std::uint64_t segment_bytes_max, double limit) const {
  if (flows.flows.empty()) return 0;
  if (flows.busiest * bytes > limit) return flows.busiest * bytes;
  const std::size_t most = std::clamp(kSegmentsOfAll / flows.flows.size(), kSegmentsLeast, kSegmentsMost);
  const std::vector<double> chunks = ChunkBytes(flows.parts, bytes);
  const double longest = *std::max_element(chunks.begin(), chunks.end());
  std::vector<std::uint32_t> segments;  // by chunk
  for (const double chunk : chunks) {
    segments.push_back(static_cast<std::uint32_t>(SegmentCount(chunk, longest, segment_bytes_max, most)));
  }
  const std::uint32_t cut = *std::max_element(segments.begin(), segments.end());
  const auto pieces =
      static_cast<std::uint32_t>(std::clamp<std::size_t>(kSegmentsOfAll / flows.flows.size() / cut, 1, kPiecesMost));
  std::vector<double> ready(flows.flows.size() * most);
  std::vector<std::uint32_t> missing(flows.flows.size() * most);
  std::vector<Turn> first;
  for (std::uint32_t i = 0; i < flows.flows.size(); ++i) {
    for (std::uint32_t segment = 0; segment < segments[flows.flows[i].chunk]; ++segment) {
      missing[i * most + segment] = flows.flows[i].waits_for;
      if (flows.flows[i].waits_for == 0) first.emplace_back(0, segment, 0, i);
    }
  }
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns(std::greater<>(), std::move(first));
  std::vector<double> free(seconds_per_byte_.size());
  double last = 0;
  while (!turns.empty() && last <= limit) {
    const Turn turn = turns.top();
    turns.pop();
    const std::uint32_t segment = turn.segment();
    const Flows::Flow& flow = flows.flows[turn.flow()];
    const double size = chunks[flow.chunk] / segments[flow.chunk] / pieces;
    double left = turn.ready;
    for (const std::uint32_t pipe : flow.pipes) {
      if (pipe == kNoPipe) continue;
      free[pipe] = std::max(free[pipe], turn.ready) + size * seconds_per_byte_[pipe];
      left = std::max(left, free[pipe]);
    }
    if (turn.piece() + 1 < pieces) {
      turns.emplace(turn.ready, segment, turn.piece() + 1, turn.flow());
      continue;
    }
    const double arrival = left + flow.delay;
    last = std::max(last, arrival);
    for (const std::uint32_t fed : flow.feeds) {
      const std::size_t at = fed * most + segment;
      ready[at] = std::max(ready[at], arrival);
      if (--missing[at] == 0) turns.emplace(ready[at], segment, 0, fed);
    }
  }
  return last;
}

double FlowModel::BusiestOf(const Flows& flows) const {
  std::vector<double> busy(seconds_per_byte_.size());
  for (const Flows::Flow& flow : flows.flows) {
    for (const std::uint32_t pipe : flow.pipes) {
      if (pipe != kNoPipe) busy[pipe] += flows.parts[flow.chunk] * seconds_per_byte_[pipe];
    }
  }
  return busy.empty() ? 0 : *std::max_element(busy.begin(), busy.end());
}

}  // namespace ringway
