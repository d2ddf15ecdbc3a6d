#include "daemon/net/in_process_control.h"

#include <asio/post.hpp>
#include <iterator>
#include <utility>

namespace ringway::net {

void InProcessControl::Send(const control::PeerMessage& message) {
  if (sink_ != nullptr) queued_.push_back(message);
}

void InProcessControl::Flush() {
  const std::shared_ptr<InProcessControl> other = other_.lock();
  if (other == nullptr || queued_.empty()) return queued_.clear();
  const bool idle = other->arrived_.empty();
  for (const control::PeerMessage& message : queued_) other->arrived_bytes_ += message.ByteSizeLong();
  other->arrived_.insert(other->arrived_.end(), std::make_move_iterator(queued_.begin()),
                         std::make_move_iterator(queued_.end()));
  queued_.clear();
  if (idle) asio::post(context_, [other] { other->Deliver(); });
  if (other->arrived_bytes_ > kQueueBytesMax) Fail("the other end takes nothing");
}

void InProcessControl::Deliver() {
  arrived_bytes_ = 0;
  for (const control::PeerMessage& message : std::exchange(arrived_, {})) {
    if (sink_ == nullptr) return;
    const Status status = sink_->OnControlMessage(other_peer_, message);
    if (sink_ != nullptr && !status.ok()) return Fail(status.text());
  }
}

void InProcessControl::Close() {
  sink_ = nullptr;
  CloseOther();
}

void InProcessControl::Fail(const std::string& why) {
  CloseOther();
  asio::post(context_, [self = shared_from_this(), why] { self->OnOtherClosed(why); });
}

void InProcessControl::CloseOther() {
  const std::shared_ptr<InProcessControl> other = other_.lock();
  other_.reset();
  if (other != nullptr) asio::post(context_, [other] { other->OnOtherClosed("the other end has closed it"); });
}

void InProcessControl::OnOtherClosed(const std::string& why) {
  other_.reset();
  ControlSink* const sink = std::exchange(sink_, nullptr);
  if (sink != nullptr) sink->OnControlClosed(other_peer_, why);
}

}  // namespace ringway::net
