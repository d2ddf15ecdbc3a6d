// The views of one group: the current one, and the prepared ones above it. Each prepared view contains the members of
// the view before it.
//
//   Form(E)  -->  current E  --Prepare(P)-->  current E, prepared P  --Adopt(P)-->  current P
//   prepared P  --Revoke(P)-->  revoking P  --OnRevoked from all members-->  current E
//
// Members may have agreed on a prepared view just before it is revoked, and will switch to it in any case. So a void
// view is kept until each member has replied that it can no longer adopt it, and no other view is prepared meanwhile.
//
// A value; threads: one.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "master/coordination/group_record.pb.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway {

std::set<PeerId> MembersOf(const control::View& view);

class ViewChain {
 public:
  ViewChain() = default;
  // Restores journaled views.
  explicit ViewChain(const record::Group& record);
  void SaveTo(record::Group* record) const;

  bool formed() const { return current_.epoch() != 0; }
  // Epoch 0: none.
  const control::View& current() const { return current_; }
  // Returns whether an UpdateView adopted the current view; otherwise a recovery decided it.
  bool current_was_prepared() const { return current_was_prepared_; }
  const std::map<Epoch, control::View>& prepared() const { return prepared_; }
  const control::View& Newest() const { return prepared_.empty() ? current_ : prepared_.rbegin()->second; }
  // Returns the current view or a prepared one. REQUIRES: there is one of this epoch.
  const control::View& At(Epoch epoch) const;

  // Members of the current view, and of any view.
  std::set<PeerId> Members() const { return MembersOf(current_); }
  std::set<PeerId> AllMembers() const;
  // Returns whether the peer is in a prepared view, but not in the current one.
  bool IsNewcomer(PeerId peer) const;

  void Form(control::View view);
  // REQUIRES: the view's epoch is higher than that of any other view.
  void Prepare(control::View view);
  // A member says that it has installed this prepared view. Returns false if there is none, or if the peer is not in
  // it.
  bool Adopt(Epoch epoch, PeerId member);
  void Clear() { *this = ViewChain(); }

  // The oldest void view, while prepared views are being revoked; all above it are void, too.
  std::optional<Epoch> revoking() const;
  // `awaited`: the members that have to reply. Returns false if these views are being revoked already.
  bool Revoke(Epoch first, std::set<PeerId> awaited);
  // Returns whether this was the last reply: then the void views are gone.
  bool OnRevoked(PeerId peer, Epoch first);
  // A recovery replaces all views, or the void view was adopted after all.
  void StopRevoking() { revocation_.reset(); }

 private:
  struct Revocation {
    Epoch first;
    std::set<PeerId> awaited;
  };

  control::View current_;
  bool current_was_prepared_ = false;
  std::map<Epoch, control::View> prepared_;
  std::optional<Revocation> revocation_;
};

}  // namespace ringway
