// The daemon's one listening port: accepts connections and reads their LinkHello.
//
//   accepted --LinkHello within hello_timeout, version agreed--> offered to the owner
//            --anything else, or silence--> closed (a version mismatch is answered first)
//
// With `security` the TLS handshake comes first, within the same time; only daemons' certificates are accepted.
//
// At the maximum of half-open connections, the oldest of the host that has the most is closed
// (proto/bounded_connection_set.h), so a flood from one host keeps no peer out.
//
// Connections that ended lanes have left are kept here, for their windows are open and fresh ones take seconds to be as
// fast. Either end may use one for the next lane by sending a LinkHello on it, as on a fresh one; but an end that has
// accepted it only while it can open connections to the other, too: where it cannot, it has to learn so (links/mesh.h).
//
//   kept --LinkHello from the other end--> offered to the owner --refused--> kept again
//        --TakeKept--> the Dialer sends one (where both do at once, both fall back to fresh connections) --likewise
//        --closed, anything else, kKeep, more than kept_max--> closed
//
// None is kept, or used, that was made before the last DropKept, or whose other end's certificate has ended.
//
// Whichever end uses it resets its congestion control first, for bbr would stop to measure the path anew after a rest.
//
// The owner sends the LinkReply of an offered connection. Threads: one (control thread). The owner's callback
// lives as long as the Listener.
#pragma once

#include <asio/io_context.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "proto/bounded_connection_set.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/stream/acceptor.h"
#include "proto/stream/framed_socket.h"
#include "proto/stream/security.h"
#include "proto/stream/socket_options.h"
#include "proto/stream/stream.h"
#include "proto/stream/unique_fd.h"

namespace ringway::net {

// A connection to another daemon, between frames, that no lane uses.
struct KeptConnection {
  std::string daemon;              // at the other end
  LaneId lane;                     // that used it last: its window fits one like it
  std::unique_ptr<Stream> stream;  // detached
};

// A connection that has sent its LinkHello and waits for the LinkReply.
struct LinkOffer {
  std::unique_ptr<Stream> stream;  // detached
  control::LinkHello hello;
  std::uint32_t version = 0;
  std::string daemon = {};  // of a connection that was kept: at its other end
};

struct ListenerOptions {
  Duration hello_timeout = std::chrono::seconds(5);
  std::size_t half_open_max = 256;
  std::size_t kept_max = 1024;
  std::shared_ptr<std::atomic<std::size_t>> kept = nullptr;  // how many are kept is stored here; null: nowhere
  std::shared_ptr<Security> security = nullptr;              // null: in the clear
  LinkTuning tuning;                                         // lanes and loopback are filled in per connection
};

class Listener {
 public:
  using OnOffer = std::function<void(LinkOffer)>;
  static constexpr Duration kKeep = std::chrono::hours(1);
  static constexpr std::size_t kReachedMax = 4096;

  // `fd`: listening and non-blocking.
  Listener(asio::io_context& context, ListenerOptions options, OnOffer on_offer);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  Status Start(UniqueFd fd) { return acceptor_.Start(std::move(fd)); }
  // A connection that was accepted.
  void Take(std::unique_ptr<Stream> stream);
  void Keep(KeptConnection kept);
  // A connection to the daemon was opened, or could not be.
  void OnConnected(const std::string& daemon, bool opened);
  // Returns the newest connection to the daemon that such a lane left and this end may use; null: there is none.
  std::unique_ptr<Stream> TakeKept(const std::string& daemon, LaneId lane);
  // Closes them, and keeps none of those that are used now: who is at their other ends was proven before.
  void DropKept();
  std::size_t kept() const { return kept_.size(); }
  void SetDetectMs(std::uint32_t detect_ms) { options_.tuning.detect_ms = detect_ms; }
  std::size_t half_open() const { return half_open_.size(); }
  // Connections that were closed without an offer, for status and tests.
  std::uint64_t dropped() const { return dropped_; }

 private:
  class HalfOpen;
  using Connections = std::map<std::uint64_t, std::unique_ptr<HalfOpen>>;
  void Drop(std::uint64_t id);
  void ForgetKept(std::uint64_t id);
  void CountKept();
  Status OnHello(std::uint64_t id, std::span<const std::byte> frame);

  asio::io_context& context_;
  ListenerOptions options_;
  OnOffer on_offer_;
  Acceptor acceptor_;
  BoundedConnectionSet by_source_;  // the ids of `half_open_`, which it outlives
  BoundedConnectionSet by_daemon_;  // likewise of `kept_`
  Connections half_open_;
  Connections kept_;
  std::set<std::string> reached_;     // daemons to which the last connection could be opened
  std::uint64_t newest_dropped_ = 0;  // Stream::number; none up to this one is kept
  std::uint64_t next_id_ = 1;
  std::uint64_t dropped_ = 0;
  std::shared_ptr<Listener*> alive_;  // what queued handlers hold; null inside once this object is gone
};

}  // namespace ringway::net
