// Trainers of a DataPlane that want to join a group, until the master has accepted them.
#include <algorithm>
#include <utility>

#include "daemon/runtime/data_plane.h"

namespace ringway::daemon {
namespace {

// How long a join waits at most for connections that it may inherit.
constexpr Duration kInheritMax = std::chrono::seconds(2);

}  // namespace

void DataPlane::OnJoin(const std::shared_ptr<local::TrainerSession>& session, const local::JoinOrder& order) {
  if (shutting_down_) return session->JoinRefused(Status(Code::kShuttingDown, kStopping));
  if (draining_) return session->JoinRefused(Status(Code::kShuttingDown, kDrained));
  control::JoinRequest join;
  join.set_group(order.group);
  // Made-up names differ: a process may have several sessions, or join again before its last membership has ended.
  const std::string suffix = "-" + std::to_string(session->pid()) + "." + std::to_string(next_request_);
  const std::string made_up = options_.identity.name.substr(0, abi::kPeerNameBytes - 1 - suffix.size()) + suffix;
  join.set_name(order.name.empty() ? made_up : order.name);
  join.set_wait_world(order.wait_world);
  join.set_min_world(order.min_world);
  join.set_fail_on_peer_loss(order.fail_on_peer_loss);
  join.set_hung_ms(order.hung_ms);
  Ask(session, std::move(join));
}

void DataPlane::Ask(const std::shared_ptr<local::TrainerSession>& session, control::JoinRequest request) {
  const std::uint64_t id = next_request_++;
  request.set_request_id(id);
  Joining& joining = joining_.emplace(id, Joining{session, std::move(request)}).first->second;
  if (!master_up_) return session->JoinProgress(Code::kMasterUnreachable, NoMasterText());
  if (IsAnyLeaving(joining.request.group())) joining.held_until = clock_.Now() + kInheritMax;
  if (!joining.held_until) SendJoin(joining.request);
}

// A trainer that has died is often back before its peer has finished what it had submitted, and left. Its connections
// go to the next peer only then: one that dials before has cold ones beside them.
bool DataPlane::IsAnyLeaving(const std::string& group) const {
  return std::any_of(peers_.begin(), peers_.end(), [&](const auto& entry) {
    return entry.second->join().group() == group && !entry.second->session()->open();
  });
}

void DataPlane::AskForTheHeld(TimePoint now) {
  for (auto& [id, joining] : joining_) {
    if (!joining.held_until) continue;
    const bool may_inherit = IsAnyLeaving(joining.request.group()) || *retiring_ > 0;
    if (now < *joining.held_until && may_inherit) continue;
    joining.held_until.reset();
    if (master_up_) SendJoin(joining.request);
  }
}

void DataPlane::SendJoin(const control::JoinRequest& request) {
  control::ToMaster message;
  *message.mutable_join() = request;
  control_->ToMaster(std::move(message));
}

void DataPlane::OnSessionOver(const std::shared_ptr<local::TrainerSession>& session) {
  // An answer that still comes is withdrawn, because nobody waits for it.
  std::erase_if(joining_, [&](const auto& entry) { return entry.second.session == session; });
}

}  // namespace ringway::daemon
