#include "daemon/net/listener.h"

#include <sys/socket.h>

#include <asio/post.hpp>
#include <cerrno>
#include <utility>

#include "proto/frame_codec.h"
#include "proto/lane_roles.h"
#include "proto/stream/address.h"

namespace ringway::net {
namespace {

constexpr std::size_t kReplyBytesMax = 64 * 1024;
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);
constexpr int kAcceptsATurn = 64;

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
  HalfOpen(Listener& listener, std::uint64_t id, UniqueFd fd, std::string source)
      : listener_(listener),
        id_(id),
        source_(std::move(source)),
        socket_(std::make_shared<FramedSocket>(listener.context_, kReplyBytesMax)),
        timer_(listener.context_) {
    timer_.expires_after(listener.options_.hello_timeout);
    // Not `this`: the handler may be queued already when the object goes.
    timer_.async_wait([alive = listener.alive_, id](asio::error_code error) {
      if (!error && *alive != nullptr) (*alive)->Drop(id);
    });
    socket_->Start(std::move(fd), {}, this);
    listener_.crowd_.Add(source_, id_);
  }
  ~HalfOpen() override {
    listener_.crowd_.Remove(source_, id_);
    socket_->Close();
  }
  HalfOpen(const HalfOpen&) = delete;
  HalfOpen& operator=(const HalfOpen&) = delete;

  Status OnFrame(std::span<const std::byte> frame) override { return listener_.OnHello(id_, frame); }
  void OnClosed(const std::string&) override { listener_.Drop(id_); }
  std::string AnswerToVersion1() override {
    std::string frame;
    AppendVersion1Frame(VersionRefusal(), frame);
    return frame;
  }
  FramedSocket& socket() { return *socket_; }
  void StopTimer() { timer_.cancel(); }

 private:
  Listener& listener_;
  std::uint64_t id_;
  const std::string source_;  // the host's address
  std::shared_ptr<FramedSocket> socket_;
  asio::steady_timer timer_;
};

Listener::Listener(asio::io_context& context, ListenerOptions options, OnOffer on_offer)
    : context_(context),
      options_(std::move(options)),
      on_offer_(std::move(on_offer)),
      acceptor_(context),
      retry_(context),
      alive_(std::make_shared<Listener*>(this)) {}

Listener::~Listener() { *alive_ = nullptr; }

Status Listener::Start(UniqueFd fd) {
  asio::error_code error;
  acceptor_.assign(fd.get(), error);
  if (error) return {Code::kIo, "cannot watch the listening socket: " + error.message()};
  (void)fd.Release();
  ArmAccept();
  return Status::Ok();
}

void Listener::ArmAccept() {
  acceptor_.async_wait(asio::posix::stream_descriptor::wait_read, [alive = alive_](asio::error_code error) {
    if (!error && *alive != nullptr) (*alive)->Accept();
  });
}

void Listener::Accept() {
  for (int i = 0; i < kAcceptsATurn; ++i) {
    SocketAddress from;
    from.length = sizeof from.storage;
    UniqueFd fd(::accept4(acceptor_.native_handle(), reinterpret_cast<sockaddr*>(&from.storage), &from.length,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      // Out of descriptors or memory: the backlog holds the others until some are free again.
      retry_.expires_after(kAcceptPause);
      retry_.async_wait([alive = alive_](asio::error_code error) {
        if (!error && *alive != nullptr) (*alive)->Accept();
      });
      return;
    }
    Take(std::move(fd), from);
  }
  ArmAccept();
}

void Listener::Take(UniqueFd fd, const SocketAddress& from) {
  if (crowd_.size() >= options_.half_open_max) Drop(crowd_.Victim());
  const std::uint64_t id = next_id_++;
  const std::string address = ToString(from);
  half_open_.emplace(id, std::make_unique<HalfOpen>(*this, id, std::move(fd), address.substr(0, address.rfind(':'))));
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
  offer.version = *version;
  half_open.StopTimer();
  offer.fd = half_open.socket().Release(offer.rest);
  // The HalfOpen is on the call stack here.
  asio::post(context_, [alive = alive_, id] {
    if (*alive != nullptr) (*alive)->half_open_.erase(id);
  });
  LinkTuning tuning = options_.tuning;
  tuning.lanes = offer.hello.control() ? 1 : SharersOf(offer.hello.lane(), offer.hello.lanes());
  const auto local = LocalAddress(offer.fd.get());
  tuning.loopback = local.ok() && IsLoopback(local.value());
  TuneLink(offer.fd.get(), tuning);
  ChooseCongestion(offer.fd.get(), tuning);
  on_offer_(std::move(offer));
  return Status::Ok();
}

}  // namespace ringway::net
