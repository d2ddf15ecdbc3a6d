// Accepts connections: each is delivered as a detached Stream (stream.h) without Nagle's delay, unread.
//
// When descriptors or memory run out, `on_shortage` may make room; otherwise the others wait in the backlog until a
// pause is over.
//
// Threads: one. The callbacks live as long as this, and never destroy it.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>

#include "proto/result.h"
#include "proto/stream/stream.h"
#include "proto/stream/timer.h"
#include "proto/stream/unique_fd.h"

namespace ringway::net {

class Acceptor {
 public:
  using OnAccepted = std::function<void(std::unique_ptr<Stream>)>;
  // Returns whether it has made room.
  using OnShortage = std::function<bool(const std::string& why)>;

  Acceptor(asio::io_context& context, OnAccepted on_accepted, OnShortage on_shortage = {});
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // `fd`: listening and non-blocking. Once.
  Status Start(UniqueFd fd);

 private:
  void Arm();
  void Accept();

  OnAccepted on_accepted_;
  OnShortage on_shortage_;
  asio::posix::stream_descriptor socket_;
  Timer retry_;
  std::shared_ptr<Acceptor*> alive_;  // what queued handlers hold; null inside once this object is gone
};

}  // namespace ringway::net
