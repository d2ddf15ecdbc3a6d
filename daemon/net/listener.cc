#include "daemon/net/listener.h"

#include <asio/post.hpp>
#include <utility>

#include "proto/frame_codec.h"
#include "proto/lane_roles.h"
#include "proto/stream/timer.h"

namespace ringway::net {
namespace {

constexpr std::size_t kReplyBytesMax = 64 * 1024;
constexpr std::size_t kOfferBytesMax = 4096;  // it takes less than one KiB

control::LinkReply VersionRefusal() {
  control::LinkReply reply;
  reply.set_code(static_cast<std::uint32_t>(Code::kVersionMismatch));
  reply.set_text("this daemon speaks protocol versions " + std::to_string(kProtocolVersionMin) + " to " +
                 std::to_string(kProtocolVersionMax) + ": install the same release on both");
  return reply;
}

}  // namespace

class Listener::HalfOpen : public FrameSink {
 public:
  HalfOpen(Listener& listener, std::uint64_t id, std::unique_ptr<Stream> stream)
      : listener_(listener),
        id_(id),
        source_(stream->peer().source),
        socket_(std::make_shared<FramedSocket>(listener.context_, kReplyBytesMax)),
        timer_(listener.context_) {
    timer_.After(listener.options_.hello_timeout, [&listener, id] { listener.Drop(id); });
    socket_->Start(std::move(stream), this);
    listener_.by_source_.Add(source_, id_);
  }
  ~HalfOpen() override {
    listener_.by_source_.Remove(source_, id_);
    socket_->Close();
  }
  HalfOpen(const HalfOpen&) = delete;
  HalfOpen& operator=(const HalfOpen&) = delete;

  Status OnFrame(std::span<const std::byte> frame) override { return listener_.OnHello(id_, frame); }
  void OnClosed(const std::string&) override { listener_.Drop(id_); }
  std::size_t FrameBytesMax() const override { return kOfferBytesMax; }
  std::string AnswerToVersion1() override {
    std::string frame;
    AppendVersion1Frame(VersionRefusal(), frame);
    return frame;
  }
  FramedSocket& socket() { return *socket_; }
  void StopTimer() { timer_.Cancel(); }

 private:
  Listener& listener_;
  std::uint64_t id_;
  const std::string source_;
  std::shared_ptr<FramedSocket> socket_;
  Timer timer_;
};

Listener::Listener(asio::io_context& context, ListenerOptions options, OnOffer on_offer)
    : context_(context),
      options_(std::move(options)),
      on_offer_(std::move(on_offer)),
      acceptor_(context, [this](std::unique_ptr<Stream> stream) { Take(std::move(stream)); }),
      alive_(std::make_shared<Listener*>(this)) {}

Listener::~Listener() { *alive_ = nullptr; }

void Listener::Take(std::unique_ptr<Stream> stream) {
  if (by_source_.size() >= options_.half_open_max) Drop(by_source_.Oldest());
  if (options_.security != nullptr) stream = options_.security->Accepted(std::move(stream));
  const std::uint64_t id = next_id_++;
  half_open_.emplace(id, std::make_unique<HalfOpen>(*this, id, std::move(stream)));
}

void Listener::Drop(std::uint64_t id) {
  if (half_open_.erase(id) > 0) ++dropped_;
}

Status Listener::OnHello(std::uint64_t id, std::span<const std::byte> frame) {
  HalfOpen& half_open = *half_open_.at(id);
  LinkOffer offer;
  if (Status status = ParseFrame(frame, offer.hello); !status.ok()) return status;
  const auto version = AgreeVersion(offer.hello.version_min(), offer.hello.version_max());
  if (!version.has_value()) {
    half_open.socket().Queue(VersionRefusal());
    half_open.socket().Flush();
    return {Code::kVersionMismatch, "no common protocol version"};
  }
  if (!offer.hello.control() && (offer.hello.lanes() == 0 || offer.hello.lanes() > kLanesMax)) {
    return {Code::kProtocol, "lane count out of range"};
  }
  const Identity* who = half_open.socket().identity();
  if (who == nullptr && options_.security != nullptr) return {Code::kInternal, "nobody is known at the other end"};
  if (who != nullptr && who->role != ProcessRole::kDaemon) return {Code::kProtocol, ToString(*who) + " is no daemon"};
  offer.version = *version;
  half_open.StopTimer();
  offer.stream = half_open.socket().Release();
  // The HalfOpen is on the call stack here.
  asio::post(context_, [alive = alive_, id] {
    if (*alive != nullptr) (*alive)->half_open_.erase(id);
  });
  LinkTuning tuning = options_.tuning;
  tuning.lanes = offer.hello.control() ? 1 : SharersOf(offer.hello.lane(), offer.hello.lanes());
  offer.stream->path().Tune(tuning);
  on_offer_(std::move(offer));
  return Status::Ok();
}

}  // namespace ringway::net
