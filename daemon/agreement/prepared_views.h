// Views that the master has prepared: an UpdateView may adopt one, and a newcomer begins in one.
//
//   Add --> prepared --adopted by an UpdateView, or activated by a member's word--> installed; kept a while longer
//              +--RevokePrepared--> no longer offered --DropRevoked, when no UpdateView is open--> gone
//
// Invariant: nothing from the first of those to be taken back on is offered for adoption. At most kMax are kept of
// those that are over.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway::agreement {

class PreparedViews {
 public:
  static constexpr std::size_t kMax = 16;

  void Add(Epoch epoch, const control::View& view) { views_[epoch] = view; }
  // Null: there is none.
  const control::View* Find(Epoch epoch) const {
    const auto found = views_.find(epoch);
    return found == views_.end() ? nullptr : &found->second;
  }
  // The newest that is offered and that the caller may adopt; epoch 0: none.
  template <typename MayAdopt>
  Epoch Newest(MayAdopt&& may_adopt) const {
    for (auto entry = views_.rbegin(); entry != views_.rend(); ++entry) {
      const bool offered = to_revoke_.empty() || entry->first < *to_revoke_.begin();
      if (offered && may_adopt(entry->second)) return entry->first;
    }
    return {};
  }
  // Views that are over stay a while: an UpdateView that adopted one may still have to be reported.
  void OnView(Epoch installed) {
    while (views_.size() > kMax && views_.begin()->first <= installed) views_.erase(views_.begin());
  }

  // All from `first` on are to be taken back; false if there is no room to remember it.
  [[nodiscard]] bool RevokePrepared(Epoch first) {
    if (to_revoke_.size() >= kMax) return false;
    to_revoke_.insert(first);
    return true;
  }
  // A view that was decided on makes all that were prepared before it void.
  void KeepAll() { to_revoke_.clear(); }
  // Drops those that are to be taken back and are above the installed one. Returns the first ones.
  std::set<Epoch> DropRevoked(Epoch installed) {
    for (const Epoch first : to_revoke_) {
      views_.erase(views_.lower_bound(std::max(first, Epoch(installed.value + 1))), views_.end());
    }
    return std::exchange(to_revoke_, {});
  }

 private:
  std::map<Epoch, control::View> views_;
  std::set<Epoch> to_revoke_;  // each stands for all prepared views from it on
};

}  // namespace ringway::agreement
