// Attempts: the runs of an operation, of a message, or of a fetch that is served, each in one view.
//
//   idle --Begin--> live: an executor and a number --End--> idle: the number is dead, the executor gone
//
// A number is never used twice; 0 is none. Frames in flight, claimed positions and the segments that lanes keep for a
// resend carry it: no memory is touched, and no frame is resent, for an attempt that is not live.
//
// An Attempt moves bytes and knows no rule: its owner (agreement::Operation, agreement::Message, FramesOut) decides
// when it begins and ends, and acts on what its executor has completed.
//
// Ownership: the owner's, at one address. `Attempts` and the index that it reports to outlive it. Pure; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "daemon/buffers/op_buffers.h"
#include "daemon/collective/executor.h"
#include "daemon/collective/host_board.h"
#include "daemon/collective/result_seal.h"
#include "daemon/links/frames.h"
#include "daemon/links/lane_ledger.h"
#include "daemon/transfer/message_name.h"
#include "daemon/transfer/ready_index.h"
#include "proto/collective/schedule.h"
#include "proto/ids.h"
#include "proto/segment_header.h"

namespace ringway::transfer {

class Attempt;

// The live attempts of a peer, by number.
class Attempts {
 public:
  std::uint64_t Begin(Attempt* attempt) {
    live_.emplace_hint(live_.end(), ++newest_, attempt);
    return newest_;
  }
  void End(std::uint64_t number) { live_.erase(number); }
  bool IsLive(std::uint64_t number) const { return live_.contains(number); }
  // Null if it is not live.
  Attempt* Find(std::uint64_t number) const {
    const auto found = live_.find(number);
    return found == live_.end() ? nullptr : found->second;
  }

 private:
  std::uint64_t newest_ = 0;
  std::map<std::uint64_t, Attempt*> live_;
};

class Attempt final : private collective::ReadySink {
 public:
  // The name by which frames refer to it.
  struct Name {
    SegmentKind kind = SegmentKind::kData;  // of its frames: kData, kMessage, or kFetched for a fetch that is served
    OpName op;                              // of a message its channel and number
    StreamName stream = {};                 // of a message
    std::uint32_t priority = 0;             // among operations

    MessageName message() const { return {stream, op.seq}; }
  };

  Attempt() = default;
  ~Attempt() override { End(); }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // The values that differ from one attempt to the next.
  struct Start {
    Epoch epoch;
    std::shared_ptr<const collective::Schedule> schedule;
    // Its buffers and how much of the input is there are filled in here; so is its sink.
    collective::ExecutorOptions options;
    // Where its schedule is in_process or sums_host: with whom; else null.
    collective::HostBoard* board = nullptr;
    collective::HostRound::Name round = {};
    std::vector<Rank> ranks = {};  // of this daemon
    PeerId self = {};
  };
  // `index` learns which segments are next; null: nobody does. Ends the one before.
  void Begin(Attempts& attempts, ReadyIndex* index, Start start);
  // Its executor goes. Idle ones stay as they are.
  void End();
  bool live() const { return executor_ != nullptr; }
  // Returns the newest attempt's number; 0 if there was none.
  std::uint64_t number() const { return number_; }
  // REQUIRES: live.
  collective::Executor& executor() { return *executor_; }
  const collective::Executor& executor() const { return *executor_; }
  Turn turn() { return {.priority = name.priority, .name = name.op, .attempt = this}; }
  // Adds up and copies, about `bytes_max`. Returns how many bytes it went through. REQUIRES: live.
  std::uint64_t Work(std::uint64_t bytes_max) {
    return is_in_process() ? round_->Work(rank_, bytes_max) : executor_->Work(bytes_max);
  }
  bool has_work() const { return is_in_process() ? round_->can_advance() : executor_->has_work(); }
  // The round that it takes part in, with other ranks of this daemon; null: none. REQUIRES: live.
  const collective::HostRound* round() const { return round_; }
  Rank rank() const { return rank_; }
  // "operation 0.7", "message 3 of channel 0, tag 7"
  std::string ToText() const;

  // Returns whether segments go out from the trainer's own memory, or arrive there, while the trainer may not write to
  // it.
  bool trainer_writes(const collective::Ready& ready) const;
  bool trainer_writes_output() const { return !returned && buffers->trainer_writes_output(); }

  using Copy = std::shared_ptr<const std::vector<std::byte>>;
  struct Encoding {
    Copy copy = nullptr;           // is sent instead of its source; null: the source
    std::span<std::byte> scratch;  // codecs encode into it
    bool is_hashed = true;         // false: only what is finished, which several ranks keep
  };
  // Encodes a popped segment: the frame, and what is kept of it until it has arrived. Returns false if the copy does
  // not fit the hash of what it is a copy of.
  bool Encode(const collective::Ready& ready, const Encoding& encoding, links::Outbound& out, links::SentFrame& sent);

  // Keeps the hashes of a finished result in its trainer's memory, for fetches. REQUIRES: live, complete.
  void Seal() { seal_ = executor_->Seal(); }
  // These elements of the result; null: they are not what the others have. REQUIRES: sealed.
  Copy SealedCopy(const collective::Range& range);

  Name name;
  std::shared_ptr<buffers::OpBuffers> buffers;  // that it works on; never null while live
  bool returned = false;                        // its trainer has the outcome, and may write to its memory
  // Senders' view: who has submitted it, too, and so has room for all of it.
  std::set<PeerId> ready_peers;
  // Bytes sent to those that were not ready (eager_window.h).
  std::map<PeerId, std::uint64_t> eager_bytes;
  bool goes_at_once = false;     // whatever is in the eager window
  std::uint64_t wire_bytes = 0;  // of all attempts

 private:
  bool is_in_process() const { return round_ != nullptr && round_->has_all(); }
  void OnNextChanged(Rank to, std::optional<std::uint32_t> bytes) override { index_->Changed(turn(), to, bytes); }

  Attempts* attempts_ = nullptr;
  ReadyIndex* index_ = nullptr;
  std::uint64_t number_ = 0;
  Epoch epoch_;
  std::unique_ptr<collective::Executor> executor_;
  collective::HostBoard* board_ = nullptr;
  collective::HostRound* round_ = nullptr;
  Rank rank_;
  collective::ResultSeal seal_;
};

}  // namespace ringway::transfer
