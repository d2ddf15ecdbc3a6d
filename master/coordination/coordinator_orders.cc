// What is not of a group: an operator's orders, and what daemons say of themselves (coordinator.h).
#include <algorithm>

#include "master/coordination/coordinator.h"
#include "proto/rules.h"

namespace ringway {

Result<PeerId> Coordinator::Evict(const control::EvictRequest& request, TimePoint now) {
  const auto group = groups_.find(request.group());
  if (group == groups_.end())
    return Status(Code::kInvalidArgument, "no group " + request.group() + ": see ringwayctl status");
  // Ids take precedence over names that look like one.
  const auto& peers = group->second->peers();
  const auto has_id = [&](const auto& entry) { return ToString(entry.first) == request.peer(); };
  const auto has_name = [&](const auto& entry) { return entry.second.info.name() == request.peer(); };
  auto found = std::find_if(peers.begin(), peers.end(), has_id);
  if (found == peers.end() && !request.peer().empty()) found = std::find_if(peers.begin(), peers.end(), has_name);
  if (found != peers.end()) {
    RINGWAY_REACHED(kEvictByOrder);
    now_ = std::max(now_, now);
    Note(
        {.kind = "order", .group = request.group(), .who = found->second.info.name(), .text = "an operator evicts it"});
    const PeerId peer = found->first;
    group->second->OnEvict(peer, "an operator evicted it", now);
    DropEmptyGroups();
    return peer;
  }
  return Status(Code::kInvalidArgument,
                "group " + request.group() + " has no peer " + request.peer() + ": see ringwayctl status");
}

Result<Coordinator::Connection> Coordinator::ConnectionOf(const std::string& daemon) const {
  // Its predecessor may be remembered by the same name.
  auto found = daemons_.end();
  for (auto each = daemons_.begin(); each != daemons_.end(); ++each) {
    if (each->second.name == daemon && (found == daemons_.end() || each->second.connection)) found = each;
  }
  if (found == daemons_.end())
    return Status(Code::kInvalidArgument, "no daemon is named " + daemon + ": see ringwayctl status");
  if (!found->second.connection)
    return Status(Code::kDaemonUnreachable, "daemon " + daemon + " has no connection to the master");
  return *found->second.connection;
}

Status Coordinator::Drain(const control::DrainRequest& request) {
  const Result<Connection> daemon = ConnectionOf(request.daemon());
  if (!daemon.ok()) return daemon.status();
  control::FromMaster message;
  message.mutable_drain()->set_end(request.end());
  Note({.kind = "order",
        .who = request.daemon(),
        .text = request.end() ? "an operator takes it into service again" : "an operator takes it out of service"});
  SendTo(daemon.value(), std::move(message));
  return Status::Ok();
}

void Coordinator::TakeState(const control::DaemonHeartbeat& heartbeat, Daemon& daemon) {
  if (std::exchange(daemon.draining, heartbeat.draining()) != heartbeat.draining()) {
    Note({.kind = heartbeat.draining() ? "draining" : "in_service", .who = daemon.name});
  }
  daemon.memory_used = heartbeat.memory_used();
  daemon.memory_max = heartbeat.memory_max();
}

}  // namespace ringway
