// The newcomers that take this member's state: the trainer learns of each once, and when it asks no more, because it
// has the state, is a member or is gone. It learns of as many at once as its page has entries for; the others wait for
// one of those to be dropped, and lose nothing: they take the state when they are admitted.
//
// Invariant: none of them is in the view.
#pragma once

#include <set>

#include "daemon/agreement/context.h"
#include "daemon/agreement/peer_values.h"
#include "proto/ids.h"
#include "proto/local_abi.h"

namespace ringway::agreement {

class Askers {
 public:
  explicit Askers(Context& ctx) : ctx_(ctx) {}

  void OnHeartbeat(PeerId from, bool takes_state) {
    if (!takes_state) return Drop(from);
    if (!ctx_.views.installed() || ctx_.view().Contains(from)) return;
    if (named_.contains(from) || !waiting_.insert(from).second) return;
    NameNext();
  }
  void OnView() {
    for (const PeerId member : ctx_.view().members) Drop(member);
  }
  void Drop(PeerId newcomer) {
    waiting_.erase(newcomer);
    if (named_.erase(newcomer) == 0) return;
    ctx_.Emit(NewcomerAsks{.newcomer = newcomer, .asks = false});
    NameNext();
  }

 private:
  void NameNext() {
    while (!waiting_.empty() && named_.size() < abi::kNewcomersMax) {
      const PeerId next = *waiting_.begin();
      waiting_.erase(waiting_.begin());
      named_.insert(next);
      ctx_.Emit(NewcomerAsks{.newcomer = next, .asks = true});
    }
  }

  Context& ctx_;
  std::set<PeerId> named_;
  std::set<PeerId> waiting_;
};

}  // namespace ringway::agreement
