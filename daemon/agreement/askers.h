// The newcomers that take this member's state: the trainer learns of each once, and when it asks no more, because it
// has the state, is a member or is gone.
//
// Invariant: none of them is in the view.
#pragma once

#include <set>

#include "daemon/agreement/context.h"
#include "daemon/agreement/peer_values.h"
#include "proto/ids.h"

namespace ringway::agreement {

class Askers {
 public:
  explicit Askers(Context& ctx) : ctx_(ctx) {}

  void OnHeartbeat(PeerId from, bool takes_state) {
    if (!takes_state) return Drop(from);
    if (!ctx_.views.installed() || ctx_.view().Contains(from)) return;
    if (newcomers_.insert(from).second) ctx_.Emit(NewcomerAsks{.newcomer = from, .asks = true});
  }
  void OnView() {
    for (const PeerId member : ctx_.view().members) Drop(member);
  }
  void Drop(PeerId newcomer) {
    if (newcomers_.erase(newcomer) > 0) ctx_.Emit(NewcomerAsks{.newcomer = newcomer, .asks = false});
  }

 private:
  Context& ctx_;
  std::set<PeerId> newcomers_;
};

}  // namespace ringway::agreement
