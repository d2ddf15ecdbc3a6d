// One operation at one rank, from its trainer's submission until every member holds its outcome.
//
//              Submit              all segments           trainer told          every member holds it
//   (absent) ---------> queued/running ---------> complete ---------> reported ---------> finished (forgotten)
//                          ^    |  freeze            |
//                          +----+  retry             +-- an error outcome takes the same way, without bytes
//
// Operations up to the plan's retained_bytes_max are computed in the daemon's own memory, which is the retained copy;
// larger ones in the trainer's result region, and they are reported only when every member holds them.
//
// A result of which each rank holds a part of its own (reduce-scatter) cannot be had from another rank. So it is
// complete only when every member has its part; until then the operation runs on, and is retried if the view breaks,
// unless all who stay have theirs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/agreement/peer_values.h"
#include "daemon/agreement/ready_index.h"
#include "daemon/agreement/view.h"
#include "daemon/buffers/feedback.h"
#include "daemon/buffers/op_buffers.h"
#include "daemon/collective/executor.h"

namespace ringway::agreement {

using buffers::OpBuffers;

// A finished result travels by no schedule: holder and lacking rank may have computed it in different ways.
constexpr Algorithm kFetchedAs = Algorithm::kRing;
constexpr std::uint32_t kNotAlone = 2;  // world size for executors that only copy

enum class Stage : std::uint8_t { kQueued, kRunning, kComplete, kReported };

// How an operation ended, the same on every rank.
struct Outcome {
  Code code = Code::kOk;
  std::string text;
  Epoch epoch;                       // in which it was computed
  std::vector<PeerId> contributors;  // in rank order of that epoch
  Epoch prepared;                    // the agreed minimum
};

struct Operation {
  OpName name;
  Submission submission;
  Stage stage = Stage::kQueued;
  collective::Shape shape;  // in the view of the newest attempt, or of the outcome that is fetched
  bool told = false;        // the trainer has its completion (it stays reported until finished)
  bool fetching = false;    // committed by verdict; the bytes come from a holder
  bool has_part = false;    // of a result that is not shared: its own, in outcome.epoch; others may lack theirs
  bool cancel = false;
  std::string mismatch;
  std::string partner_lost;      // it cannot be done without a peer that is gone, and why
  std::string overdue;           // its deadline has passed: whom it waited for
  Epoch hung_in;                 // in this view it has waited for as long as the group allows ..
  std::vector<PeerId> hung_for;  // .. for these
  std::optional<TimePoint> deadline;
  TimePoint since{};      // submitted
  TimePoint staged_at{};  // .. or more of its input was there, last
  Duration next_word{};   // at this age the log says that it waits

  std::unique_ptr<ReadyReporter> reporter;         // of the executor
  std::unique_ptr<collective::Executor> executor;  // while running
  std::uint64_t attempt = 0;
  collective::ResultSeal seal;  // of a result in its trainer's memory, once its executor is gone
  // What it works on: the submission's, or a staged copy of them that is retained for the others. That has a copy of
  // the input, too, where a rank can be done before the others have its input (one_shot).
  std::shared_ptr<OpBuffers> buffers;
  std::shared_ptr<buffers::FeedbackBuffers> feedback;  // what the submission's are, with error feedback
  bool telling = false;                                // complete, and to be told as soon as its result is delivered
  std::set<PeerId> ready;                              // senders' view: who has submitted it too
  std::optional<TimePoint> ready_due;                  // receivers' view: when its senders are told; nothing: they are
  std::set<PeerId> receivers;                     // where not all hear from all: to whom it sends, who have to be ready
  std::map<PeerId, std::uint64_t> unready_bytes;  // sent to peers that were not ready
  std::set<PeerId> holders;                       // who is known to hold the result
  std::optional<PeerId> done_after;               // the root that collects it: before that, nobody has done its part

  Outcome outcome;        // of a complete or reported operation; of others what it will be, if they fetch it or have
                          // their part
  ChannelSeqs next_seqs;  // of an update_view: where channels stand after it, as of the newest attempt
  std::uint64_t wire_bytes = 0;
  std::uint32_t retries = 0;
  Algorithm algorithm = Algorithm::kRing;  // of the newest attempt that was computed here
  double error_bound = 0;                  // of the same

  std::uint64_t input_bytes() const { return shape.input.count * SizeOf(submission.descriptor.dtype); }
  std::uint64_t output_bytes() const { return shape.output.count * SizeOf(submission.descriptor.dtype); }
  // Of the buffer that all ranks see.
  std::uint64_t buffer_bytes() const { return shape.count * SizeOf(submission.descriptor.dtype); }
  bool is_update() const { return submission.descriptor.kind == OpKind::kUpdateView; }
  bool is_small(const Plan& plan) const {
    return !is_update() && shape.shared && output_bytes() <= plan.small_bytes_max;
  }
  // With a root, or with counts, a rank may have nothing to receive. It is not done before those that it sends to have
  // said that they do the same operation: so, from neighbour to neighbour, all agree before any trainer is told.
  // REQUIRES: it has an executor.
  bool is_computed() const {
    return executor->complete() && !has_part && mismatch.empty() &&
           std::includes(ready.begin(), ready.end(), receivers.begin(), receivers.end()) &&
           (!done_after || holders.contains(*done_after));
  }
  // Chunks that its result is fetched in (collective::FetchSchedule). REQUIRES: it has its outcome, or fetches it.
  std::uint32_t fetched_parts() const {
    const OpKind kind = submission.descriptor.kind;
    const bool gathered = kind == OpKind::kAllGather || kind == OpKind::kAllGatherV;
    return gathered ? static_cast<std::uint32_t>(outcome.contributors.size()) : 0;
  }
  // What this rank, `self` of the view that it runs in, and `other` must agree on.
  Descriptor DescriptorWith(Rank self, Rank other) const {
    const Descriptor& descriptor = submission.descriptor;
    const auto& layout = submission.layout;
    if (layout == nullptr || other.value >= layout->counts.size()) return descriptor;  // it runs in no such view
    return collective::DescriptorWith(descriptor, *layout, self, other);
  }
  bool has_outcome() const { return stage == Stage::kComplete || stage == Stage::kReported; }
  // Whether its result stays here for those who lack it when its trainer is told.
  bool is_retained() const { return !buffers->trainer_writes_output(); }
  std::uint64_t retained_bytes() const { return is_retained() ? buffers->output_bytes_max() : 0; }
};

inline Turn TurnOf(const Operation& op) { return {op.submission.spec.priority, op.name}; }

}  // namespace ringway::agreement
