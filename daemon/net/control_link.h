// The control link of a pair of peers: PeerMessages, in order.
//
//   StreamControl     framed, over a connection to another daemon
//   InProcessControl  within this one (in_process_control.h)
//
// Send only queues; call Flush after a batch. More than 8 MiB unsent closes the link: the other side does not read.
// Unacknowledged messages (daemon/links/control_stream.h) are bounded below that. Threads: one (data thread). The sink
// must live until OnControlClosed or Close.
#pragma once

#include <asio/io_context.hpp>
#include <memory>
#include <span>
#include <string>

#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/stream/framed_socket.h"
#include "proto/stream/stream.h"

namespace ringway::net {

class ControlSink {
 public:
  virtual ~ControlSink() = default;
  // A failure closes the link.
  virtual Status OnControlMessage(PeerId from, const control::PeerMessage& message) = 0;
  // Called once, posted, never from within a call of the link.
  virtual void OnControlClosed(PeerId other, const std::string& why) = 0;
};

class ControlLink {
 public:
  static constexpr std::size_t kQueueBytesMax = 8 << 20;

  virtual ~ControlLink() = default;
  virtual void Send(const control::PeerMessage& message) = 0;
  virtual void Flush() = 0;
  // What was flushed still arrives, if there is room for it.
  virtual void Close() = 0;
};

class StreamControl final : public ControlLink, public FrameSink, public std::enable_shared_from_this<StreamControl> {
 public:
  StreamControl(asio::io_context& context, PeerId other);

  void Start(std::unique_ptr<Stream> stream, ControlSink* sink);
  void Send(const control::PeerMessage& message) override { socket_->Queue(message); }
  void Flush() override { socket_->Flush(); }
  void Close() override;

  Status OnFrame(std::span<const std::byte> frame) override;
  void OnClosed(const std::string& why) override;

 private:
  PeerId other_;
  std::shared_ptr<FramedSocket> socket_;
  ControlSink* sink_ = nullptr;
  control::PeerMessage message_;  // reused: parsing into it keeps its memory
};

}  // namespace ringway::net
