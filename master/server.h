// The master's sockets: accepts daemons and status clients, carries frames to the coordinator and back.
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

#include "master/coordinator.h"
#include "proto/result.h"

namespace ringway {

struct ServerOptions {
  CoordinatorOptions coordinator;
  std::chrono::milliseconds hello_timeout{5000};
};

class Server {
 public:
  static constexpr std::size_t kConnectionsMax = 1024;
  static constexpr std::size_t kQueueBytesMax = 16 << 20;

  Server(asio::io_context& io, const ServerOptions& options);
  ~Server();

  // Binds and starts to accept. kIo with the reason if the address cannot be had.
  Status Listen(const asio::ip::tcp::endpoint& endpoint);
  asio::ip::tcp::endpoint address() const { return acceptor_.local_endpoint(); }
  const Coordinator& coordinator() const { return coordinator_; }
  std::size_t connections() const { return sessions_.size(); }

 private:
  class Session;

  void Accept();
  void OnTick();
  void OnFrame(std::uint64_t id, const control::ToMaster& message);
  void OnClosed(std::uint64_t id, const std::string& why);
  void Drain();

  asio::io_context& io_;
  const ServerOptions options_;
  Coordinator coordinator_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer tick_;
  asio::steady_timer retry_;
  TimePoint started_ = MonotonicNow();
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::shared_ptr<Session>> sessions_;
};

}  // namespace ringway
