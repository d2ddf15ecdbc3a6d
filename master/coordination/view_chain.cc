#include "master/coordination/view_chain.h"

#include <utility>

namespace ringway {

std::set<PeerId> MembersOf(const control::View& view) {
  std::set<PeerId> members;
  for (const control::PeerInfo& info : view.members()) members.emplace(info.peer_id());
  return members;
}

ViewChain::ViewChain(const record::Group& record)
    : current_(record.current()), current_was_prepared_(record.current_was_prepared()) {
  for (const control::View& view : record.prepared()) prepared_[Epoch(view.epoch())] = view;
}

void ViewChain::SaveTo(record::Group* record) const {
  *record->mutable_current() = current_;
  record->set_current_was_prepared(current_was_prepared_);
  for (const auto& [epoch, view] : prepared_) *record->add_prepared() = view;
}

const control::View& ViewChain::At(Epoch epoch) const {
  return epoch == Epoch(current_.epoch()) ? current_ : prepared_.at(epoch);
}

std::set<PeerId> ViewChain::AllMembers() const {
  std::set<PeerId> all = Members();
  for (const auto& [epoch, view] : prepared_) all.merge(MembersOf(view));
  return all;
}

bool ViewChain::IsNewcomer(PeerId peer) const { return AllMembers().contains(peer) && !Members().contains(peer); }

void ViewChain::Form(control::View view) {
  current_ = std::move(view);
  current_was_prepared_ = false;
}

void ViewChain::Prepare(control::View view) {
  const Epoch epoch(view.epoch());
  prepared_[epoch] = std::move(view);
}

bool ViewChain::Adopt(Epoch epoch, PeerId member) {
  const auto found = prepared_.find(epoch);
  if (found == prepared_.end() || !MembersOf(found->second).contains(member)) return false;
  current_ = found->second;
  current_was_prepared_ = true;
  prepared_.erase(prepared_.begin(), std::next(found));
  return true;
}

std::optional<Epoch> ViewChain::revoking() const {
  if (!revocation_) return std::nullopt;
  return revocation_->first;
}

bool ViewChain::Revoke(Epoch first, std::set<PeerId> awaited) {
  if (revocation_ && revocation_->first <= first) return false;
  revocation_ = Revocation{.first = first, .awaited = std::move(awaited)};
  return true;
}

bool ViewChain::OnRevoked(PeerId peer, Epoch first) {
  if (!revocation_ || first != revocation_->first) return false;
  revocation_->awaited.erase(peer);
  if (!revocation_->awaited.empty()) return false;
  prepared_.erase(prepared_.lower_bound(first), prepared_.end());
  revocation_.reset();
  return true;
}

}  // namespace ringway
