// Operations in the messages of members and in reports to the master, and the values that they stand for. Pure.
#pragma once

#include <optional>

#include "daemon/agreement/input_quorum.h"
#include "daemon/agreement/operation.h"
#include "daemon/collective/executor.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

// kProtocol if a number fits no segment's header. One that fits and that this build does not know makes a descriptor
// that differs from all of its own.
Result<Descriptor> DescriptorFrom(const control::Ready& ready);

control::PeerMessage ReadyMessage(Epoch epoch, const OpName& name, const Descriptor& descriptor);
control::PeerMessage DoneMessage(Epoch epoch, const OpName& name);
control::PeerMessage FetchMessage(Epoch epoch, const OpName& name);
control::PeerMessage ResendMessage(Epoch epoch, const OpName& name, const collective::Executor::Wanted& wanted);
OpName NameFrom(const control::Ready& ready);
control::PeerMessage OfferMessage(Epoch epoch, const OpName& name, const InputQuorum::Offer& offer);
control::PeerMessage InputsMessage(Epoch epoch, const InputQuorum::Decision& decision);
// REQUIRES: DescriptorFrom(message.op()).ok(). A weight that is none counts as 1.
InputQuorum::Offer OfferFrom(const control::Offer& message);
// Nothing: they are no inputs of a world of this size.
std::optional<collective::InputSet> InputsFrom(const control::Inputs& message, const Descriptor& descriptor,
                                               std::uint32_t world_size);
// Returns the view that a message is of, if it is of one.
Epoch EpochOf(const control::PeerMessage& message);
// Returns the report of an operation to the master, by a peer in the view of this epoch.
control::OpReport ReportOf(const Operation& op, Epoch epoch);
// Returns what the trainer gets, except the rank. REQUIRES: the operation has its outcome.
Complete CompleteOf(const Operation& op);
// Records that an UpdateView has adopted this view. Every rank names it, even one that is in a later view when it
// learns of it.
void SetAdopted(const control::View& view, Complete& complete);

}  // namespace ringway::agreement
