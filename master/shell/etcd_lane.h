// Carries requests to etcd, one after the other, on a thread of its own.
//
//   Ask --> queue (kQueueMax; one more fails at once) --> HTTP --> the reply is posted to the loop
//
// It stays with the endpoint that answers; after a failure the next request goes to the next endpoint, and in the next
// round to the next address of its name.
// A call ends when its time is over, whatever the other end or a name server does: Tick shuts its socket down.
// An answer has EtcdAnswerBytesMax at most.
//
// Threads: the loop's, and its own. The loop never calls the HTTP client, which is locked for as long as a connection
// and its handshake take. Replies come in turns of the loop, and none after the end.
#pragma once

#include <asio/io_context.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "master/leadership/kv.h"
#include "master/shell/etcd_json.h"
#include "proto/clock.h"
#include "proto/endpoint.h"
#include "proto/result.h"
#include "proto/stream/unique_fd.h"

namespace httplib {
class ClientImpl;
}

namespace ringway {

struct EtcdOptions {
  std::vector<Endpoint> endpoints;  // not empty
  std::string prefix = "/ringway/";
  std::string ca, cert, key;  // files; no `ca`: plain; no `cert`: the server alone shows one
  std::string user, password;
};

class EtcdLane {
 public:
  static constexpr std::size_t kQueueMax = 8;

  // `answer_within`: of each request, from Ask on.
  EtcdLane(asio::io_context& io, EtcdOptions options, Duration answer_within,
           std::function<void(const kv::Reply&)> on_reply);
  // Carries out what waits for at most `answer_within`.
  ~EtcdLane();
  EtcdLane(const EtcdLane&) = delete;
  EtcdLane& operator=(const EtcdLane&) = delete;

  void Ask(kv::Request request);
  // To be called every 50 ms or so.
  void Tick();

 private:
  struct Job {
    kv::Request request;
    TimePoint deadline;
  };
  struct Answer {
    int http = 0;
    std::string body;
  };

  void Run();
  kv::Reply Carry(const Job& job);
  Result<kv::Reply> TryOnce(const Job& job);
  Result<Answer> Post(const EtcdCall& call, std::size_t bytes_max, TimePoint deadline);
  Status LogIn(TimePoint deadline);
  // Connects client_ to the present endpoint, unless it is.
  Status Dial(TimePoint deadline);
  // Returns an address of the present endpoint's host.
  Result<std::string> LookUp(TimePoint deadline) const;
  void Watch(int socket);
  void UseNext();
  void ShutOverdue(TimePoint now);
  void Deliver(kv::Reply reply);
  std::string Where() const { return ToString(options_.endpoints[endpoint_]); }

  asio::io_context& io_;
  const EtcdOptions options_;
  const Duration answer_within_;
  const std::shared_ptr<std::function<void(const kv::Reply&)>> on_reply_;  // posted replies hold it weakly

  // The thread's.
  std::size_t endpoint_ = 0;
  std::size_t round_ = 0;  // of the endpoints
  std::unique_ptr<httplib::ClientImpl> client_;
  std::string token_;  // of this user at etcd

  std::mutex mutex_;  // of all below
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  // A duplicate of the client's socket, so that its number is nobody else's. Open from the start: there is a descriptor
  // for it even where the process has no more.
  const net::UniqueFd socket_;
  std::optional<TimePoint> overdue_at_;  // of the call under way
  bool ends_ = false;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace ringway
