// What has happened to the groups, for operators: views, losses with their reasons, joins, plans, orders, daemons that
// came and went. Pure: the time is a parameter.
//
// It is made of what the coordinator hears from peers and says to them: a view goes to each of its members, and is one
// event. In memory only, and bounded: the newest kMax events of the last kKept (proto/event_log.h).
//
// A value; threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "master/coordination/former_peers.h"
#include "master/coordination/view_planner.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/event_log.h"
#include "proto/ids.h"

namespace ringway {

// Kinds of events that are logged, too.
inline constexpr const char* kSlowHost = "slow_host";
inline constexpr const char* kSlowHostOver = "slow_host_over";

class Timeline {
 public:
  static constexpr std::size_t kMax = 2048;
  static constexpr std::size_t kNamesMax = 8;  // that a view's text lists
  static constexpr Duration kKept = std::chrono::hours(1);

  void Add(TimePoint at, Event event) { log_.Add(at, std::move(event)); }

  // A peer has asked to join; it waits until it is let in.
  void OnJoin(const control::PeerInfo& info, const control::JoinRequest& request, TimePoint now);
  // `message` goes to a peer of the group.
  void OnMessage(const std::string& group, const control::FromMaster& message, TimePoint now);
  // A member of the group wants a recovery. `who`: its name.
  void OnReport(const std::string& group, const std::string& who, const control::Report& report, TimePoint now);
  // A member has adopted a prepared view.
  void OnInstalled(const std::string& group, Epoch epoch, TimePoint now);
  void OnDropped(const FormerPeer& former, TimePoint now);
  // `slow`: whose host makes the group's operations slow now.
  void OnPlanned(const std::string& group, const std::optional<ViewPlanner::SlowPeer>& slow, TimePoint now);
  // No peer is left in it.
  void Forget(const std::string& group) { groups_.erase(group); }

  const EventLog& log() const { return log_; }

 private:
  // What events have said of a group, so that each is one.
  struct Said {
    Epoch view;       // the newest, prepared or not
    Epoch installed;  // the newest in force
    Epoch recovery;   // the newest view that a recovery has ended
    Epoch revoked;
    std::map<Epoch, std::size_t> worlds;           // sizes of prepared views, the newest few
    std::map<std::uint64_t, std::string> members;  // names of the newest view's
    std::string slow;                              // the name of whose host is; empty: nobody's
    bool is_recovering() const { return recovery != Epoch() && recovery >= installed; }
  };

  void OnView(const control::ViewFor& message, TimePoint now);

  EventLog log_{kMax, kKept};
  std::map<std::string, Said> groups_;
};

}  // namespace ringway
