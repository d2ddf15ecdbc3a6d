#include "daemon/agreement/messages.h"

#include <cstdint>
#include <limits>

#include "proto/encoding_code.h"
#include "proto/mutation.h"

namespace ringway::agreement {
namespace {

// Fills in which operation a message names.
template <typename Named>
void SetName(Named& message, Epoch epoch, const OpName& name) {
  message.set_epoch(epoch.value);
  message.set_channel(name.channel.value);
  message.set_seq(name.seq);
}

void Describe(control::Ready& ready, Epoch epoch, const OpName& name, const Descriptor& descriptor) {
  SetName(ready, epoch, name);
  ready.set_kind(static_cast<std::uint32_t>(descriptor.kind));
  ready.set_dtype(static_cast<std::uint32_t>(descriptor.dtype));
  ready.set_op(static_cast<std::uint32_t>(descriptor.op));
  const EncodingCode codec = CodeOf(descriptor.codec);
  ready.set_codec(codec.codec);
  ready.set_block(codec.block_power);
  ready.set_rounding(codec.rounding);
  ready.set_algorithm(static_cast<std::uint32_t>(descriptor.schedule));
  ready.set_count(descriptor.count);
  ready.set_root(descriptor.root);
  ready.set_layout(descriptor.layout);
  ready.set_quorum(descriptor.quorum);
  ready.set_weighted(descriptor.weighted);
}

}  // namespace

Result<Descriptor> DescriptorFrom(const control::Ready& ready) {
  for (const std::uint32_t number : {ready.kind(), ready.dtype(), ready.op(), ready.codec(), ready.algorithm(),
                                     ready.block(), ready.rounding(), ready.root(), ready.quorum()}) {
    if (number <= std::numeric_limits<std::uint8_t>::max()) continue;
    return Status(Code::kProtocol, "READY describes what no segment can carry");
  }
  return Descriptor{
      .kind = static_cast<OpKind>(ready.kind()),
      .dtype = static_cast<DType>(ready.dtype()),
      .op = static_cast<ReduceOp>(ready.op()),
      .codec = EncodingOf({static_cast<std::uint8_t>(ready.codec()), static_cast<std::uint8_t>(ready.block()),
                           static_cast<std::uint8_t>(ready.rounding())}),
      .schedule = static_cast<Algorithm>(ready.algorithm()),
      .count = ready.count(),
      .root = static_cast<std::uint8_t>(ready.root()),
      .layout = ready.layout(),
      .quorum = static_cast<std::uint8_t>(ready.quorum()),
      .weighted = ready.weighted()};
}

control::PeerMessage ReadyMessage(Epoch epoch, const OpName& name, const Descriptor& descriptor) {
  control::PeerMessage message;
  Describe(*message.mutable_ready(), epoch, name, descriptor);
  return message;
}

OpName NameFrom(const control::Ready& ready) { return {ChannelId(ready.channel()), ready.seq()}; }

control::PeerMessage OfferMessage(Epoch epoch, const OpName& name, const InputQuorum::Offer& offer) {
  control::PeerMessage message;
  Describe(*message.mutable_offer()->mutable_op(), epoch, name, offer.descriptor);
  message.mutable_offer()->set_weight(offer.weight);
  message.mutable_offer()->set_grace_ms(
      static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(offer.grace).count()));
  return message;
}

InputQuorum::Offer OfferFrom(const control::Offer& message) {
  const bool is_weight = message.weight() != 0 && IsWeight(message.weight());
  return {.descriptor = DescriptorFrom(message.op()).value(),
          .weight = is_weight ? message.weight() : 1,
          .grace = std::chrono::milliseconds(message.grace_ms())};
}

control::PeerMessage InputsMessage(Epoch epoch, const InputQuorum::Decision& decision) {
  control::PeerMessage message;
  Describe(*message.mutable_inputs()->mutable_op(), epoch, decision.name, decision.descriptor);
  message.mutable_inputs()->set_absent(decision.inputs.absent);
  for (const double weight : decision.inputs.weights) message.mutable_inputs()->add_weights(weight);
  return message;
}

std::optional<collective::InputSet> InputsFrom(const control::Inputs& message, const Descriptor& descriptor,
                                               std::uint32_t world_size) {
  collective::InputSet inputs{.absent = message.absent(),
                              .weights = {message.weights().begin(), message.weights().end()}};
  const std::uint64_t all = world_size < 64 ? (std::uint64_t{1} << world_size) - 1 : ~std::uint64_t{0};
  if ((inputs.absent & ~all) != 0 || inputs.absent == all) return std::nullopt;
  if (inputs.weights.size() != (descriptor.weighted ? world_size : 0)) return std::nullopt;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    const double weight = inputs.WeightOf(Rank(rank));
    if (inputs.Has(Rank(rank)) && (weight == 0 || !IsWeight(weight))) return std::nullopt;
  }
  return inputs;
}

Epoch EpochOf(const control::PeerMessage& message) {
  return Epoch(message.has_ready()            ? message.ready().epoch()
               : message.has_done()           ? message.done().epoch()
               : message.has_fetch()          ? message.fetch().epoch()
               : message.has_resend()         ? message.resend().epoch()
               : message.has_point_to_point() ? message.point_to_point().epoch()
               : message.has_offer()          ? message.offer().op().epoch()
               : message.has_inputs()         ? message.inputs().op().epoch()
                                              : message.heartbeat().epoch());
}

control::PeerMessage DoneMessage(Epoch epoch, const OpName& name) {
  control::PeerMessage message;
  SetName(*message.mutable_done(), epoch, name);
  return message;
}

control::PeerMessage FetchMessage(Epoch epoch, const OpName& name) {
  control::PeerMessage message;
  SetName(*message.mutable_fetch(), epoch, name);
  return message;
}

control::PeerMessage ResendMessage(Epoch epoch, const OpName& name, const collective::Executor::Wanted& wanted) {
  control::PeerMessage message;
  control::Resend& resend = *message.mutable_resend();
  SetName(resend, epoch, name);
  resend.set_step(wanted.step);
  resend.set_chunk(wanted.chunk);
  resend.set_segment(wanted.segment);
  return message;
}

control::OpReport ReportOf(const Operation& op, Epoch epoch) {
  control::OpReport report;
  report.set_channel(op.name.channel.value);
  report.set_seq(op.name.seq);
  report.set_update_view(op.is_update());
  if (op.is_update()) SeqsTo(op.next_seqs, *report.mutable_next_seq());
  const bool durable = op.has_outcome() || (RINGWAY_MUTANT(kMarkDurableByVerdict) && op.fetching);
  report.set_stage(op.is_reported() ? control::OP_STAGE_REPORTED
                   : durable        ? control::OP_STAGE_COMPLETE
                   : op.has_part    ? control::OP_STAGE_PART
                                    : control::OP_STAGE_RUNNING);
  if (!durable) {
    report.set_cancel(op.obstacles.cancel);
    report.set_mismatch(op.obstacles.mismatch);
    report.set_partner_lost(op.obstacles.partner_lost);
    report.set_overdue(op.obstacles.overdue);
    if (op.obstacles.hung_in == epoch) {
      for (const PeerId peer : op.obstacles.hung_for) report.add_hung_for(peer.value);
    }
    if (!op.has_part) return report;
  }
  report.set_code(static_cast<std::uint32_t>(op.outcome.code));
  report.set_text(op.outcome.text);
  report.set_result_epoch(op.outcome.epoch.value);
  if (op.outcome.code == Code::kOk) {  // those of a failure are this rank's own view
    for (const PeerId peer : op.outcome.contributors) report.add_contributors(peer.value);
  }
  report.set_prepared_epoch(op.outcome.prepared.value);
  report.set_absent(op.outcome.absent);
  report.set_weight(op.outcome.weight);
  return report;
}

Complete CompleteOf(const Operation& op) {
  const bool ok = op.outcome.code == Code::kOk;
  Complete complete;
  complete.token = op.submission.token;
  complete.text = op.outcome.text;
  complete.contributors = op.outcome.contributors;
  complete.channel = op.name.channel;
  complete.outcome.code = op.outcome.code;
  complete.outcome.epoch = op.outcome.epoch.value;
  complete.outcome.sequence = op.name.seq;
  complete.outcome.wire_bytes = op.attempt.wire_bytes;
  complete.outcome.retries = op.retries;
  complete.outcome.algorithm = op.algorithm;
  complete.outcome.error_bound = static_cast<float>(op.error_bound);
  complete.outcome.absent = op.outcome.absent;
  complete.outcome.weight = op.outcome.weight;
  // This follows from the agreed outcome alone: a rank that reports it in a later view says the same.
  complete.outcome.update_waits = ok && !op.is_update() && op.outcome.prepared > op.outcome.epoch ? 1 : 0;
  complete.collective = op.submission.descriptor.kind;
  complete.bytes = op.output_bytes();
  complete.codec = op.submission.descriptor.codec;
  complete.submitted = op.waiting.since;
  return complete;
}

void SetAdopted(const control::View& view, Complete& complete) {
  complete.outcome.epoch = view.epoch();
  complete.contributors.clear();
  for (const control::PeerInfo& member : view.members()) complete.contributors.emplace_back(member.peer_id());
}

}  // namespace ringway::agreement
