// One attempt of one operation in one epoch: takes arriving segments, reduces or copies them, and says what to send
// next. No I/O, no time, no allocation per segment but with error feedback.
//
// Memory: `input` is read only; `output` holds partial results until complete(), then the result. The operation's shape
// (proto/collective/shape.h) defines their contents.
//
//   position of an arrival:  empty --Take--> claimed --Accept--> done
//                              ^  ^---------Release (lane lost, checksum failed)
//                              |
//                              +--requested again, at its turn-- refused <--Take (the reorder buffer is full)
//
// A departure's segment becomes ready when its source is there: the input staged that far, the sum made of all that
// belongs to it, or the chunk finished (cut-through: segment by segment). Finished chunks are encoded from the output:
// Q(D(codes)) == codes makes that the same as forwarding the codes.
//
// A sum takes its values in the schedule's order. What arrives before its turn is put into the reorder buffer: with a
// ring nothing, else ReorderBytesMax() at most, and no more than `memory` has room for over all operations. What finds
// no room is not read; when its turn has come its sender is asked to resend it (TakeResends), and then it needs none.
// Nothing waits for room, whatever the order in which segments arrive.
//
// Long work is done in slices: what InputReady makes possible is left to Work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/collective/cuts.h"
#include "daemon/collective/input_set.h"
#include "daemon/collective/quantization_residual.h"
#include "daemon/collective/ready_queue.h"
#include "daemon/collective/result_seal.h"
#include "daemon/kernels/codec.h"
#include "daemon/kernels/copy.h"
#include "proto/check.h"
#include "proto/collective/grid.h"
#include "proto/collective/schedule.h"
#include "proto/collective/shape.h"
#include "proto/ids.h"
#include "proto/memory_budget.h"
#include "proto/mutation.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::collective {

// Notified when the next segment for a rank is another one.
class ReadySink {
 public:
  virtual ~ReadySink() = default;
  // Its bytes on the wire; nothing: there is none any more.
  virtual void OnNextChanged(Rank to, std::optional<std::uint32_t> bytes) = 0;
};

struct ExecutorOptions {
  Descriptor descriptor;
  Shape shape;
  std::shared_ptr<const Layout> layout = nullptr;  // of kinds that HasCounts
  std::uint32_t world_size = 1;
  std::uint64_t segment_bytes_max = 256 * 1024;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t input_bytes_ready = 0;
  std::shared_ptr<const InputSet> inputs = nullptr;  // null: all, each with weight 1
  bool trainers_output = false;                      // the output is memory that a trainer can write to
  Stamp stamp;                                       // this rank's own, frozen at the start
  std::uint64_t seed = 0;                            // of stochastic rounding: the operation's, the same on all ranks
  Rank self{};                                       // so that ranks do not round alike
  float* loss = nullptr;                             // for error feedback (quantization_residual.h); null: not noted
  MemoryShare* memory = nullptr;  // for what is in the reorder buffer, outlives the executor; null: no limit
  ReadySink* sink = nullptr;      // outlives the executor; its destructor still calls it
};

class HostRound;

// A finished segment that the ranks of a process share.
struct HostSegment {
  std::uint32_t chunk = 0;
  std::uint32_t segment = 0;
  std::span<const std::byte> bytes;  // no trainer writes there
  std::uint64_t hash = 0;
  Stamp stamp;
};

class Executor {
 public:
  // REQUIRES: the shape's input holds what the schedule sends of it. A rank whose input is not in is an all-reduce's,
  // and not alone; its input is not read.
  Executor(std::shared_ptr<const Schedule> schedule, const ExecutorOptions& options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // A claimed position: where its payload goes.
  struct Claim {
    std::uint32_t arrival = kNone;
    std::uint32_t segment = 0;
    std::byte* direct = nullptr;  // read the payload straight here; null: into scratch
    bool skipped = false;         // done or claimed already, or refused: skip the payload
    bool has_room = false;        // for the reorder buffer
  };
  // Never copies the payload. kProtocol if the position, sender or length is not of this schedule. REQUIRES: the
  // descriptor matches.
  Result<Claim> Take(const SegmentHeader& header, Rank from);
  // The claimed payload, verified by the caller. `payload` is claim.direct's memory or scratch.
  void Accept(const Claim& claim, const SegmentHeader& header, std::span<const std::byte> payload);
  void Release(const Claim& claim) {
    Position& position = positions_[claim.arrival][claim.segment];
    RINGWAY_CHECK(position == Position::kClaimed);
    position = Position::kEmpty;
    if (claim.has_room) GiveRoom(WireBytes(schedule_.arrivals[claim.arrival].chunk, claim.segment));
  }

  // The input is valid up to here (bytes). Only grows. Then Work.
  void InputReady(std::uint64_t bytes);
  // Adds and copies own input, about `bytes_max` of it. Returns how many bytes it went through; less than `bytes_max`
  // when nothing is left to do.
  std::uint64_t Work(std::uint64_t bytes_max);
  bool has_work() const;

  // Refused positions whose turn has come, each once: their senders are to send them again.
  struct Wanted {
    Rank from;
    std::uint16_t step = 0;
    std::uint16_t chunk = 0;
    std::uint32_t segment = 0;
  };
  std::vector<Wanted> TakeResends() { return std::exchange(resends_, {}); }
  // The other end of that: `to` has refused it, or lost it. Ignored if there is no such departure.
  void Resend(Rank to, std::uint16_t step, std::uint16_t chunk, std::uint32_t segment);

  // The next segment for `to` that fits, or nothing. `wire_bytes_max` bounds the encoded payload.
  std::optional<Ready> PopReady(Rank to, std::uint32_t wire_bytes_max);
  // A popped segment that was lost on its way. What was lost was not consumed, so its source still holds it. Ignored
  // if it was, whoever says otherwise.
  void Requeue(const Ready& ready);
  // Returns whether it was part of a sum of which the finished value has begun to come: its source may be overwritten.
  bool IsConsumed(const Ready& ready) const {
    const Departure& departure = schedule_.departures[ready.departure];
    return departure.source == Source::kPartial && StateOf(departure.chunk, ready.segment).final_came;
  }
  // Encoded size of the segment that PopReady(to) would give, if there is one.
  std::optional<std::uint32_t> NextBytes(Rank to) const;
  template <typename F>
  void ForEachReady(F&& visit) const {
    for (const auto& [to, queue] : ready_) {
      if (!queue.empty()) visit(to);
    }
  }
  std::span<const Arrival> arrivals() const { return schedule_.arrivals; }

  struct Encoded {
    SegmentHeader header;  // epoch and op are the caller's to fill
    std::span<const std::byte> payload;
    bool fits = true;  // false: a copy of a finished segment that no longer has the hash under which it travels
  };
  struct Encoding {
    const std::byte* copy = nullptr;  // of SourceOf, to be sent instead of it
    bool is_hashed = true;            // false: a value that only its receiver reads has hash 0; not one-shot's
  };
  // `scratch` holds the codec's bytes where there is a codec. The payload's hash is in the header.
  Encoded Encode(const Ready& ready, std::span<std::byte> scratch, const Encoding& encoding);
  Encoded Encode(const Ready& ready, std::span<std::byte> scratch) { return Encode(ready, scratch, Encoding()); }

  // Returns the elements of a popped segment: those of the input, or else of the output.
  std::span<const std::byte> SourceOf(const Ready& ready) const {
    const Range range = RangeOf(ready);
    return {SendsInput(ready) ? InputAt(range) : OutputAt(range), range.count * grid_.element_bytes()};
  }
  Range RangeOf(const Ready& ready) const {
    return cuts_.SentRange(schedule_.departures[ready.departure], ready.segment);
  }
  bool IsFinished(const Ready& ready) const {
    return schedule_.departures[ready.departure].source == Source::kFinished;
  }
  bool SendsInput(const Ready& ready) const { return schedule_.departures[ready.departure].source == Source::kInput; }
  // The hash that a popped segment would be sent with, were it made now.
  std::uint64_t HashNow(const Ready& ready) const;
  // Returns where the finished segment of a claim goes.
  std::span<const std::byte> TargetOf(const Claim& claim) const {
    return BytesAt(grid_.Segment(schedule_.arrivals[claim.arrival].chunk, claim.segment));
  }
  // REQUIRES: complete().
  ResultSeal Seal() const;

  // ---- of a schedule that is in_process or sums_host: the ranks of this process, by a HostRound (host_board.h)
  // The round outlives this. Before any input or segment. Only of one that sums_host: it makes its own sums.
  void SetHost(HostRound* host) { host_ = host; }
  std::uint64_t input_ready() const { return input_ready_; }
  std::uint64_t InputUpto(const Range& range) const { return InputBytesNeeded(range); }
  const std::byte* InputOf(const Range& range) const { return InputAt(range); }
  double input_scale() const { return input_scale_; }
  std::uint32_t world_size() const { return options_.world_size; }
  Rank self() const { return options_.self; }
  // A finished segment, to be copied, that no arrival brings.
  void TakeFinished(const HostSegment& finished) {
    std::byte* const to = OutputAt(grid_.Segment(finished.chunk, finished.segment));
    const std::span<const std::byte> bytes = finished.bytes;
    if (input_bytes_ > kCachedBytesMax) {
      kernels::CopyPastCaches(to, bytes.data(), bytes.size());
    } else if (!bytes.empty()) {
      std::memcpy(to, bytes.data(), bytes.size());
    }
    StateOf(finished.chunk, finished.segment).final_hash = finished.hash;
    stamp_ = Min(stamp_, finished.stamp);
    --open_segments_;
  }

  // Every chunk is finished here and the own input was whole: the output is the result.
  bool complete() const {
    return open_segments_ == 0 && input_ready_ == input_bytes_ && (!alone() || copied_ == input_bytes_);
  }
  // Returns whether no element of the result that a lossy codec encoded is an infinity or a NaN. REQUIRES: complete().
  bool finite() const { return finite_; }
  // Min over all contributors. REQUIRES: complete().
  Stamp stamp() const { return stamp_; }
  const Descriptor& descriptor() const { return options_.descriptor; }
  const Grid& grid() const { return grid_; }

 private:
  // Results up to so many bytes are still in a cache when their trainer reads them.
  static constexpr std::uint64_t kCachedBytesMax = 1 << 20;

  enum class Position : std::uint8_t { kEmpty, kClaimed, kDone, kRefused };
  struct SegmentState {
    Stamp stamp;                   // what a departure of this segment must carry
    std::uint64_t final_hash = 0;  // of the finished segment's wire bytes; 0: not known yet
    std::uint32_t next = 0;        // of the sum's order: what is added next
    bool awaits_input = false;     // the own input is next, and not staged yet or left to Work
    bool final_came = false;       // its header at least
    bool loss_noted = false;       // of what is sent on
  };
  struct SumSegment {
    std::uint32_t sum = kNone;
    std::uint32_t segment = 0;
  };
  struct UnstagedDeparture {
    std::uint64_t input_bytes = 0;
    Ready ready;
  };
  struct UnstagedSum {
    std::uint64_t input_bytes = 0;
    std::uint32_t number = 0;  // among equals the earlier one first
    SumSegment at;
    // The least is the heap's first.
    friend bool operator<(const UnstagedSum& a, const UnstagedSum& b) {
      return std::tie(a.input_bytes, a.number) > std::tie(b.input_bytes, b.number);
    }
  };
  struct Payload {
    std::uint32_t arrival = kNone;
    std::span<const std::byte> bytes;
  };
  struct ChunkPlan {
    std::uint32_t first_segment = 0;  // index into segments_
    std::uint32_t last_segment = 0;
    std::uint32_t wire_bytes = 0;  // of a segment, encoded; of the last one:
    std::uint32_t last_wire_bytes = 0;
    std::uint32_t sum = kNone;
    std::vector<std::uint32_t> partials;  // departures of the sum
    std::vector<std::uint32_t> finals;    // departures of the finished chunk
  };

  // Alone, the result is the own input by the operation's rule, and avg of one is that one.
  bool alone() const { return options_.world_size == 1 && !cuts_.has_sends(); }
  void PlanChunks();
  void QueueInputs();
  bool IsItsTurn(std::uint32_t arrival, std::uint32_t segment);
  bool TakeRoom(std::uint64_t bytes);
  void GiveRoom(std::uint64_t bytes);
  // Adds to the sum what may be added, `fresh` or from the reorder buffer. Returns false if it was not `fresh`'s turn.
  bool Advance(const SumSegment& at, const Payload& fresh);
  void AddNext(const Sum& sum, SegmentState& state, const Range& range, std::span<const std::byte> payload);
  bool AddOwn(const SumSegment& at, SegmentState& state, const Range& range);
  // Returns whether what kOwn stands for is staged up to here.
  bool HasOwn(std::uint64_t bytes) const;
  // Returns null for an all_to_all_v, which sends nothing that it also receives or sums.
  SegmentState* StateOf(const Ready& ready) {
    return cuts_.has_sends() ? nullptr : &StateOf(schedule_.departures[ready.departure].chunk, ready.segment);
  }
  bool WasReady(const Ready& ready) const;
  void AwaitInput(const SumSegment& at);
  void RequestResend(std::uint32_t arrival, std::uint32_t segment);
  void FinishSum(const SumSegment& at);
  void QueueAll(const std::vector<std::uint32_t>& departures, std::uint32_t segment) {
    for (const std::uint32_t departure : departures) Queue(departure, segment);
  }
  void Queue(std::uint32_t departure, std::uint32_t segment);
  void NotifyNext(Rank to);
  static std::uint64_t KeyOf(std::uint32_t arrival, std::uint32_t segment) {
    return std::uint64_t{arrival} << 32 | segment;
  }
  SegmentState& StateOf(std::uint32_t chunk, std::uint32_t segment) {
    return segments_[chunks_[chunk].first_segment + segment];
  }
  const SegmentState& StateOf(std::uint32_t chunk, std::uint32_t segment) const {
    return segments_[chunks_[chunk].first_segment + segment];
  }
  // Once of what is sent on; `scale`: the value is as many times the contributions' sum.
  void NoteSent(SegmentState& state, const Range& range, const std::byte* value, const std::byte* decoded,
                double scale);
  // The output holds the result there.
  void NoteFinished(const Range& range);
  // Contributions to an average are scaled when they are added, so they travel as they are and partial sums scaled.
  double ScaleOf(std::uint32_t source) const {
    if (source == Sum::kOwn) return schedule_.sums_host ? 1 : ScaleOfRank(options_.self);
    const Arrival& arrival = schedule_.arrivals[source];
    return arrival.partial ? 1 : ScaleOfRank(arrival.from);
  }
  double ScaleOfRank(Rank rank) const {
    return options_.inputs != nullptr && averages() ? input_scale_ * options_.inputs->WeightOf(rank) : input_scale_;
  }
  bool averages() const { return Reduces(options_.descriptor.kind) && options_.descriptor.op == ReduceOp::kAvg; }
  // Returns the sum of the weights of all that contribute.
  double total_weight() const {
    const bool known = options_.inputs != nullptr && !RINGWAY_MUTANT(kCountTheAbsent);
    return known ? options_.inputs->Total(options_.world_size) : options_.world_size;
  }
  bool is_absent() const { return options_.inputs != nullptr && !options_.inputs->Has(options_.self); }
  // The scales of the total so far, and of what is added to it as number `place` >= 1 of the order.
  kernels::Scales ScalesAt(const Sum& sum, std::uint32_t place) const {
    return {.a = place == 1 ? ScaleOf(sum.order[0]) : 1, .b = ScaleOf(sum.order[place])};
  }
  void Finish(const SumSegment& at, const Range& range);
  // Returns the dither that rounds a value of this range when it is sent on.
  kernels::Dither DitherOf(const Range& range, bool finishes) const;
  std::uint32_t EncodedBytesOf(std::uint32_t chunk, std::uint32_t segment) const {
    const Descriptor& d = options_.descriptor;
    return static_cast<std::uint32_t>(EncodedBytes(d.codec, d.dtype, grid_.Segment(chunk, segment).count));
  }
  std::uint32_t WireBytes(std::uint32_t chunk, std::uint32_t segment) const {
    const ChunkPlan& plan = chunks_[chunk];
    return segment == plan.last_segment ? plan.last_wire_bytes : plan.wire_bytes;
  }
  // REQUIRES: the range is in the input.
  std::uint64_t InputBytesNeeded(const Range& range) const {
    return (range.begin + range.count - options_.shape.input.begin) * grid_.element_bytes();
  }
  std::byte* OutputAt(const Range& range) const {
    return options_.output + (range.begin - options_.shape.output.begin) * grid_.element_bytes();
  }
  std::span<const std::byte> BytesAt(const Range& range) const {
    return {OutputAt(range), range.count * grid_.element_bytes()};
  }
  std::uint32_t WireBytesOf(const Ready& ready) const;
  Descriptor DescriptorTo(Rank to) const {
    if (options_.layout == nullptr) return options_.descriptor;
    return DescriptorWith(options_.descriptor, *options_.layout, options_.self, to);
  }
  const std::byte* InputAt(const Range& range) const {
    if (is_absent()) return Zeros();
    return options_.input + (range.begin - options_.shape.input.begin) * grid_.element_bytes();
  }

  ExecutorOptions options_;
  const std::shared_ptr<const Schedule> shared_;
  const Schedule& schedule_;
  const Cuts cuts_;
  const Grid& grid_;  // its
  std::vector<ChunkPlan> chunks_;
  std::map<std::uint32_t, std::uint32_t> arrival_of_;  // step << 16 | chunk -> arrival
  std::vector<std::vector<Position>> positions_;       // by arrival, segment
  std::vector<SegmentState> segments_;
  std::map<Rank, ReadyQueue> ready_;
  // Departures that wait for more of the input, by the bytes that they need.
  std::vector<UnstagedDeparture> unstaged_departures_;  // ascending, all there are
  std::size_t staged_departures_ = 0;                   // so many of them do not wait any more
  std::vector<UnstagedSum> unstaged_sums_;              // a heap
  std::uint32_t unstaged_sums_seen_ = 0;
  std::map<std::uint64_t, std::vector<std::byte>> reorder_buffer_;  // payloads before their turn, by KeyOf
  std::uint64_t room_taken_ = 0;                                    // for them, and for those that are being read
  std::vector<Wanted> resends_;
  std::uint64_t copied_ = 0;  // alone
  std::uint64_t open_segments_ = 0;
  std::uint64_t input_bytes_ = 0;
  std::uint64_t input_ready_ = 0;
  const double input_scale_;  // of averages, before the weight; else 1
  bool finite_ = true;
  Stamp stamp_;
  QuantizationResidual losses_;
  HostRound* host_ = nullptr;
};

}  // namespace ringway::collective
