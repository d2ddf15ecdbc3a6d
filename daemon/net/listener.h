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
// The owner sends the LinkReply of an offered connection. Threads: one (control thread). The owner's callback
// lives as long as the Listener.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "proto/bounded_connection_set.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/stream/acceptor.h"
#include "proto/stream/framed_socket.h"
#include "proto/stream/security.h"
#include "proto/stream/socket_options.h"
#include "proto/stream/stream.h"
#include "proto/stream/unique_fd.h"

namespace ringway::net {

// A connection that has sent its LinkHello and waits for the LinkReply.
struct LinkOffer {
  std::unique_ptr<Stream> stream;  // detached
  control::LinkHello hello;
  std::uint32_t version = 0;
};

struct ListenerOptions {
  Duration hello_timeout = std::chrono::seconds(5);
  std::size_t half_open_max = 256;
  std::shared_ptr<Security> security = nullptr;  // null: in the clear
  LinkTuning tuning;                             // lanes and loopback are filled in per connection
};

class Listener {
 public:
  using OnOffer = std::function<void(LinkOffer)>;

  // `fd`: listening and non-blocking.
  Listener(asio::io_context& context, ListenerOptions options, OnOffer on_offer);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  Status Start(UniqueFd fd) { return acceptor_.Start(std::move(fd)); }
  // A connection that was accepted.
  void Take(std::unique_ptr<Stream> stream);
  void SetDetectMs(std::uint32_t detect_ms) { options_.tuning.detect_ms = detect_ms; }
  std::size_t half_open() const { return half_open_.size(); }
  // Connections that were closed without an offer, for status and tests.
  std::uint64_t dropped() const { return dropped_; }

 private:
  class HalfOpen;
  void Drop(std::uint64_t id);
  Status OnHello(std::uint64_t id, std::span<const std::byte> frame);

  asio::io_context& context_;
  ListenerOptions options_;
  OnOffer on_offer_;
  Acceptor acceptor_;
  BoundedConnectionSet by_source_;  // the ids of `half_open_`, which it outlives
  std::map<std::uint64_t, std::unique_ptr<HalfOpen>> half_open_;
  std::uint64_t next_id_ = 1;
  std::uint64_t dropped_ = 0;
  std::shared_ptr<Listener*> alive_;  // what queued handlers hold; null inside once this object is gone
};

}  // namespace ringway::net
