// A stream that shakes hands before its first byte, as TLS does: each end sends kHandshakeBytes and hears as many.
// Until then a Read may have to wait for room and a Write for bytes.
#pragma once

#include <array>
#include <asio/post.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "proto/stream/stream.h"

namespace ringway::net {

class HandshakingStream final : public Stream {
 public:
  static constexpr std::size_t kHandshakeBytes = 20;

  explicit HandshakingStream(std::unique_ptr<Stream> inner) : inner_(std::move(inner)) {}

  Status Attach(asio::io_context& loop) override {
    loop_ = &loop;
    return inner_->Attach(loop);
  }
  void Detach() override {
    inner_->Detach();
    relay_ = std::make_shared<Relay>();
    loop_ = nullptr;
  }
  StreamIo Write(WriteParts from) override {
    StreamIo hands = Shake();
    if (hands.kind != StreamIo::Kind::kBytes) return hands;
    wants_bytes_ = false;
    return inner_->Write(from);
  }
  void AwaitRead(std::shared_ptr<StreamWaiter> waiter) override {
    Await({.waiter = std::move(waiter), .call = &StreamWaiter::OnReadable}, !shook() && !wants_bytes_);
  }
  void AwaitWrite(std::shared_ptr<StreamWaiter> waiter) override {
    Await({.waiter = std::move(waiter), .call = &StreamWaiter::OnWritable}, shook() || !wants_bytes_);
  }
  StreamPeer peer() const override { return inner_->peer(); }
  StreamPath& path() override { return inner_->path(); }
  std::unique_ptr<StreamPath> SharePath() const override { return inner_->SharePath(); }

 private:
  struct Wait {
    std::shared_ptr<StreamWaiter> waiter;
    void (StreamWaiter::*call)();
  };
  // Waits at the inner stream, once a direction, for all who have to.
  struct Relay final : StreamWaiter {
    void OnReadable() override {
      awaits_bytes = false;
      CallAll(std::exchange(for_bytes, {}));
    }
    void OnWritable() override {
      awaits_room = false;
      CallAll(std::exchange(for_room, {}));
    }
    static void CallAll(const std::vector<Wait>& waits) {
      for (const Wait& wait : waits) (wait.waiter.get()->*wait.call)();
    }
    std::vector<Wait> for_bytes;
    std::vector<Wait> for_room;
    bool awaits_bytes = false;
    bool awaits_room = false;
  };

  bool shook() const { return sent_ == kHandshakeBytes && heard_ == kHandshakeBytes; }
  StreamIo Receive(ReadParts into) override {
    StreamIo hands = Shake();
    return hands.kind == StreamIo::Kind::kBytes ? inner_->Read(into) : hands;
  }
  // kBytes when it is over. The call that ends it has done what the waits of others are for, too.
  StreamIo Shake() {
    if (shook()) return {.kind = StreamIo::Kind::kBytes};
    std::array<std::byte, 1> byte{};
    while (!shook()) {
      wants_bytes_ = sent_ > heard_;
      StreamIo io = wants_bytes_ ? inner_->Read(byte) : inner_->Write(byte);
      if (io.kind != StreamIo::Kind::kBytes) return io;
      (wants_bytes_ ? heard_ : sent_) += io.bytes;
    }
    if (loop_ != nullptr) {
      asio::post(*loop_, [relay = relay_] {
        Relay::CallAll(std::exchange(relay->for_bytes, {}));
        Relay::CallAll(std::exchange(relay->for_room, {}));
      });
    }
    return {.kind = StreamIo::Kind::kBytes};
  }
  void Await(Wait wait, bool for_room) {
    (for_room ? relay_->for_room : relay_->for_bytes).push_back(std::move(wait));
    if (std::exchange(for_room ? relay_->awaits_room : relay_->awaits_bytes, true)) return;
    if (for_room)
      inner_->AwaitWrite(relay_);
    else
      inner_->AwaitRead(relay_);
  }

  std::unique_ptr<Stream> inner_;
  std::shared_ptr<Relay> relay_ = std::make_shared<Relay>();
  asio::io_context* loop_ = nullptr;
  std::size_t sent_ = 0;
  std::size_t heard_ = 0;
  bool wants_bytes_ = false;  // what Shake got stuck at
};

}  // namespace ringway::net
