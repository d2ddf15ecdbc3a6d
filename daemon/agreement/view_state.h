// Which view is in force at a peer, and whether it may go on in it.
//
//   outside --Install--> installed --Stop(e >= epoch)--> frozen --Install(epoch > stop)--> installed
//      any of them --End--> ended
//
// While frozen (stop >= epoch) nothing completes, nothing is reported, no DONE or acknowledgement counts. stop only
// grows, and so does the epoch: Membership, which alone moves this on, installs no other view.
//
// Pure.
#pragma once

#include <algorithm>
#include <utility>

#include "daemon/agreement/view.h"
#include "proto/ids.h"
#include "proto/mutation.h"

namespace ringway::agreement {

class ViewState {
 public:
  const View& view() const { return view_; }  // epoch 0: outside
  Epoch stop() const { return stop_; }
  bool installed() const { return view_.epoch.value != 0; }
  bool frozen() const { return stop_ >= view_.epoch; }
  bool ended() const { return ended_; }
  bool running() const { return installed() && (!frozen() || RINGWAY_MUTANT(kCompleteWhileFrozen)) && !ended_; }
  // Returns whether the view of this epoch is over, so that nobody needs what belongs to it.
  bool IsOld(Epoch epoch) const {
    if (RINGWAY_MUTANT(kAcceptOldFrames)) return false;
    return epoch < view_.epoch || (epoch <= stop_ && !RINGWAY_MUTANT(kCompleteWhileFrozen));
  }

  // Sets the plan that holds before there is a view. REQUIRES: outside.
  void SetPlan(Plan plan) { view_.plan = std::move(plan); }
  // Returns the one before.
  View Install(View view) { return std::exchange(view_, std::move(view)); }
  void Stop(Epoch epoch) { stop_ = std::max(stop_, epoch); }
  void End() { ended_ = true; }

 private:
  View view_;
  Epoch stop_;
  bool ended_ = false;
};

}  // namespace ringway::agreement
