// One operation at one rank, from its trainer's submission until every member holds its outcome.
//
//          Submit               all segments            all hold it, or a copy stays here
//   (absent) ---> queued/running ----------> complete ------------------------------> delivering
//                    ^    |  freeze             |  an error outcome: at once             | the trainer has the result
//                    +----+  retry              +----------------------------> reported <+
//                                                            every member holds it |
//                                                                                  +--> finished (forgotten)
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
#include "daemon/agreement/view.h"
#include "daemon/buffers/feedback.h"
#include "daemon/collective/input_set.h"
#include "daemon/transfer/attempt.h"

namespace ringway::agreement {

// A finished result travels by no schedule: holder and lacking rank may have computed it in different ways.
constexpr Algorithm kFetchedAs = Algorithm::kRing;
constexpr std::uint32_t kNotAlone = 2;  // world size for executors that only copy

// An operation passes these stages in this order.
enum class Stage : std::uint8_t { kQueued, kRunning, kComplete, kDelivering, kReported };

// How an operation ended, the same on every rank.
struct Outcome {
  Code code = Code::kOk;
  std::string text;
  Epoch epoch;                       // in which it was computed
  std::vector<PeerId> contributors;  // in rank order of that epoch; each holds the result
  Epoch prepared;                    // the agreed minimum
  std::uint64_t absent = 0;          // contributors, as bits, that took part without an input
  double weight = 0;                 // the sum of the weights of the inputs

  bool Lacks(PeerId peer) const {
    const auto place = std::find(contributors.begin(), contributors.end(), peer) - contributors.begin();
    return place < static_cast<std::ptrdiff_t>(contributors.size()) && (absent >> place & 1) != 0;
  }
};

// Reasons why an operation cannot be done as it was submitted. The master decides what becomes of it.
struct Obstacles {
  bool cancel = false;  // its trainer has given it up
  std::string mismatch;
  std::string partner_lost;      // it cannot be done without a peer that is gone, and why
  std::string overdue;           // its deadline has passed: whom it waited for
  std::vector<PeerId> hung_for;  // it has waited for these for as long as the group allows
  Epoch hung_in;                 // the view in which it has
};

// The agreed inputs of a view's attempt (agreed_inputs.h).
struct BoundInputs {
  Epoch epoch;                                      // in which they are
  std::shared_ptr<const collective::InputSet> set;  // null: all, each with weight 1
  Epoch offered;                                    // the newest view in which the own input was
};

struct Waiting {
  TimePoint since{};      // submitted
  TimePoint staged_at{};  // when the last of its input came
  std::optional<TimePoint> deadline;
  Duration next_word{};  // at this age the log says that it waits
};

struct Operation {
  OpName name;
  Submission submission;
  Stage stage = Stage::kQueued;
  collective::Shape shape;  // in the view of the newest attempt, or of the outcome that is fetched
  bool submitted = true;    // false: it goes on without its trainer, which may submit it later
  bool fetching = false;    // committed by verdict; the bytes come from a holder
  bool has_part = false;    // of a result that is not shared: its own, in outcome.epoch; others may lack theirs
  Obstacles obstacles;
  Waiting waiting;
  BoundInputs inputs;
  std::shared_ptr<buffers::OpBuffers> trainers;  // the submission's; null before that

  // Its buffers are the submission's, or a staged copy of them that is retained for the others. That has a copy of the
  // input, too, where a rank can be done before the others have its input (one_shot).
  transfer::Attempt attempt;
  std::shared_ptr<buffers::FeedbackBuffers> feedback;  // what the submission's are, with error feedback
  std::optional<TimePoint> ready_due;  // receivers' view: when its senders get READY; nothing: they have got it
  std::set<PeerId> receivers;          // where not all hear from all: to whom it sends, who have to be ready
  std::set<PeerId> holders;            // who is known to hold the result
  std::optional<PeerId> done_after;    // the root that collects it: before that, nobody has done its part

  Outcome outcome;        // of a complete or reported operation; of others what it will be, if they fetch it or have
                          // their part
  ChannelSeqs next_seqs;  // of an update_view: where channels stand after it, as of the newest attempt
  std::uint32_t retries = 0;
  Algorithm algorithm = Algorithm::kRing;  // of the newest attempt that was computed here
  double error_bound = 0;                  // of the same

  std::uint64_t input_bytes() const { return shape.input.count * SizeOf(submission.descriptor.dtype); }
  std::uint64_t output_bytes() const { return shape.output.count * SizeOf(submission.descriptor.dtype); }
  // The bytes of the buffer that all ranks see.
  std::uint64_t buffer_bytes() const { return shape.count * SizeOf(submission.descriptor.dtype); }
  bool is_update() const { return submission.descriptor.kind == OpKind::kUpdateView; }
  bool is_small(const Plan& plan) const {
    return !is_update() && shape.shared && output_bytes() <= plan.small_bytes_max;
  }
  // With a root, or with counts, a rank may have nothing to receive. It is not done before those that it sends to have
  // said that they do the same operation. Thus all agree, from neighbour to neighbour, before it is reported anywhere.
  // REQUIRES: its attempt is live.
  bool is_computed() const {
    return attempt.executor().complete() && !has_part && obstacles.mismatch.empty() &&
           std::includes(attempt.ready_peers.begin(), attempt.ready_peers.end(), receivers.begin(), receivers.end()) &&
           (!done_after || holders.contains(*done_after));
  }
  // Chunks that its result is fetched in (collective::FetchSchedule). REQUIRES: it has its outcome, or fetches it.
  std::uint32_t fetched_parts() const {
    const OpKind kind = submission.descriptor.kind;
    const bool gathered = kind == OpKind::kAllGather || kind == OpKind::kAllGatherV;
    return gathered ? static_cast<std::uint32_t>(outcome.contributors.size()) : 0;
  }
  // Returns what this rank, `self` of the view that it runs in, and `other` must agree on.
  Descriptor DescriptorWith(Rank self, Rank other) const {
    const Descriptor& descriptor = submission.descriptor;
    const auto& layout = submission.layout;
    if (layout == nullptr || other.value >= layout->counts.size()) return descriptor;  // it runs in no such view
    return collective::DescriptorWith(descriptor, *layout, self, other);
  }
  // Returns whether it computes, or fetches, here and now.
  bool is_running() const { return stage == Stage::kRunning && attempt.live(); }
  bool has_outcome() const { return stage >= Stage::kComplete; }
  bool is_reported() const { return stage == Stage::kReported; }
  // Returns whether its result came without the input of this rank, which is kept for its next one: not one that is
  // incomplete when the operation is cancelled, or overdue, as it may stay so.
  bool keeps_input(PeerId self) const {
    const bool is_given_up = obstacles.cancel || !obstacles.overdue.empty();
    return feedback != nullptr && abi::KeepsLate(submission.spec) && outcome.code == Code::kOk && outcome.Lacks(self) &&
           (feedback->is_whole() || !is_given_up);
  }
  // Returns whether only its trainer's input, which is to be kept, is missing before it is reported.
  bool awaits_input(PeerId self) const {
    return has_outcome() && !is_reported() && keeps_input(self) && !feedback->is_whole();
  }
  // Returns whether its result stays here for those who lack it when it is reported.
  bool is_retained() const { return !attempt.buffers->trainer_writes_output(); }
  // Returns whether the whole result is here: a reported one in its trainer's memory is the trainer's again.
  bool can_be_fetched() const {
    return has_outcome() && outcome.code == Code::kOk && shape.shared && (is_retained() || !is_reported());
  }
  std::uint64_t retained_bytes() const {
    return attempt.buffers != submission.buffers && is_retained() ? attempt.buffers->output_bytes_max() : 0;
  }
};

}  // namespace ringway::agreement
