// The control link between two peers of this daemon: messages are posted, not encoded. Likewise at both ends.
//
//   Send --> queued --Flush--> at the other end --posted--> its sink
//
// Threads: that of the loop, on which both peers live. Lifetime: its handlers hold it.
#pragma once

#include <asio/io_context.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "daemon/net/control_link.h"

namespace ringway::net {

class InProcessControl final : public ControlLink, public std::enable_shared_from_this<InProcessControl> {
 public:
  // The end of the peer that is linked to `other`.
  InProcessControl(asio::io_context& context, PeerId other) : context_(context), other_peer_(other) {}

  // Each is the other's other end. Before they start.
  static void Join(const std::shared_ptr<InProcessControl>& a, const std::shared_ptr<InProcessControl>& b) {
    a->other_ = b;
    b->other_ = a;
  }
  void Start(ControlSink* sink) { sink_ = sink; }

  // ---- ControlLink
  void Send(const control::PeerMessage& message) override;
  void Flush() override;
  void Close() override;

 private:
  // What the other end has flushed.
  void Deliver();
  void Fail(const std::string& why);
  void OnOtherClosed(const std::string& why);
  void CloseOther();

  asio::io_context& context_;
  PeerId other_peer_;
  std::weak_ptr<InProcessControl> other_;
  ControlSink* sink_ = nullptr;
  std::vector<control::PeerMessage> queued_;   // here, until the next Flush
  std::vector<control::PeerMessage> arrived_;  // from the other end; a Deliver is posted while there are any
  std::size_t arrived_bytes_ = 0;
};

}  // namespace ringway::net
