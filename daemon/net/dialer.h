// Opens links to another daemon's port: one control link, or the missing lanes of a pair at once.
//
//   each connection:  connect (5 s) --> LinkHello --> LinkReply (5 s) --> established
//   where one was kept by an earlier lane (listener.h):  LinkHello --> LinkReply (2 s) --> established
//                                                                  --anything else--> connect, as above
//
// Each connection is delivered as soon as it is established, because the other side uses it from then on. The last
// answer (`last`) comes when no attempt is pending, with the first failure; if no connection was established, it is the
// only answer. The callback never runs within Dial. The failure is kJoinRefused if the other end answered that it has
// no such peer, or if nothing listens there. Threads: one (control thread).
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/net/listener.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/lane_roles.h"
#include "proto/result.h"
#include "proto/stream/connector.h"
#include "proto/stream/socket_options.h"
#include "proto/stream/stream.h"

namespace ringway::net {

struct DialOptions {
  Duration connect_timeout = std::chrono::seconds(5);
  Duration reply_timeout = std::chrono::seconds(5);
  bool allow_remote = false;
  std::shared_ptr<Security> security = nullptr;
  std::uint32_t lanes = 0;  // of a pair; 0: kLanesLoopback or kLanesRemote by the path
  LinkTuning tuning;
  Listener* kept =
      nullptr;  // keeps connections that lanes may use first, and outlives every dial; null: there are none
};

struct DialRequest {
  std::string group;
  PeerId from;
  PeerId to;
  std::string address;
  std::string daemon;  // whose it is; empty: not known
  bool control = false;
  bool all = false;              // LinkHello
  std::uint32_t lanes = 0;       // of the pair; 0: by the options or the path, and all are missing
  std::vector<LaneId> missing;   // of lanes
  std::uint64_t generation = 0;  // of those
  bool known = false;            // LinkHello
};

// Open connections of one dial that were not handed over before.
struct DialedLinks {
  std::uint32_t lanes = 0;      // first lanes of the pair; 0 with a control link
  std::uint32_t lanes_max = 0;  // most lanes of the pair; at most those that the options fix
  struct Link {
    LaneId lane;
    std::unique_ptr<Stream> stream;  // detached
  };
  std::vector<Link> links;
  bool last = false;              // no more follow
  Status failure = Status::Ok();  // with the last: the first failure
};

class Dialer {
 public:
  using Done = std::function<void(Result<DialedLinks>)>;

  Dialer(asio::io_context& context, DialOptions options, Connect connect = ConnectTcp)
      : context_(context), options_(std::move(options)), connect_(std::move(connect)) {}
  // A control link that broke is dialled several times within the detection time: no attempt takes longer than a third.
  void SetDetectMs(std::uint32_t detect_ms);
  void Dial(DialRequest request, Done done);

 private:
  asio::io_context& context_;
  DialOptions options_;
  Connect connect_;
};

}  // namespace ringway::net
