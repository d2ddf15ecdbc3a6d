// ringwayd as a whole: its threads and the queues between them.
//
//   control thread                                        data thread
//     master link, listener, dialer, signals, log   -->     DataPlane: peers, lanes, trainers
//                                                   <--     messages to the master, dials, counters, log lines
//
// Only values cross, through two BoundedPosts. When the queue to the data thread is full: links that would be handed
// over are closed, and the connection to the master ends, for its messages may not be lost one by one. When the queue
// to the control thread is full: a message to the master ends that connection too (peers say everything again when it
// is back), a dial fails, counters and log lines are dropped.
//
// Dumps of the flight recorder are written on a thread of their own, at most one waiting: a slow disk delays nobody.
// Other threads know nothing of all this: local::Reclaimer's frees the memory of trainers that have gone; those of
// net::LaneThreads, where there are any, move the bytes of lanes for the data thread.
//
//   start: listen, claim the socket, register; ready when the master has answered, or after 10 s without it. Trainers
//          may come at once; it reports to them what it waits for. The first master's refusal ends it.
//   SIGHUP: read the certificates (TlsKeeper) and the uplink's limit again; without certificates the end, if there is a
//          terminal that may be going
//   SIGUSR1: dump the flight recorder
//   end:   SIGTERM or SIGINT: leave all groups within the grace period; a second signal: at once
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "daemon/local/local_server.h"
#include "daemon/net/bounded_post.h"
#include "daemon/net/dialer.h"
#include "daemon/net/listener.h"
#include "daemon/net/master_link.h"
#include "daemon/runtime/config.h"
#include "daemon/runtime/data_plane.h"
#include "proto/shell/http.h"
#include "proto/shell/notify.h"
#include "proto/shell/tls_keeper.h"
#include "proto/stream/timer.h"

namespace ringway::daemon {

class Daemon final : public net::MasterSink, public DataPlaneSink {
 public:
  explicit Daemon(Config config);
  ~Daemon() override;
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Lives its whole life: runs the control thread's loop on the calling thread. A Status that is not ok: it did not
  // start.
  Status Run();

  // ---- net::MasterSink (control thread)
  void OnMasterUp(const control::HelloReply& reply) override;
  void OnMasterDown(const std::string& why) override;
  void OnMasterRefused(const Status& why) override;
  Status OnMasterMessage(control::FromMaster message) override;
  // ---- DataPlaneSink (data thread)
  void ToMaster(control::ToMaster message) override;
  bool Dial(PeerId self, std::uint64_t serial, net::DialRequest request) override;
  void Keep(net::KeptConnection kept) override;
  std::size_t kept() const override { return *kept_; }
  void SetCounters(control::DaemonHeartbeat counters) override;
  void Log(LogLine line) override;
  void WriteDump(FlightDump dump) override;
  void OnDrained() override;

 private:
  static constexpr std::size_t kQueueMax = 64 * 1024;

  Status Prepare();
  Status ListenLocally();
  // Calls `then` on the control thread after a turn of both loops, so that neither is stuck; never, where a queue is
  // full.
  void Beat(std::function<void()> then);
  Status Listen(net::UniqueFd& fd);
  void Advise();
  void StartMasterLink();
  void ArmSignals();
  void ArmHangUp();
  void Reload();
  void ArmDump();
  void OpenFlight();
  void StartTls();
  Status StartHttp();
  void OnSignal();
  void OnOffer(net::LinkOffer offer);
  void BecomeReady();
  // On the data thread.
  void Serve();
  void Finish(Status outcome);

  Config config_;
  const std::uint64_t instance_;
  std::string bound_;    // what it listens on
  std::string address_;  // what other daemons dial; empty: nothing
  asio::io_context data_context_{1};
  asio::io_context control_context_{1};
  asio::io_context dump_context_{1};
  net::BoundedPost to_data_{data_context_, kQueueMax};
  net::BoundedPost to_control_{control_context_, kQueueMax};
  net::BoundedPost to_dumps_{dump_context_, 1};
  DataPlane data_;
  local::LocalServer server_;  // the data thread's
  std::optional<net::Listener> listener_;
  const std::shared_ptr<std::atomic<std::size_t>> kept_ = std::make_shared<std::atomic<std::size_t>>(0);
  std::optional<net::Dialer> dialer_;
  std::optional<net::MasterLink> master_;
  asio::signal_set signals_;
  asio::signal_set hang_up_;  // where SIGHUP is not the terminal's end
  asio::signal_set dump_;
  std::optional<DumpFiles> dumps_;
  std::optional<shell::TlsKeeper> tls_;
  net::Timer timer_;  // the limit of the start, then of the end
  shell::Heart heart_;
  std::optional<shell::HttpServer> http_;
  std::atomic<bool> to_master_lost_ = false;
  Status outcome_;
  Status last_refusal_ = Status::Ok();
  bool ready_ = false;
  bool registered_ = false;  // a master has taken this daemon
  bool stopping_ = false;
  bool finished_ = false;
};

}  // namespace ringway::daemon
