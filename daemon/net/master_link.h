// The daemon's connection to ringway-master: connects, sends hello and heartbeats, and reconnects forever.
//
//   connecting --hello answered--> up --reset, silence of detect_ms--> waiting (50 ms .. 1 s) --> connecting ...
//              --Refusal--> refused (reported to the sink; a later retry may succeed)
//
// With several masters one leads, and the others refuse the hello. They are tried in turn; where one names the leader,
// that is tried next, if it is in the list: so nobody can send a daemon elsewhere. Each round over the list ends with a
// pause, however many hints there were, and reports one failure.
//
// Terms fence: a master of a lower term than an earlier one, or another one of the same term, is not followed. It was
// started on another journal, or is a predecessor that has not noticed its end.
//
// Threads: one (control thread). The sink lives as long as the link.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/stream/connector.h"
#include "proto/stream/framed_socket.h"
#include "proto/stream/timer.h"

namespace ringway::net {

class MasterSink {
 public:
  virtual ~MasterSink() = default;
  virtual void OnMasterUp(const control::HelloReply& reply) = 0;
  // The link was up and has failed.
  virtual void OnMasterDown(const std::string& why) = 0;
  // An attempt to connect failed or was refused; the link tries again by itself.
  virtual void OnMasterRefused(const Status& why) = 0;
  // Everything but HelloReply, Refusal and heartbeats. A Status that is not ok ends the connection.
  virtual Status OnMasterMessage(control::FromMaster message) = 0;
};

struct MasterLinkOptions {
  std::vector<std::string> addresses;  // of masters, HOST:PORT; not empty
  bool allow_remote = false;
  std::shared_ptr<Security> security = nullptr;
  control::DaemonHello hello;
  Duration attempt_timeout = std::chrono::seconds(5);
  Duration pause_min = std::chrono::milliseconds(50);
  Duration pause_max = std::chrono::seconds(1);
};

class MasterLink : public FrameSink {
 public:
  MasterLink(asio::io_context& context, MasterLinkOptions options, MasterSink* sink);
  ~MasterLink() override;
  MasterLink(const MasterLink&) = delete;
  MasterLink& operator=(const MasterLink&) = delete;

  void Start();
  void Stop();
  bool up() const { return up_; }
  // The master that it is connected to, or tries.
  const std::string& address() const { return options_.addresses[at_]; }
  // Dropped while the link is down.
  void Send(const control::ToMaster& message);
  // Sent with the next heartbeats.
  void SetCounters(control::DaemonHeartbeat counters) { counters_ = std::move(counters); }
  // Closes the connection; the link reconnects.
  void Break(const std::string& why);

  Status OnFrame(std::span<const std::byte> frame) override;
  void OnClosed(const std::string& why) override;

 private:
  void OnConnected(Result<Connection> connected);
  Status OnFirst(const control::FromMaster& message);
  Status CheckTerm(const control::HelloReply& reply);
  void ArmHeartbeat();
  void OnNoAnswer();
  void OnHeartbeat();
  void Lost(const Status& why);
  // Takes the master to try next. Returns whether this one was the last of a round.
  bool TurnToNext();
  Duration AttemptTimeout() const;

  asio::io_context& context_;
  const Clock& clock_;
  MasterLinkOptions options_;
  MasterSink* sink_;
  Timer timer_;  // the attempt's limit, the pause or the heartbeat, by state
  std::shared_ptr<Connector> connector_;
  std::shared_ptr<FramedSocket> socket_;
  control::DaemonHeartbeat counters_;
  const std::uint64_t who_;  // of this daemon alone
  std::uint64_t attempts_ = 0;
  Duration pause_;
  Duration heartbeat_{};
  Duration detect_{};
  TimePoint heard_{};
  control::ClockSample echo_;  // the master's newest, at clock_at_
  TimePoint clock_at_{};
  TimePoint next_heartbeat_{};
  std::uint32_t term_ = 0;  // of the master followed last
  std::uint64_t instance_ = 0;
  std::size_t at_ = 0;           // in the addresses
  std::set<std::size_t> tried_;  // in this round
  std::string hint_;             // the leader, by the last refusal; empty: it named none
  std::optional<Status> why_;    // the failure of this round that says most
  bool up_ = false;
  bool stopped_ = false;
};

}  // namespace ringway::net
