#include "daemon/net/control_link.h"

#include <utility>

#include "proto/frame_codec.h"

namespace ringway::net {

StreamControl::StreamControl(asio::io_context& context, PeerId other)
    : other_(other), socket_(std::make_shared<FramedSocket>(context, kQueueBytesMax)) {}

void StreamControl::Start(std::unique_ptr<Stream> stream, ControlSink* sink) {
  sink_ = sink;
  socket_->Start(std::move(stream), this);
}

void StreamControl::Close() {
  sink_ = nullptr;
  socket_->Close();
}

Status StreamControl::OnFrame(std::span<const std::byte> frame) {
  const auto self = shared_from_this();  // the sink may drop this link from within its call
  if (Status status = ParseFrame(frame, message_); !status.ok()) return status;
  message_.DiscardUnknownFields();  // a kept copy has known fields only
  if (message_.kind_case() == control::PeerMessage::KIND_NOT_SET) {
    return {Code::kProtocol, "a peer message of an unknown kind"};
  }
  return sink_->OnControlMessage(other_, message_);
}

void StreamControl::OnClosed(const std::string& why) {
  const auto self = shared_from_this();
  ControlSink* sink = std::exchange(sink_, nullptr);
  if (sink != nullptr) sink->OnControlClosed(other_, why);
}

}  // namespace ringway::net
