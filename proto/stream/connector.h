// Opens one TCP connection: resolves HOST:PORT and tries its addresses in turn within one time limit. The remaining
// addresses share the remaining time equally.
//
// Answers exactly once, never from within Start: with an open connection, or with a Status whose text names the address
// and the system's reason: kPeerUnreachable if nothing listens there, kTimeout, or kIo. The handshake of `security`
// happens in the first calls of the stream. Without security non-loopback addresses are refused unless `allow_remote`.
//
// Threads: one. Lifetime: shared, its handlers hold it; after Cancel it never answers.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"
#include "proto/stream/address.h"
#include "proto/stream/security.h"
#include "proto/stream/socket_options.h"
#include "proto/stream/stream.h"
#include "proto/stream/timer.h"

namespace ringway::net {

struct ConnectOptions {
  std::string address;
  Duration timeout = std::chrono::seconds(5);
  bool allow_remote = false;
  std::shared_ptr<Security> security = nullptr;  // null: in the clear
  Identity whom = {};                            // the expected other end; an empty name is any process of the role
  LinkTuning tuning;                             // `loopback` is filled in from the resolved address
};

struct Connection {
  std::unique_ptr<Stream> stream;  // detached
  bool loopback = false;
};

class Connector : public std::enable_shared_from_this<Connector> {
 public:
  using Done = std::function<void(Result<Connection>)>;

  Connector(asio::io_context& context, ConnectOptions options);
  void Start(Done done);
  void Cancel();

 private:
  void OnResolved(Result<std::vector<SocketAddress>> found);
  void TryNext();
  // Starts the turn of the present address.
  void StartTurn();
  void GiveUp(int error);
  void OnWritable();
  void Finish(Result<Connection> outcome);
  Status Failure(const std::string& reason) const;

  asio::io_context& context_;
  ConnectOptions options_;
  Done done_;
  Timer timer_, turn_;
  TimePoint deadline_;
  asio::posix::stream_descriptor socket_;
  std::uint64_t lookup_ = 0;  // in progress; 0: none
  std::vector<SocketAddress> addresses_;
  std::size_t next_ = 0;
  std::string last_error_;
  std::size_t refusals_ = 0;  // addresses where nothing listens
};

// Makes a connection; tests may substitute it.
using Connect = std::function<void(asio::io_context& context, ConnectOptions options, Connector::Done done)>;
void ConnectTcp(asio::io_context& context, ConnectOptions options, Connector::Done done);

}  // namespace ringway::net
