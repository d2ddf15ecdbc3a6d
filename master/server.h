// The master's sockets: accepts daemons and status clients, carries frames to the coordinator and back.
//
// With a journal, what the coordinator changes is written down before anybody hears of it. While that fails (a full
// disk) the master says so, serves the views there are, and tries again every kJournalRetry.
//
// Bounds: kConnectionsMax connections; each has one frame of input and kQueueBytesMax of output, beyond which it is
// closed; a connection that has not introduced itself within `hello_timeout` is closed.
//
// Threads: the one that runs the io_context. Errors on a connection end that connection only.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "master/coordinator.h"
#include "master/journal.h"
#include "proto/result.h"

namespace ringway {

struct ServerOptions {
  CoordinatorOptions coordinator;
  std::chrono::milliseconds hello_timeout{5000};
  std::unique_ptr<Journal> journal;  // may be null: then a restarted master knows nothing
};

class Server {
 public:
  static constexpr std::size_t kConnectionsMax = 1024;
  static constexpr std::size_t kQueueBytesMax = 16 << 20;
  static constexpr Duration kJournalRetry = std::chrono::milliseconds(500);

  // Begins to accept from `acceptor` when `io` runs.
  Server(asio::io_context& io, ServerOptions options, asio::ip::tcp::acceptor acceptor);
  ~Server();

  // kIo with the reason if the address cannot be had.
  static Result<asio::ip::tcp::acceptor> Listen(asio::io_context& io, const asio::ip::tcp::endpoint& endpoint);
  asio::ip::tcp::endpoint address() const { return acceptor_.local_endpoint(); }
  const Coordinator& coordinator() const { return coordinator_; }
  const Journal* journal() const { return options_.journal.get(); }
  std::size_t connections() const { return sessions_.size(); }

 private:
  class Session;

  // The coordinator's: while this process does not run, no daemon grows silent.
  TimePoint Now() { return clock_.Now(MonotonicNow()); }
  void Accept();
  void OnTick();
  void OnFrame(std::uint64_t id, const control::ToMaster& message);
  control::FromMaster ExplainedPlan(const control::PlanRequest& request) const;
  void OnClosed(std::uint64_t id, const std::string& why);
  void Drain();
  void WriteJournal();
  std::string JournalState() const;
  void LogAction(const control::FromMaster& message);

  asio::io_context& io_;
  const ServerOptions options_;
  Coordinator coordinator_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer tick_;
  asio::steady_timer retry_;
  AttendedClock clock_;
  TimePoint started_ = MonotonicNow();
  std::string journal_error_;  // of the last write; empty: it went well
  TimePoint journal_retry_{};
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::shared_ptr<Session>> sessions_;
};

}  // namespace ringway
