// What a rank says to the others about its operations, and the replies that need no more than its results: READY, DONE,
// and segments that another rank asks for.
//
// Ownership: Operations'.
#pragma once

#include "daemon/agreement/context.h"
#include "daemon/agreement/launcher.h"
#include "daemon/agreement/links.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/operation.h"
#include "daemon/transfer/transfer.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway::agreement {

class OpWords {
 public:
  // All outlive it.
  OpWords(Context& ctx, Links& links, OpTable& table, transfer::Transfer& transfer, Launcher& launcher)
      : ctx_(ctx), links_(links), table_(table), transfer_(transfer), launcher_(launcher) {}
  OpWords(const OpWords&) = delete;
  OpWords& operator=(const OpWords&) = delete;

  // REQUIRES: its attempt is live.
  void SendReady(Operation& op);
  // READY of small operations that have run for the detection time. Before that nobody says it of them; but ranks whose
  // descriptors differ may exchange no segments. To be called with each heartbeat.
  void SendLateReadies();
  void SendDone(const OpName& name);
  // `from` asks for a result that it lacks.
  void OnFetch(PeerId from, const OpName& name);
  // A segment found no room at `from`, which has room now.
  void OnResend(PeerId from, const control::Resend& resend);
  // Adds all to a report. `last_update`: where the channels of the last view adopted began.
  void Describe(control::Report& report, const control::OpReport& last_update) const;

 private:
  Context& ctx_;
  Links& links_;
  OpTable& table_;
  transfer::Transfer& transfer_;
  Launcher& launcher_;
};

}  // namespace ringway::agreement
