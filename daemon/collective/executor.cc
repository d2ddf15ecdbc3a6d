#include "daemon/collective/executor.h"

#include <algorithm>
#include <cstring>

#include "daemon/kernels/codec.h"
#include "daemon/kernels/reduce.h"
#include "proto/check.h"
#include "proto/hash.h"
#include "proto/mutation.h"

namespace ringway::collective {
namespace {

std::uint32_t PositionKey(std::uint32_t step, std::uint32_t chunk) { return step << 16 | chunk; }

Stamp Min(const Stamp& a, const Stamp& b) {
  return {std::min(a.prepared, b.prepared), std::min(a.acknowledged, b.acknowledged)};
}

}  // namespace

Executor::Executor(Schedule schedule, const ExecutorOptions& options)
    : options_(options),
      schedule_(std::move(schedule)),
      grid_(options.descriptor.count, schedule_.chunks, SizeOf(options.descriptor.dtype), options.segment_bytes_max),
      input_bytes_(options.descriptor.count * SizeOf(options.descriptor.dtype)),
      stamp_(options.stamp) {
  for (std::uint32_t chunk = 0; chunk < schedule_.chunks; ++chunk) {
    first_segment_.push_back(static_cast<std::uint32_t>(segments_.size()));
    segments_.resize(segments_.size() + grid_.Segments(chunk), SegmentState{options.stamp});
  }
  followers_.resize(schedule_.arrivals.size());
  for (std::uint32_t i = 0; i < schedule_.departures.size(); ++i) {
    if (schedule_.departures[i].after != kNone) followers_[schedule_.departures[i].after].push_back(i);
  }
  for (std::uint32_t i = 0; i < schedule_.arrivals.size(); ++i) {
    const Arrival& arrival = schedule_.arrivals[i];
    arrival_of_[PositionKey(arrival.step, arrival.chunk)] = i;
    positions_.emplace_back(grid_.Segments(arrival.chunk), Position::kEmpty);
    open_segments_ += grid_.Segments(arrival.chunk);
  }
  QueueInputSegments();
  InputReady(options.input_bytes_ready);
}

void Executor::QueueInputSegments() {
  for (std::uint32_t i = 0; i < schedule_.departures.size(); ++i) {
    const Departure& departure = schedule_.departures[i];
    if (departure.after != kNone) continue;
    for (std::uint32_t segment = 0; segment < grid_.Segments(departure.chunk); ++segment) {
      // A finished departure that follows nothing serves a fetch: its source is the output, whole already.
      const std::uint64_t needed = departure.finished ? 0 : InputBytesNeeded(departure.chunk, segment);
      unstaged_departures_.emplace(needed, Ready{i, segment});
    }
  }
}

Result<Executor::Claim> Executor::Take(const SegmentHeader& header, Rank from) {
  const auto found = arrival_of_.find(PositionKey(header.step, header.chunk));
  if (found == arrival_of_.end() || schedule_.arrivals[found->second].from != from ||
      header.segment >= positions_[found->second].size()) {
    return Status(Code::kProtocol, "segment of a position that its sender does not have in the schedule");
  }
  const Arrival& arrival = schedule_.arrivals[found->second];
  if (header.payload_bytes != WireBytes(arrival.chunk, header.segment)) {
    return Status(Code::kProtocol, "segment has another length than the grid gives it");
  }
  Claim claim{.arrival = found->second, .segment = header.segment};
  Position& position = positions_[claim.arrival][claim.segment];
  if (position != Position::kEmpty && !(position == Position::kDone && RINGWAY_MUTANT(kTakeTwice))) {
    claim.duplicate = true;
    return claim;
  }
  position = Position::kClaimed;
  if (!arrival.reduce && options_.descriptor.codec == Codec::kNone && header.payload_bytes > 0) {
    claim.direct = OutputAt(grid_.Segment(arrival.chunk, claim.segment));
  }
  return claim;
}

void Executor::Release(const Claim& claim) {
  Position& position = positions_[claim.arrival][claim.segment];
  RINGWAY_CHECK(position == Position::kClaimed);
  position = Position::kEmpty;
}

void Executor::Accept(const Claim& claim, const SegmentHeader& header, std::span<const std::byte> payload) {
  RINGWAY_CHECK(!claim.duplicate && positions_[claim.arrival][claim.segment] == Position::kClaimed);
  const Arrival& arrival = schedule_.arrivals[claim.arrival];
  SegmentState& state = StateOf(arrival.chunk, claim.segment);
  state.stamp = arrival.reduce ? Min(state.stamp, header.stamp) : header.stamp;
  if (!RINGWAY_MUTANT(kStampOfOne)) stamp_ = Min(stamp_, header.stamp);
  if (!arrival.reduce) state.final_hash = header.payload_hash;
  if (claim.direct == nullptr) Combine(claim.arrival, claim.segment, payload);
  positions_[claim.arrival][claim.segment] = Position::kDone;
  const std::uint64_t needed = arrival.reduce ? InputBytesNeeded(arrival.chunk, claim.segment) : 0;
  if (needed > input_ready_) {
    unstaged_arrivals_.emplace(needed, Raw{claim.arrival, claim.segment});
  } else {
    Finish(claim.arrival, claim.segment);
  }
}

// Brings a payload into the output: combined with the own input where that is staged, as it came otherwise.
void Executor::Combine(std::uint32_t arrival, std::uint32_t segment, std::span<const std::byte> payload) {
  const Descriptor& d = options_.descriptor;
  const std::uint32_t chunk = schedule_.arrivals[arrival].chunk;
  const Range range = grid_.Segment(chunk, segment);
  if (schedule_.arrivals[arrival].reduce && InputBytesNeeded(chunk, segment) <= input_ready_) {
    kernels::DecodeReduce(d.codec, d.dtype, d.op, OutputAt(range), InputAt(range), payload.data(), range.count);
  } else {
    kernels::Decode(d.codec, d.dtype, OutputAt(range), payload.data(), range.count);
  }
}

// The output holds the arrival's segment, combined: owners finish it, then it goes on.
void Executor::Finish(std::uint32_t arrival, std::uint32_t segment) {
  const Descriptor& d = options_.descriptor;
  if (schedule_.arrivals[arrival].finishes) {
    const Range range = grid_.Segment(schedule_.arrivals[arrival].chunk, segment);
    kernels::Finalize(d.dtype, d.op, OutputAt(range), range.count, options_.world_size);
    // The owner goes on with what the others will decode.
    if (!RINGWAY_MUTANT(kKeepPrecision)) kernels::Requantize(d.codec, d.dtype, OutputAt(range), range.count);
  }
  --open_segments_;
  Spread(arrival, segment);
}

void Executor::Spread(std::uint32_t arrival, std::uint32_t segment) {
  for (const std::uint32_t departure : followers_[arrival]) Queue(departure, segment);
}

void Executor::Queue(std::uint32_t departure, std::uint32_t segment) {
  ready_[schedule_.departures[departure].to].push_back({departure, segment});
}

void Executor::InputReady(std::uint64_t bytes) {
  input_ready_ = std::clamp(bytes, input_ready_, input_bytes_);
  while (!unstaged_departures_.empty() && unstaged_departures_.begin()->first <= input_ready_) {
    const Ready ready = unstaged_departures_.begin()->second;
    unstaged_departures_.erase(unstaged_departures_.begin());
    Queue(ready.departure, ready.segment);
  }
  const Descriptor& d = options_.descriptor;
  while (!unstaged_arrivals_.empty() && unstaged_arrivals_.begin()->first <= input_ready_) {
    const Raw raw = unstaged_arrivals_.begin()->second;
    unstaged_arrivals_.erase(unstaged_arrivals_.begin());
    const Range range = grid_.Segment(schedule_.arrivals[raw.arrival].chunk, raw.segment);
    kernels::Reduce(d.dtype, d.op, OutputAt(range), InputAt(range), OutputAt(range), range.count);
    Finish(raw.arrival, raw.segment);
  }
  // Alone, the result is the own input by the operation's rule, and avg of one is that one.
  if (options_.world_size == 1 && input_ready_ == input_bytes_ && input_bytes_ > 0) {
    std::memcpy(options_.output, options_.input, input_bytes_);
  }
}

std::optional<Executor::Ready> Executor::PopReady(Rank to, std::uint32_t wire_bytes_max) {
  const auto found = ready_.find(to);
  if (found == ready_.end() || found->second.empty()) return std::nullopt;
  const Ready ready = found->second.front();
  if (WireBytes(schedule_.departures[ready.departure].chunk, ready.segment) > wire_bytes_max) return std::nullopt;
  found->second.pop_front();
  return ready;
}

void Executor::Requeue(const Ready& ready) { ready_[schedule_.departures[ready.departure].to].push_front(ready); }

std::optional<std::uint32_t> Executor::NextBytes(Rank to) const {
  const auto found = ready_.find(to);
  if (found == ready_.end() || found->second.empty()) return std::nullopt;
  const Ready& ready = found->second.front();
  return WireBytes(schedule_.departures[ready.departure].chunk, ready.segment);
}

Executor::Encoded Executor::Encode(const Ready& ready, std::span<std::byte> scratch) {
  const Descriptor& d = options_.descriptor;
  const Departure& departure = schedule_.departures[ready.departure];
  const Range range = grid_.Segment(departure.chunk, ready.segment);
  const bool from_output = departure.finished || departure.after != kNone;
  const std::byte* source = from_output ? OutputAt(range) : InputAt(range);
  const std::uint32_t bytes = WireBytes(departure.chunk, ready.segment);
  Encoded encoded;
  if (d.codec == Codec::kNone) {
    encoded.payload = {source, bytes};
  } else {
    RINGWAY_CHECK(scratch.size() >= bytes);
    kernels::Encode(d.codec, d.dtype, scratch.data(), source, range.count);
    encoded.payload = scratch.first(bytes);
  }
  SegmentState& state = StateOf(departure.chunk, ready.segment);
  const bool known = departure.finished && state.final_hash != 0;
  const std::uint64_t hash = known ? state.final_hash : Hash64(encoded.payload);
  if (departure.finished) state.final_hash = hash;
  encoded.header.descriptor = d;
  encoded.header.step = departure.step;
  encoded.header.chunk = departure.chunk;
  encoded.header.segment = ready.segment;
  encoded.header.payload_bytes = bytes;
  encoded.header.stamp = state.stamp;
  encoded.header.payload_hash = hash;
  return encoded;
}

std::uint32_t Executor::WireBytes(std::uint32_t chunk, std::uint32_t segment) const {
  const Descriptor& d = options_.descriptor;
  return static_cast<std::uint32_t>(kernels::EncodedBytes(d.codec, d.dtype, grid_.Segment(chunk, segment).count));
}

std::uint64_t Executor::InputBytesNeeded(std::uint32_t chunk, std::uint32_t segment) const {
  const Range range = grid_.Segment(chunk, segment);
  return (range.begin + range.count) * grid_.element_bytes();
}

std::byte* Executor::OutputAt(const Range& range) const {
  return options_.output + range.begin * grid_.element_bytes();
}

const std::byte* Executor::InputAt(const Range& range) const {
  return options_.input + range.begin * grid_.element_bytes();
}

}  // namespace ringway::collective
