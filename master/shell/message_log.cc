#include "master/shell/message_log.h"

#include <ringway/types.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "master/coordination/verdicts.h"
#include "proto/log_field.h"
#include "proto/shell/log.h"

namespace ringway {
namespace {

using shell::Level;
using Fields = LogFields;

Fields PeerFields(PeerId peer, const Coordinator::PeerLabel& label) {
  return {{"group", label.group}, {"peer", ToString(peer)}, {"name", label.name}, {"address", label.address}};
}

Fields OtherFields(PeerId other, const Coordinator& coordinator) {
  const Coordinator::PeerLabel label = coordinator.LabelOf(other);
  return {{"other", label.name}, {"other_id", ToString(other)}, {"other_address", label.address}};
}

// Lines about the peers of one daemon.
class Lines {
 public:
  Lines(Coordinator::Connection connection, const Coordinator& coordinator) : coordinator_(coordinator) {
    const Coordinator::Daemon* daemon = coordinator.DaemonAt(connection);
    if (daemon != nullptr) daemon_ = daemon->name;
  }

  const std::string& daemon() const { return daemon_; }
  void Write(Level level, std::string_view event, PeerId peer, const Fields& more = {}) const {
    shell::Log(level, event, PeerFields(peer, coordinator_.LabelOf(peer)) + Fields{{"daemon", daemon_}} + more);
  }

 private:
  const Coordinator& coordinator_;
  std::string daemon_;  // empty before its hello
};

void LogView(const control::ViewFor& message, const std::string& daemon) {
  const control::View& view = message.view();
  Coordinator::PeerLabel label{.group = view.group(), .name = {}, .address = {}};
  for (const control::PeerInfo& member : view.members()) {
    if (member.peer_id() != message.peer()) continue;
    label.name = member.name();
    label.address = member.address();
  }
  shell::Log(Level::kInfo, message.prepared() ? "view_prepared" : "view_sent",
             PeerFields(PeerId(message.peer()), label) + Fields{{"daemon", daemon},
                                                                {"epoch", ToString(Epoch(view.epoch()))},
                                                                {"world", view.members_size()},
                                                                {"verdicts", view.verdicts_size()}});
  for (const control::Verdict& verdict : view.verdicts()) {
    if (static_cast<Code>(verdict.code()) != Code::kInternal) continue;
    shell::Log(Level::kError, "contradiction", {{"group", view.group()}, {"text", verdict.text()}});
  }
}

// LogDropped has written a line already.
void LogEvicted(const control::Evicted& evicted, const Coordinator& coordinator, const std::string& daemon) {
  const FormerPeer* former = coordinator.former_peers().Find(PeerId(evicted.peer()));
  const Fields fields = {{"peer", ToString(PeerId(evicted.peer()))}, {"daemon", daemon}, {"text", evicted.text()}};
  if (former == nullptr) return shell::Log(Level::kInfo, "peer_unknown", fields);
  shell::Log(Level::kDebug, "evicted_sent", Fields{{"group", former->group}} + fields);
}

}  // namespace

void LogFromDaemon(Coordinator::Connection from, const control::ToMaster& message, const Coordinator& coordinator) {
  const Lines lines(from, coordinator);
  if (message.has_report()) {
    const control::Report& report = message.report();
    lines.Write(Level::kInfo, "report", PeerId(report.peer()),
                {{"epoch", ToString(Epoch(report.epoch()))}, {"reason", ClipText(report.reason())}});
  }
  if (!shell::Shows(Level::kDebug)) return;
  if (message.has_join()) {
    const control::JoinRequest& join = message.join();
    shell::Log(Level::kDebug, "join",
               {{"group", ClipText(join.group())},
                {"name", ClipText(join.name())},
                {"daemon", lines.daemon()},
                {"wait_world", join.wait_world()}});
  } else if (message.has_heartbeat()) {
    shell::Log(Level::kDebug, "heartbeat",
               {{"daemon", lines.daemon()}, {"peers", message.heartbeat().counters_size()}});
  } else if (message.has_roster()) {
    shell::Log(Level::kDebug, "roster", {{"daemon", lines.daemon()}, {"peers", message.roster().peers_size()}});
  } else if (message.has_connected()) {
    const control::Connected& connected = message.connected();
    lines.Write(
        Level::kDebug, "connected", PeerId(connected.peer()),
        OtherFields(PeerId(connected.other()), coordinator) + Fields{{"round_trip_us", connected.round_trip_us()}});
  } else if (message.has_measured()) {
    const control::Measured& path = message.measured();
    const Fields other = path.other() == 0 ? Fields{{"other", "all"}} : OtherFields(PeerId(path.other()), coordinator);
    lines.Write(Level::kDebug, "path_measured", PeerId(path.peer()),
                other + Fields{{"bytes_per_second", path.bytes_per_second()}, {"round_trip_us", path.round_trip_us()}});
  } else if (message.has_dial_failed()) {
    const control::DialFailed& failed = message.dial_failed();
    lines.Write(Level::kDebug, "dial_failed", PeerId(failed.peer()),
                OtherFields(PeerId(failed.other()), coordinator) + Fields{{"text", ClipText(failed.text())}});
  } else if (message.has_installed()) {
    lines.Write(Level::kDebug, "installed", PeerId(message.installed().peer()),
                {{"epoch", ToString(Epoch(message.installed().epoch()))}});
  } else if (message.has_withdraw()) {
    lines.Write(Level::kDebug, "withdraw", PeerId(message.withdraw().peer()));
  }
}

void LogToDaemon(const Coordinator::Action& action, const Coordinator& coordinator) {
  const control::FromMaster& message = *action.message;
  const Lines lines(action.connection, coordinator);
  if (message.has_view()) {
    LogView(message.view(), lines.daemon());
  } else if (message.has_evicted()) {
    LogEvicted(message.evicted(), coordinator, lines.daemon());
  } else if (message.has_join_accepted()) {
    lines.Write(Level::kInfo, "peer_joined", PeerId(message.join_accepted().peer()));
  } else if (message.has_join_refused()) {
    shell::Log(Level::kDebug, "join_refused", {{"daemon", lines.daemon()}, {"text", message.join_refused().text()}});
  } else if (message.has_pending()) {
    lines.Write(Level::kDebug, "peer_waits", PeerId(message.pending().peer()), {{"text", message.pending().text()}});
  } else if (message.has_abort()) {
    lines.Write(Level::kDebug, "abort_sent", PeerId(message.abort().peer()),
                {{"epoch", ToString(Epoch(message.abort().epoch()))}});
  }
}

void LogDropped(const FormerPeer& former) {
  const bool left = former.code == Code::kLeft;
  shell::Log(left ? Level::kInfo : Level::kWarning, left ? "peer_left" : "peer_dropped",
             PeerFields(former.peer, {former.group, former.name, former.address}) +
                 Fields{{"daemon", former.daemon}, {"why", former.why}});
}

void LogSlowHosts(const Timeline& timeline, std::uint64_t* last) {
  if (*last > timeline.log().last_number()) *last = 0;  // it is another coordinator's
  const std::deque<Event>& all = timeline.log().all();
  const auto is_old = [last](const Event& event) { return event.number <= *last; };
  for (auto next = std::partition_point(all.begin(), all.end(), is_old); next != all.end(); ++next) {
    *last = next->number;
    if (next->kind != kSlowHost && next->kind != kSlowHostOver) continue;
    const bool is_slow = next->kind == kSlowHost;
    shell::Log(is_slow ? Level::kWarning : Level::kInfo, is_slow ? "slow_host" : "slow_host_over",
               {{"group", next->group}, {"host", next->who}, {"text", next->text}});
  }
}

}  // namespace ringway
