// A store in etcd, which any number of masters share: an Election over two lanes, so that requests about the lease do
// not wait for others.
//
// Threads: the loop's; each lane has one of its own. No call waits for etcd but the destructor, which gives the
// leadership back, for `answer_within` at most.
#pragma once

#include <asio/io_context.hpp>
#include <string>

#include "master/leadership/election.h"
#include "master/leadership/store.h"
#include "master/shell/etcd_lane.h"
#include "proto/stream/timer.h"

namespace ringway {

// Parses etcd://HOST:PORT[,HOST:PORT...][/PREFIX]. Errors: kInvalidArgument.
Result<EtcdOptions> ParseEtcd(const std::string& text);

class EtcdStore final : public Store {
 public:
  EtcdStore(asio::io_context& io, const EtcdOptions& etcd, const ElectionOptions& election);
  ~EtcdStore() override;

  void Start(StoreSink* sink) override;
  std::optional<Status> Write(const std::vector<record::Group>& groups) override;
  // The first failure since a request succeeded: which of the endpoints says what then changes all the time.
  Status Check() override;
  std::string Place() const override;

 private:
  void Tick();
  void OnReply(const kv::Reply& reply);
  void Send();
  void Report();

  const EtcdOptions etcd_;
  StoreSink* sink_ = nullptr;
  Election election_;
  Status failure_;
  net::Timer timer_;
  EtcdLane data_, lease_;
};

}  // namespace ringway
