// The Unix socket that trainers connect to.
//
// Bind claims the path: a stale file of a dead daemon is replaced; a live daemon's is an error that names its process.
// Daemons that start at once take turns by a lock on PATH.lock, so one of them gets the path.
// Stop, or the destructor, removes the file, unless another process has put its own there. Or Adopt takes one that
// systemd listens on, which outlives this process: a client that connects between two daemons waits for the next one.
// Threads: one (data thread), but Bind may run before it starts.
#pragma once

#include <sys/types.h>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/local/trainer_session.h"
#include "proto/result.h"
#include "proto/stream/timer.h"
#include "proto/stream/unique_fd.h"

namespace ringway::local {

// Whose the socket's file is, and who may connect.
struct SocketFile {
  mode_t mode = 0666;
  uid_t owner = static_cast<uid_t>(-1);  // the process's
  gid_t group = static_cast<gid_t>(-1);  // likewise
};

class LocalServer {
 public:
  // `host` outlives the server. `limits`: of each session. `memory`: the daemon's budget, of which each session gets a
  // share; null: no limit. `users`: what each user may have; further connections end with kResourceExhausted. Null: the
  // defaults.
  LocalServer(asio::io_context& context, SessionSink* sink, const SessionLimits& limits = {},
              std::shared_ptr<MemoryBudget> memory = nullptr, std::shared_ptr<UserShares> users = nullptr);
  ~LocalServer();
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  // `file`: decides who may be a trainer here.
  Status Bind(const std::string& path, const SocketFile& file);
  // kInvalidArgument if `fd` is no such socket, of another path, or open to more users than `file` says.
  Status Adopt(net::UniqueFd fd, const std::string& path, const SocketFile& file);
  Status Start();
  // Stops accepting and removes the file. Sessions go on.
  void Stop();
  // Removes the file, if it is still the one that Bind made. Any thread, between Bind and Stop.
  void RemoveFile() const;

  std::uint64_t session_count() const { return users_->sessions().used(); }

 private:
  void ArmAccept();
  void AcceptOne();

  asio::io_context& context_;
  SessionSink* sink_;
  SessionLimits limits_;
  std::shared_ptr<MemoryBudget> memory_;
  std::shared_ptr<UserShares> users_;
  std::shared_ptr<PreAuthLimiter> limiter_;
  ReclaimerPtr reclaimer_ = std::make_shared<Reclaimer>();
  std::string path_;
  net::UniqueFd file_;  // what Bind made at path_; keeps its inode number from being used again
  net::UniqueFd bound_;
  asio::posix::stream_descriptor acceptor_;
  net::Timer retry_;
};

}  // namespace ringway::local
