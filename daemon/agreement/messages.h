// Operations in the messages of members and in reports to the master, and the values that they stand for. Pure.
#pragma once

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
// What a peer in the view of this epoch reports of an operation to the master.
control::OpReport ReportOf(const Operation& op, Epoch epoch);
// What its trainer gets, but for the rank. REQUIRES: it has its outcome.
Complete CompleteOf(const Operation& op);
// That an UpdateView has adopted this view: every rank names it, also one that lives in a later view when it learns of it.
void SetAdopted(const control::View& view, Complete& complete);

}  // namespace ringway::agreement
