#include "daemon/agreement/agreed_inputs.h"

#include <string>
#include <utility>

#include "daemon/agreement/messages.h"
#include "daemon/agreement/partners.h"
#include "daemon/buffers/absent_buffers.h"
#include "proto/collective/schedule.h"
#include "proto/local_abi.h"
#include "proto/mutation.h"
#include "proto/rules.h"

namespace ringway::agreement {
namespace {

constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 46;  // as the client's limit

// Returns whether a rank that has not submitted it can take part in it.
bool CanRun(const Descriptor& d) {
  const bool known = static_cast<std::uint8_t>(d.dtype) < kDTypeCount &&
                     static_cast<std::uint8_t>(d.op) < kReduceOpCount && IsValid(d.codec) &&
                     static_cast<std::uint8_t>(d.schedule) < kAlgorithmCount;
  const Quorum quorum = d.agrees_on_inputs() ? Quorum{d.quorum} : Quorum::Ranks(1);
  const bool is_either = d.agrees_on_inputs() != (d.without_from() != PeerId());
  return known && is_either && IsSupported(d.dtype, d.op, d.codec) &&
         CanAgreeOnInputs(d.kind, d.op, quorum, d.weighted ? 1 : 0) && d.root == 0 &&
         d.layout == d.without_from().value && d.count <= kBytesMax / SizeOf(d.dtype);
}

std::string DifferenceOf(const Descriptor& ours, const Descriptor& theirs, const OpName& name) {
  return "submitted " + ToString(ours) + "; the group went on with " + ToString(theirs) + " as operation " +
         ToString(name);
}

}  // namespace

// ---------------------------------------------------------------------------------------------- the own input

bool AgreedInputs::MayStart(Operation& op) {
  if (!op.submission.descriptor.has_input_set()) return true;
  if (op.inputs.epoch == ctx_.view().epoch || (RINGWAY_MUTANT(kKeepInputs) && op.inputs.set != nullptr)) return true;
  if (!op.submission.descriptor.agrees_on_inputs()) return BindByDescriptor(op), true;
  if (!op.submitted) return false;
  // It was submitted while it ran without an input, and is retried: now its own may be in.
  const auto own = op.feedback != nullptr ? op.feedback : op.trainers;
  if (op.submission.buffers != own) op.attempt.buffers = op.submission.buffers = own;
  Offer(op);
  return false;
}

collective::InputSet AgreedInputs::InputsOf(const Descriptor& descriptor) const {
  collective::InputSet inputs;
  const std::vector<PeerId>& members = ctx_.view().members;
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const bool is_in = members[rank] < descriptor.without_from() || RINGWAY_MUTANT(kTakeEveryInput);
    if (!is_in) inputs.absent |= std::uint64_t{1} << rank;
  }
  return inputs;
}

void AgreedInputs::BindByDescriptor(Operation& op) {
  RINGWAY_REACHED(kBindByDescriptor);
  const Descriptor& descriptor = op.submission.descriptor;
  const Epoch epoch = op.inputs.epoch = ctx_.view().epoch;
  op.inputs.set = std::make_shared<const collective::InputSet>(InputsOf(descriptor));
  if (FirstWithInput(ctx_.view(), descriptor.without_from()) != ctx_.self) return;
  const control::PeerMessage message = InputsMessage(epoch, {op.name, descriptor, *op.inputs.set});
  for (const PeerId member : ctx_.view().members) {
    if (member >= descriptor.without_from()) links_.Send(member, message);
  }
}

void AgreedInputs::Offer(Operation& op) {
  const bool is_whole = op.trainers->input_ready() >= op.input_bytes();
  if (op.inputs.offered == ctx_.view().epoch || !is_whole) return;
  Send(op);
}

void AgreedInputs::Send(Operation& op) {
  op.inputs.offered = ctx_.view().epoch;
  const abi::OpSpec& spec = op.submission.spec;
  const InputQuorum::Offer offer{.descriptor = op.submission.descriptor,
                                 .weight = op.submission.descriptor.weighted ? spec.weight : 1,
                                 .grace = std::chrono::milliseconds(spec.grace_ms)};
  if (first() == ctx_.self) return Take(ctx_.self, op.name, offer);
  links_.Send(first(), OfferMessage(ctx_.view().epoch, op.name, offer));
}

Status AgreedInputs::CheckCatchUp(const Operation& op, const Submission& submission) const {
  Descriptor ours = submission.descriptor;
  const Descriptor& theirs = op.submission.descriptor;
  const auto asked = abi::AlgorithmOf(submission.spec);
  const auto same_as = [&](Algorithm one) { return collective::AlgorithmFor(ours.kind, one) == theirs.schedule; };
  // One that needs too much memory becomes a ring in the view that it ran in.
  if (!asked || same_as(*asked) || same_as(Algorithm::kRing)) ours.schedule = theirs.schedule;
  if (ours == theirs && submission.buffers->output_bytes_max() >= op.output_bytes()) return Status::Ok();
  return {Code::kInvalidArgument, "this rank " + DifferenceOf(ours, theirs, op.name) +
                                      ", so nothing was submitted: submit that, or join again"};
}

void AgreedInputs::CatchUp(Operation& op, Submission submission, std::shared_ptr<buffers::FeedbackBuffers> feedback) {
  RINGWAY_REACHED(kCatchUp);
  op.feedback = std::move(feedback);
  const auto absent = std::static_pointer_cast<buffers::AbsentBuffers>(op.submission.buffers);
  absent->Attach(op.feedback != nullptr ? op.feedback : submission.buffers);
  op.trainers = std::exchange(submission.buffers, op.submission.buffers);
  submission.descriptor = op.submission.descriptor;
  op.submission = std::move(submission);
  op.waiting.since = op.waiting.staged_at = ctx_.now;
  table_.OnSubmitted(op);
  ctx_.Moved();
  const bool is_offered = op.submission.descriptor.agrees_on_inputs();
  if (is_offered && ctx_.views.running()) Send(op);  // it has caught up so far
}

// ---------------------------------------------------------------------------------------------- the first rank

bool AgreedInputs::IsDecided(const OpName& name) const {
  if (table_.IsFinished(name)) return true;
  const Operation* const op = std::as_const(table_).Find(name);
  return op != nullptr && (op->has_outcome() || op->fetching || op->inputs.epoch == ctx_.view().epoch);
}

void AgreedInputs::Take(PeerId from, const OpName& name, const InputQuorum::Offer& offer) {
  if (IsDecided(name) && !RINGWAY_MUTANT(kDecideTwice)) return quorum_.OnLate(from, name);
  quorum_.Add(from, name, offer);
}

bool AgreedInputs::IsInReach(const OpName& name) const {
  if (name.channel.value >= abi::kChannelCountMax) return false;
  const std::uint64_t next = table_.NextSeq(name.channel);
  if (name.seq < next) return table_.IsFinished(name) || std::as_const(table_).Find(name) != nullptr;
  return name.seq - next < kBehindMax + abi::kSlotCount;
}

void AgreedInputs::OnOffer(PeerId from, const control::Offer& message) {
  const OpName name = NameFrom(message.op());
  if (first() != ctx_.self) return;
  const Descriptor descriptor = DescriptorFrom(message.op()).value();  // checked when it came
  if (!IsInReach(name) || !descriptor.agrees_on_inputs() || !CanRun(descriptor)) {
    ctx_.AddNote("offer_refused", {{"op", ToString(name)}, {"from", ctx_.NameOf(from)}}, Severity::kWarning);
    return;
  }
  RINGWAY_REACHED(kTakeOffer);
  Take(from, name, OfferFrom(message));
}

std::vector<OpName> AgreedInputs::Decide() {
  std::vector<OpName> started;
  if (!ctx_.views.running()) return started;
  for (InputQuorum::Decision& decision : quorum_.Decide(ctx_.view(), ctx_.now)) {
    links_.Broadcast(InputsMessage(ctx_.view().epoch, decision));
    if (Bind(decision.name, decision.descriptor, std::move(decision.inputs))) started.push_back(decision.name);
  }
  return started;
}

// ---------------------------------------------------------------------------------------------- decided

bool AgreedInputs::HasUnoffered(const OpName& name, const collective::InputSet& inputs) const {
  if (IsDecided(name) || !inputs.Has(Self())) return false;
  const Operation* const op = std::as_const(table_).Find(name);
  return op == nullptr || op->inputs.offered != ctx_.view().epoch;
}

bool AgreedInputs::MaySay(PeerId from, const Descriptor& descriptor, const collective::InputSet& inputs) const {
  if (descriptor.agrees_on_inputs()) return from == first();
  return from == FirstWithInput(ctx_.view(), descriptor.without_from()) && inputs.absent == InputsOf(descriptor).absent;
}

Operation* AgreedInputs::OnInputs(PeerId from, const control::Inputs& message) {
  const OpName name = NameFrom(message.op());
  const Descriptor descriptor = DescriptorFrom(message.op()).value();  // checked when it came
  auto inputs = InputsFrom(message, descriptor, ctx_.view().world_size());
  const bool is_valid = inputs && CanRun(descriptor) && IsInReach(name) && MaySay(from, descriptor, *inputs);
  if (!is_valid || HasUnoffered(name, *inputs)) {
    ctx_.AddNote("inputs_refused", {{"op", ToString(name)}, {"from", ctx_.NameOf(from)}}, Severity::kWarning);
    return nullptr;
  }
  RINGWAY_REACHED(kTakeInputs);
  return Bind(name, descriptor, std::move(*inputs));
}

Operation* AgreedInputs::Bind(const OpName& name, const Descriptor& descriptor, collective::InputSet inputs) {
  if (IsDecided(name) && !RINGWAY_MUTANT(kDecideTwice)) return nullptr;
  Operation* op = table_.Find(name);
  if (op == nullptr) op = AddUnsubmitted(name, descriptor);
  if (op == nullptr) return nullptr;
  if (op->submission.descriptor != descriptor && !RINGWAY_MUTANT(kIgnoreMismatch)) {
    op->obstacles.mismatch = ctx_.NameOf(ctx_.self) + " " + DifferenceOf(op->submission.descriptor, descriptor, name);
    ctx_.RequestRecoveryLater("mismatch: " + op->obstacles.mismatch);
    return nullptr;
  }
  if (RINGWAY_MUTANT(kTakeOwnInputs) && op->submitted) inputs.absent &= ~(std::uint64_t{1} << Self().value);
  op->inputs.epoch = ctx_.view().epoch;
  op->inputs.set = std::make_shared<const collective::InputSet>(std::move(inputs));
  // Its input was still on its way here: the first rank awaits the next one again only if it learns of this one.
  const bool is_offered = descriptor.agrees_on_inputs() && op->submitted;
  if (is_offered && !op->inputs.set->Has(Self()) && op->inputs.offered != op->inputs.epoch) Send(*op);
  return op;
}

Rank AgreedInputs::Self() const { return *ctx_.view().RankOf(ctx_.self); }

Operation* AgreedInputs::AddUnsubmitted(const OpName& name, const Descriptor& descriptor) {
  const std::uint64_t behind = name.seq - table_.NextSeq(name.channel);
  const std::uint64_t bytes = descriptor.count * SizeOf(descriptor.dtype);
  auto buffers = behind < kBehindMax ? buffers::AbsentBuffers::Make(bytes, ctx_.options.memory) : nullptr;
  if (buffers == nullptr) {
    RINGWAY_REACHED(kLeaveBehind);
    membership_.LeaveAtOnce(Code::kEvicted, "the trainer is " + std::to_string(behind) +
                                                " operations behind, and there is no room for " +
                                                (behind < kBehindMax ? "one more result" : "more results") +
                                                ": join again, and take the state of the others");
    return nullptr;
  }
  Submission submission;
  submission.spec.channel = name.channel.value;
  submission.spec.algorithm = abi::CodeOf(descriptor.schedule);
  submission.descriptor = descriptor;
  submission.buffers = std::move(buffers);
  RINGWAY_REACHED(kRunUnsubmitted);
  Operation& op = table_.AddUnsubmitted(name, std::move(submission));
  op.waiting.since = op.waiting.staged_at = ctx_.now;
  ctx_.Moved();
  return &op;
}

}  // namespace ringway::agreement
