#include "daemon/collective/executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/collective/host_board.h"
#include "daemon/kernels/codec.h"
#include "daemon/kernels/reduce.h"
#include "proto/check.h"
#include "proto/hash.h"

namespace ringway::collective {
namespace {

std::uint32_t PositionKey(std::uint32_t step, std::uint32_t chunk) { return step << 16 | chunk; }

}  // namespace

Executor::Executor(std::shared_ptr<const Schedule> schedule, const ExecutorOptions& options)
    : options_(options),
      shared_(std::move(schedule)),
      schedule_(*shared_),
      cuts_(schedule_, options.descriptor, options.shape, options.layout.get(), options.segment_bytes_max),
      grid_(cuts_.grid()),
      input_bytes_(options.shape.input.count * SizeOf(options.descriptor.dtype)),
      input_scale_(averages() ? kernels::AverageScale(total_weight()) : 1),
      stamp_(options.stamp),
      losses_(options.descriptor, options.shape.input,
              {.size = options.world_size,
               .self = options.self,
               .everyone_sums = schedule_.everyone_sums,
               .average_factor = input_scale_ * total_weight() / ScaleOfRank(options.self)},
              options.loss) {
  PlanChunks();
  for (std::uint32_t i = 0; i < schedule_.arrivals.size(); ++i) {
    const Arrival& arrival = schedule_.arrivals[i];
    arrival_of_[PositionKey(arrival.step, arrival.chunk)] = i;
    positions_.emplace_back(grid_.Segments(arrival.chunk), Position::kEmpty);
    if (!arrival.reduce) open_segments_ += grid_.Segments(arrival.chunk);
  }
  QueueInputs();
  InputReady(is_absent() ? input_bytes_ : options.input_bytes_ready);
}

Executor::~Executor() {
  GiveRoom(room_taken_);
  if (options_.sink == nullptr) return;
  for (const auto& [to, queue] : ready_) {
    if (!queue.empty()) options_.sink->OnNextChanged(to, std::nullopt);
  }
}

void Executor::NotifyNext(Rank to) {
  if (options_.sink != nullptr) options_.sink->OnNextChanged(to, NextBytes(to));
}

bool Executor::TakeRoom(std::uint64_t bytes) {
  if (options_.memory != nullptr && !options_.memory->TryTake(MemoryUse::kReorder, bytes)) return false;
  room_taken_ += bytes;
  return true;
}

void Executor::GiveRoom(std::uint64_t bytes) {
  room_taken_ -= bytes;
  if (options_.memory != nullptr) options_.memory->Give(MemoryUse::kReorder, bytes);
}

void Executor::PlanChunks() {
  for (std::uint32_t chunk = 0; chunk < schedule_.chunks(); ++chunk) {
    const std::uint32_t segments = grid_.Segments(chunk);
    ChunkPlan& plan = chunks_.emplace_back();
    plan.first_segment = static_cast<std::uint32_t>(segments_.size());
    plan.last_segment = segments - 1;
    plan.wire_bytes = EncodedBytesOf(chunk, 0);
    plan.last_wire_bytes = EncodedBytesOf(chunk, plan.last_segment);
    segments_.resize(segments_.size() + segments, SegmentState{.stamp = options_.stamp});
  }
  for (std::uint32_t i = 0; i < schedule_.sums.size(); ++i) {
    chunks_[schedule_.sums[i].chunk].sum = i;
    open_segments_ += grid_.Segments(schedule_.sums[i].chunk);
  }
  for (const ChunkPlan& chunk : chunks_) {  // which other ranks of this process finish, or receive
    if (chunk.sum == kNone && (schedule_.in_process || schedule_.sums_host)) open_segments_ += chunk.last_segment + 1;
  }
  for (std::uint32_t i = 0; i < schedule_.departures.size(); ++i) {
    ChunkPlan& chunk = chunks_[schedule_.departures[i].chunk];
    if (schedule_.departures[i].source == Source::kPartial) chunk.partials.push_back(i);
    if (schedule_.departures[i].source == Source::kFinished) chunk.finals.push_back(i);
  }
}

void Executor::QueueInputs() {
  // A fetch has neither sums nor own inputs to send: its source is the output, whole already.
  const bool serves = schedule_.arrivals.empty() && schedule_.sums.empty();
  for (std::uint32_t i = 0; i < schedule_.departures.size(); ++i) {
    const Departure& departure = schedule_.departures[i];
    if (departure.source != Source::kInput && !serves) continue;
    for (std::uint32_t segment = 0; segment < cuts_.SegmentsOf(departure); ++segment) {
      const std::uint64_t needed = departure.source == Source::kInput ? InputBytesNeeded(RangeOf({i, segment})) : 0;
      RINGWAY_CHECK(needed <= input_bytes_);  // else it would wait for ever
      unstaged_departures_.push_back({needed, {i, segment}});
    }
  }
  std::stable_sort(unstaged_departures_.begin(), unstaged_departures_.end(),
                   [](const auto& a, const auto& b) { return a.input_bytes < b.input_bytes; });
  // Sums for which nothing arrives begin by themselves.
  for (std::uint32_t i = 0; i < schedule_.sums.size(); ++i) {
    const Sum& sum = schedule_.sums[i];
    if (sum.order.size() > 1) continue;
    for (std::uint32_t segment = 0; segment < grid_.Segments(sum.chunk); ++segment) {
      AwaitInput({i, segment});
    }
  }
}

void Executor::AwaitInput(const SumSegment& at) {
  const std::uint16_t chunk = schedule_.sums[at.sum].chunk;
  StateOf(chunk, at.segment).awaits_input = true;
  unstaged_sums_.push_back({InputBytesNeeded(cuts_.OwnRange(chunk, at.segment)), unstaged_sums_seen_++, at});
  std::push_heap(unstaged_sums_.begin(), unstaged_sums_.end());
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
  const bool taken = position == Position::kClaimed || position == Position::kDone;
  if (taken && !(position == Position::kDone && RINGWAY_MUTANT(kTakeTwice))) {
    claim.skipped = true;
    return claim;
  }
  if (arrival.reduce && !IsItsTurn(claim.arrival, claim.segment)) {
    claim.has_room = TakeRoom(header.payload_bytes);
    if (!claim.has_room) {
      position = Position::kRefused;
      claim.skipped = true;
      return claim;
    }
  }
  position = Position::kClaimed;
  if (!arrival.reduce) StateOf(arrival.chunk, claim.segment).final_came = true;
  // What this copies to others must not lie where its trainer writes.
  if (!arrival.reduce && options_.descriptor.codec == Codec::kNone && header.payload_bytes > 0 && host_ == nullptr) {
    claim.direct = OutputAt(grid_.Segment(arrival.chunk, claim.segment));
  }
  return claim;
}

// Only this arrival can advance the sum then. The own input has its turn at the first arrival at the latest.
bool Executor::IsItsTurn(std::uint32_t arrival, std::uint32_t segment) {
  const std::uint16_t chunk = schedule_.arrivals[arrival].chunk;
  const Sum& sum = schedule_.sums[chunks_[chunk].sum];
  const SegmentState& state = StateOf(chunk, segment);
  if (state.next < sum.order.size() && sum.order[state.next] == Sum::kOwn)
    (void)Advance({chunks_[chunk].sum, segment}, {});
  return state.next < sum.order.size() && sum.order[state.next] == arrival;
}

void Executor::Accept(const Claim& claim, const SegmentHeader& header, std::span<const std::byte> payload) {
  RINGWAY_CHECK(!claim.skipped && positions_[claim.arrival][claim.segment] == Position::kClaimed);
  const Descriptor& d = options_.descriptor;
  const Arrival& arrival = schedule_.arrivals[claim.arrival];
  const ChunkPlan& chunk = chunks_[arrival.chunk];
  SegmentState& state = StateOf(arrival.chunk, claim.segment);
  state.stamp = arrival.reduce ? Min(state.stamp, header.stamp) : header.stamp;
  if (!RINGWAY_MUTANT(kStampOfOne)) stamp_ = Min(stamp_, header.stamp);
  positions_[claim.arrival][claim.segment] = Position::kDone;
  if (arrival.reduce) {
    if (Advance({chunk.sum, claim.segment}, {claim.arrival, payload})) {
      if (claim.has_room) GiveRoom(payload.size());  // its turn came while it was being read
      return;
    }
    RINGWAY_CHECK(claim.has_room || RINGWAY_MUTANT(kTakeTwice));
    reorder_buffer_.emplace(KeyOf(claim.arrival, claim.segment),
                            std::vector<std::byte>(payload.begin(), payload.end()));
    return;
  }
  state.final_hash = header.payload_hash;
  const Range range = grid_.Segment(arrival.chunk, claim.segment);
  if (claim.direct == nullptr) kernels::Decode(d.codec, d.dtype, OutputAt(range), payload.data(), range.count);
  NoteFinished(range);
  --open_segments_;
  QueueAll(chunk.finals, claim.segment);
  if (host_ != nullptr) {
    host_->Copy(options_.self, {arrival.chunk, claim.segment, payload, header.payload_hash, header.stamp});
  }
}

bool Executor::Advance(const SumSegment& at, const Payload& fresh) {
  const Sum& sum = schedule_.sums[at.sum];
  SegmentState& state = StateOf(sum.chunk, at.segment);
  const Range range = grid_.Segment(sum.chunk, at.segment);
  bool used = false;
  while (state.next < sum.order.size()) {
    const std::uint32_t source = sum.order[state.next];
    if (source == Sum::kOwn) {
      if (!AddOwn(at, state, range)) break;
    } else if (source == fresh.arrival) {
      AddNext(sum, state, range, fresh.bytes);
      used = true;
    } else {
      const auto found = reorder_buffer_.find(KeyOf(source, at.segment));
      if (found == reorder_buffer_.end()) {
        RequestResend(source, at.segment);
        break;
      }
      AddNext(sum, state, range, found->second);
      GiveRoom(found->second.size());
      reorder_buffer_.erase(found);
    }
  }
  if (state.next == sum.order.size()) FinishSum(at);
  return used;
}

void Executor::RequestResend(std::uint32_t arrival, std::uint32_t segment) {
  Position& position = positions_[arrival][segment];
  if (position != Position::kRefused) return;
  position = Position::kEmpty;
  const Arrival& wanted = schedule_.arrivals[arrival];
  if (RINGWAY_MUTANT(kForgetRefused)) return;
  resends_.push_back({.from = wanted.from, .step = wanted.step, .chunk = wanted.chunk, .segment = segment});
}

// The first value is decoded into the output; if the own input follows and is staged, both are added in one pass.
void Executor::AddNext(const Sum& sum, SegmentState& state, const Range& range, std::span<const std::byte> payload) {
  const Descriptor& d = options_.descriptor;
  const std::uint32_t place = state.next++;
  const bool first = place == 0;
  // One pass puts the own value on the left; ranks that all compute the sum must not differ in the order of operands.
  const bool own_follows = first && sum.order[1] == Sum::kOwn && !schedule_.everyone_sums;
  if (own_follows && InputBytesNeeded(range) <= input_ready_) {
    kernels::DecodeReduce(d.codec, d.dtype, d.op, OutputAt(range), InputAt(range), payload.data(), range.count,
                          {.a = ScaleOf(Sum::kOwn), .b = ScaleOf(sum.order[0])});
    ++state.next;
  } else if (first) {
    kernels::Decode(d.codec, d.dtype, OutputAt(range), payload.data(), range.count);
  } else {
    kernels::DecodeReduce(d.codec, d.dtype, d.op, OutputAt(range), OutputAt(range), payload.data(), range.count,
                          ScalesAt(sum, place));
  }
}

// Returns false if it is not staged yet.
bool Executor::AddOwn(const SumSegment& at, SegmentState& state, const Range& range) {
  const Descriptor& d = options_.descriptor;
  if (state.awaits_input) return false;
  const Sum& sum = schedule_.sums[at.sum];
  const Range own_range = cuts_.OwnRange(sum.chunk, at.segment);
  if (!HasOwn(InputBytesNeeded(own_range))) {
    AwaitInput(at);
    return false;
  }
  const std::uint32_t place = state.next++;
  if (host_ != nullptr) {
    state.stamp = Min(state.stamp, host_->stamp());
    stamp_ = Min(stamp_, state.stamp);
    host_->SumInputs(range, OutputAt(range));
    return true;
  }
  if (range.count == 0) return true;
  const std::byte* own = InputAt(own_range);
  std::vector<std::byte> as_sent;
  if (schedule_.everyone_sums && d.codec != Codec::kNone) {  // the others add what they decode of it
    as_sent.assign(own, own + range.count * grid_.element_bytes());
    const kernels::Dither dither = DitherOf(range, false);
    kernels::Requantize(d.codec, d.dtype, as_sent.data(), range.count, &dither);
    NoteSent(state, range, own, as_sent.data(), 1);
    own = as_sent.data();
  }
  if (place == 0) {
    std::memcpy(OutputAt(range), own, range.count * grid_.element_bytes());
  } else {
    kernels::Reduce(d.dtype, d.op, OutputAt(range), OutputAt(range), own, range.count, ScalesAt(sum, place));
  }
  return true;
}

// The output holds the whole sum: who finishes the chunk does, then it goes on.
void Executor::FinishSum(const SumSegment& at) {
  const Sum& sum = schedule_.sums[at.sum];
  const ChunkPlan& chunk = chunks_[sum.chunk];
  if (sum.finishes) Finish(at, grid_.Segment(sum.chunk, at.segment));
  --open_segments_;
  QueueAll(sum.finishes ? chunk.finals : chunk.partials, at.segment);
  if (!sum.finishes || host_ == nullptr) return;
  SegmentState& state = StateOf(sum.chunk, at.segment);
  const std::span<const std::byte> value = BytesAt(grid_.Segment(sum.chunk, at.segment));
  state.final_hash = host_->CopyHashed(options_.self, {sum.chunk, at.segment, value, 0, state.stamp});
}

void Executor::Finish(const SumSegment& at, const Range& range) {
  const Descriptor& d = options_.descriptor;
  const std::uint16_t chunk = schedule_.sums[at.sum].chunk;
  if (Reduces(d.kind)) kernels::Finalize(d.dtype, d.op, OutputAt(range), range.count, total_weight());
  // The owner goes on with what the others will decode.
  if (IsTheSameOnAll(d.kind) && !RINGWAY_MUTANT(kKeepPrecision)) {
    const kernels::Dither dither = DitherOf(range, true);
    std::vector<std::byte> value;
    if (losses_.wanted()) value.assign(OutputAt(range), OutputAt(range) + range.count * grid_.element_bytes());
    kernels::Requantize(d.codec, d.dtype, OutputAt(range), range.count, &dither);
    if (losses_.wanted()) losses_.OnFinished(range, at.segment, value.data(), OutputAt(range));
  }
  NoteFinished(range);
  // Others finish it, too, and it does not travel: its hash is known only now.
  if (options_.trainers_output && chunks_[chunk].finals.empty()) {
    StateOf(chunk, at.segment).final_hash = WireHash(d, OutputAt(range), range.count);
  }
}

void Executor::NoteSent(SegmentState& state, const Range& range, const std::byte* value, const std::byte* decoded,
                        double scale) {
  if (!losses_.wanted() || std::exchange(state.loss_noted, true)) return;
  losses_.OnSent(range, value, decoded, scale);
}

void Executor::NoteFinished(const Range& range) {
  const Descriptor& d = options_.descriptor;
  if (d.codec != Codec::kNone) finite_ = finite_ && kernels::AreFinite(d.dtype, OutputAt(range), range.count);
}

void Executor::Queue(std::uint32_t departure, std::uint32_t segment) {
  const Rank to = schedule_.departures[departure].to;
  ReadyQueue& queue = ready_[to];
  queue.PushBack({departure, segment});
  if (queue.size() == 1) NotifyNext(to);
}

void Executor::InputReady(std::uint64_t bytes) {
  const std::uint64_t before = input_ready_;
  input_ready_ = std::clamp(bytes, input_ready_, input_bytes_);
  if (host_ != nullptr && input_ready_ > before) host_->NotifyOthers(options_.self);
  while (staged_departures_ < unstaged_departures_.size() &&
         unstaged_departures_[staged_departures_].input_bytes <= input_ready_) {
    const Ready ready = unstaged_departures_[staged_departures_++].ready;
    Queue(ready.departure, ready.segment);
  }
}

bool Executor::has_work() const {
  if (alone()) return copied_ < input_ready_;
  return !unstaged_sums_.empty() && HasOwn(unstaged_sums_.front().input_bytes);
}

bool Executor::HasOwn(std::uint64_t bytes) const {
  if (schedule_.sums_host) return host_ != nullptr && host_->HasInputs(bytes);
  return bytes <= input_ready_;
}

std::uint64_t Executor::Work(std::uint64_t bytes_max) {
  std::uint64_t done = 0;
  while (done < bytes_max && has_work()) {
    if (alone()) {
      const std::uint64_t bytes = std::min(bytes_max - done, input_ready_ - copied_);
      std::memcpy(options_.output + copied_, options_.input + copied_, bytes);
      copied_ += bytes;
      done += bytes;
      continue;
    }
    std::pop_heap(unstaged_sums_.begin(), unstaged_sums_.end());
    const SumSegment at = unstaged_sums_.back().at;
    unstaged_sums_.pop_back();
    const Sum& sum = schedule_.sums[at.sum];
    SegmentState& state = StateOf(sum.chunk, at.segment);
    state.awaits_input = false;
    const std::uint32_t first = state.next;
    (void)Advance(at, {});
    done += (state.next - first) * grid_.Segment(sum.chunk, at.segment).count * grid_.element_bytes();
  }
  return done;
}

std::optional<Ready> Executor::PopReady(Rank to, std::uint32_t wire_bytes_max) {
  const auto found = ready_.find(to);
  if (found == ready_.end() || found->second.empty()) return std::nullopt;
  const Ready ready = found->second.front();
  if (WireBytesOf(ready) > wire_bytes_max) return std::nullopt;
  found->second.PopFront();
  NotifyNext(to);
  return ready;
}

// Whoever asks for more than there is asks in vain.
void Executor::Resend(Rank to, std::uint16_t step, std::uint16_t chunk, std::uint32_t segment) {
  const std::vector<Departure>& all = schedule_.departures;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Departure& departure) {
    return departure.to == to && departure.step == step && departure.chunk == chunk;
  });
  if (found == all.end() || segment >= cuts_.SegmentsOf(*found)) return;
  const auto queued = ready_.find(to);
  const std::size_t most = 2 * std::max(segments_.size(), unstaged_departures_.size());
  if (queued != ready_.end() && queued->second.size() >= most) return;
  const Ready ready{static_cast<std::uint32_t>(found - all.begin()), segment};
  if (WasReady(ready)) Requeue(ready);
}

// A segment that was never ready cannot have been lost.
bool Executor::WasReady(const Ready& ready) const {
  const Departure& departure = schedule_.departures[ready.departure];
  if (departure.source == Source::kInput) return InputBytesNeeded(RangeOf(ready)) <= input_ready_;
  const SegmentState& state = StateOf(departure.chunk, ready.segment);
  if (departure.source == Source::kFinished) return state.final_hash != 0;
  return state.next == schedule_.sums[chunks_[departure.chunk].sum].order.size();
}

void Executor::Requeue(const Ready& ready) {
  if (IsConsumed(ready)) return;
  const Rank to = schedule_.departures[ready.departure].to;
  ready_[to].PushFront(ready);
  NotifyNext(to);
}

std::optional<std::uint32_t> Executor::NextBytes(Rank to) const {
  const auto found = ready_.find(to);
  if (found == ready_.end() || found->second.empty()) return std::nullopt;
  return WireBytesOf(found->second.front());
}

std::uint32_t Executor::WireBytesOf(const Ready& ready) const {
  const Descriptor& d = options_.descriptor;
  if (cuts_.has_sends()) return static_cast<std::uint32_t>(EncodedBytes(d.codec, d.dtype, RangeOf(ready).count));
  return WireBytes(schedule_.departures[ready.departure].chunk, ready.segment);
}

std::uint64_t Executor::HashNow(const Ready& ready) const {
  const kernels::Dither dither = DitherOf(RangeOf(ready), false);
  return WireHash(options_.descriptor, SourceOf(ready).data(), RangeOf(ready).count,
                  IsFinished(ready) ? nullptr : &dither);
}

ResultSeal Executor::Seal() const {
  std::vector<ResultSeal::Segment> sealed;
  for (std::uint32_t chunk = 0; chunk < schedule_.chunks(); ++chunk) {
    for (std::uint32_t segment = 0; segment < grid_.Segments(chunk); ++segment) {
      const Range range = grid_.Segment(chunk, segment);
      if (range.count > 0) sealed.push_back({range, segments_[chunks_[chunk].first_segment + segment].final_hash});
    }
  }
  return {options_.descriptor, std::move(sealed)};
}

Executor::Encoded Executor::Encode(const Ready& ready, std::span<std::byte> scratch, const Encoding& encoding) {
  const Descriptor& d = options_.descriptor;
  const Departure& departure = schedule_.departures[ready.departure];
  const Range range = RangeOf(ready);
  const bool finished = IsFinished(ready);
  const std::byte* const copy = encoding.copy;
  const std::byte* source = copy != nullptr ? copy : SourceOf(ready).data();
  const std::uint32_t bytes = WireBytesOf(ready);
  Encoded encoded;
  if (d.codec == Codec::kNone) {
    encoded.payload = {source, bytes};
  } else {
    RINGWAY_CHECK(scratch.size() >= bytes);
    const kernels::Dither dither = DitherOf(range, false);
    kernels::Encode(d.codec, d.dtype, scratch.data(), source, range.count, finished ? nullptr : &dither);
    encoded.payload = scratch.first(bytes);
  }
  SegmentState* const state = StateOf(ready);
  if (!finished && losses_.wanted() && !state->loss_noted) {
    std::vector<std::byte> decoded(range.count * grid_.element_bytes());
    kernels::Decode(d.codec, d.dtype, decoded.data(), encoded.payload.data(), range.count);
    NoteSent(*state, range, source, decoded.data(), SendsInput(ready) ? 1 : ScaleOfRank(options_.self));
  }
  const bool known = finished && state->final_hash != 0;
  const bool is_hashed = encoding.is_hashed || finished || schedule_.everyone_sums;
  const std::uint64_t hash = known && copy == nullptr ? state->final_hash : is_hashed ? Hash64(encoded.payload) : 0;
  encoded.fits = !known || hash == state->final_hash;
  if (finished && !known) state->final_hash = hash;
  encoded.header.descriptor = DescriptorTo(departure.to);
  encoded.header.step = departure.step;
  encoded.header.chunk = departure.chunk;
  encoded.header.segment = ready.segment;
  encoded.header.payload_bytes = bytes;
  encoded.header.stamp = state != nullptr ? state->stamp : options_.stamp;
  encoded.header.payload_hash = hash;
  return encoded;
}

// Finished values are the same wherever they are finished; contributions are each rank's own.
kernels::Dither Executor::DitherOf(const Range& range, bool finishes) const {
  const std::uint64_t whose = finishes ? 0 : options_.self.value + 1;
  return {.seed = options_.seed + whose * 0xd1342543de82ef95U, .first = range.begin};
}

}  // namespace ringway::collective
