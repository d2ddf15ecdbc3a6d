// Passes requests for a daemon's flight recorder on to it, and its answers back; knows the daemons' clocks.
//
//   client --TraceRequest--> relay --TraceRequest, numbered--> daemon
//          <--TraceReply---        <-------TracePart----------
//
// Bounded: clients wait for kPendingMax answers at a time, each for kWait at most; then they get an error. A daemon has
// at most one request: the next is passed on when it has answered, or its connection has ended, so that at most one
// image waits before its heartbeats. Answers are not kept. Pure: the caller sends what it returns.
//
// Threads: one. The caller ensures that a connection has at most one request.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "master/coordination/clock_offset.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/result.h"

namespace ringway {

class TraceRelay {
 public:
  using Connection = std::uint64_t;
  static constexpr std::size_t kPendingMax = 8;
  static constexpr Duration kWait = std::chrono::seconds(3);

  struct Message {
    Connection to = 0;
    control::FromMaster message;  // a trace_reply to a client, or a trace to a daemon
  };

  // `daemon`: the connection of the daemon that the client names, or why there is none. Returns what to send now.
  Message Ask(Connection client, const control::TraceRequest& request, const Result<Connection>& daemon, TimePoint now);
  // Nothing: nobody waits for it.
  std::optional<Message> OnPart(Connection daemon, const control::TracePart& part, TimePoint now);
  // Errors for clients whose answers are overdue.
  std::vector<Message> Tick(TimePoint now);
  // A client or a daemon is gone.
  std::vector<Message> OnClosed(Connection connection);

  // ---- heartbeats of daemons
  void OnHeartbeat(Connection daemon, const control::DaemonHeartbeat& heartbeat, TimePoint now);
  // Fills in what the reply says of clocks.
  static void Stamp(control::DaemonHeartbeat& reply, TimePoint now);

 private:
  struct Pending {
    std::uint64_t number = 0;
    std::optional<Connection> client;  // nothing: it waits no more
    TimePoint due{};
  };

  std::size_t waiting() const;

  std::uint64_t next_number_ = 1;
  std::map<Connection, Pending> pending_;     // by daemon
  std::map<Connection, ClockOffset> clocks_;  // of daemons that have sent a sample
};

}  // namespace ringway
