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

control::LinkReply VersionRefusal(Versions theirs) {
  control::LinkReply reply;
  reply.set_code(static_cast<std::uint32_t>(Code::kVersionMismatch));
  reply.set_text(NoCommonVersion("this daemon", kProtocolVersions, "the other", theirs));
  return reply;
}

}  // namespace

class Listener::HalfOpen : public FrameSink {
 public:
  // `set`: that it is counted in, as one of `source`.
  HalfOpen(Listener& listener, std::uint64_t id, BoundedConnectionSet& set, std::string source)
      : listener_(listener),
        id_(id),
        set_(set),
        source_(std::move(source)),
        socket_(std::make_shared<FramedSocket>(listener.context_, kReplyBytesMax)),
        timer_(listener.context_) {
    set_.Add(source_, id_);
  }
  ~HalfOpen() override {
    set_.Remove(source_, id_);
    socket_->Close();
  }
  void Start(std::unique_ptr<Stream> stream, Duration limit) {
    accepted_ = stream->accepted();
    timer_.After(limit, [&listener = listener_, id = id_] { listener.Drop(id); });
    socket_->Start(std::move(stream), this);
  }
  HalfOpen(const HalfOpen&) = delete;
  HalfOpen& operator=(const HalfOpen&) = delete;

  Status OnFrame(std::span<const std::byte> frame) override { return listener_.OnHello(id_, frame); }
  void OnClosed(const std::string&) override { listener_.Drop(id_); }
  std::size_t FrameBytesMax() const override { return kOfferBytesMax; }
  std::string AnswerToVersion1() override {
    std::string frame;
    AppendVersion1Frame(VersionRefusal({1, 1}), frame);
    return frame;
  }
  FramedSocket& socket() { return *socket_; }
  bool IsUsable() const { return socket_->open() && socket_->IsProven(); }
  bool accepted() const { return accepted_; }
  const std::string& source() const { return source_; }
  void StopTimer() { timer_.Cancel(); }

  LaneId lane;  // of a connection that is kept

 private:
  Listener& listener_;
  std::uint64_t id_;
  BoundedConnectionSet& set_;
  const std::string source_;
  std::shared_ptr<FramedSocket> socket_;
  Timer timer_;
  bool accepted_ = true;
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
  stream->SetAccepted();
  const std::uint64_t id = next_id_++;
  const auto added = half_open_.emplace(id, std::make_unique<HalfOpen>(*this, id, by_source_, stream->peer().source));
  added.first->second->Start(std::move(stream), options_.hello_timeout);
}

void Listener::Drop(std::uint64_t id) {
  dropped_ += half_open_.erase(id);
  ForgetKept(id);
}

void Listener::ForgetKept(std::uint64_t id) {
  (void)kept_.erase(id);
  CountKept();
}

void Listener::CountKept() {
  if (options_.kept != nullptr) *options_.kept = kept_.size();
}

void Listener::Keep(KeptConnection kept) {
  if (options_.kept_max == 0 || kept.stream->number() <= newest_dropped_ || !kept.stream->IsProven()) return;
  if (kept_.size() >= options_.kept_max) Drop(by_daemon_.Oldest());
  const std::uint64_t id = next_id_++;
  HalfOpen& added =
      *kept_.emplace(id, std::make_unique<HalfOpen>(*this, id, by_daemon_, std::move(kept.daemon))).first->second;
  added.lane = kept.lane;
  CountKept();
  added.Start(std::move(kept.stream), kKeep);
}

void Listener::OnConnected(const std::string& daemon, bool opened) {
  if (!opened) {
    reached_.erase(daemon);
  } else if (!daemon.empty() && reached_.insert(daemon).second && reached_.size() > kReachedMax) {
    reached_ = {daemon};
  }
}

std::unique_ptr<Stream> Listener::TakeKept(const std::string& daemon, LaneId lane) {
  for (auto newest = kept_.rbegin(); newest != kept_.rend(); ++newest) {
    HalfOpen& one = *newest->second;
    if (one.lane != lane || one.source() != daemon || !one.IsUsable()) continue;
    if (one.accepted() && !reached_.contains(daemon)) continue;
    std::unique_ptr<Stream> stream = one.socket().Release();
    stream->path().Renew();
    Drop(newest->first);
    return stream;
  }
  return nullptr;
}

void Listener::DropKept() {
  kept_.clear();
  CountKept();
  newest_dropped_ = Stream::newest_number();
}

Status Listener::OnHello(std::uint64_t id, std::span<const std::byte> frame) {
  const auto fresh = half_open_.find(id);
  const bool is_kept = fresh == half_open_.end();
  HalfOpen& half_open = is_kept ? *kept_.at(id) : *fresh->second;
  LinkOffer offer;
  if (is_kept) offer.daemon = half_open.source();
  if (is_kept && !half_open.socket().IsProven()) return {Code::kProtocol, "the certificate of its other end has ended"};
  if (Status status = ParseFrame(frame, offer.hello); !status.ok()) return status;
  const Versions theirs{offer.hello.version_min(), offer.hello.version_max()};
  const auto version = AgreeVersion(kProtocolVersions, theirs);
  if (!version.has_value()) {
    half_open.socket().Queue(VersionRefusal(theirs));
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
    if (*alive == nullptr) return;
    (*alive)->half_open_.erase(id);
    (*alive)->ForgetKept(id);
  });
  LinkTuning tuning = options_.tuning;
  tuning.lanes = offer.hello.control() ? 1 : SharersOf(offer.hello.lane(), offer.hello.lanes());
  offer.stream->path().Tune(tuning);
  if (is_kept) offer.stream->path().Renew();
  on_offer_(std::move(offer));
  return Status::Ok();
}

}  // namespace ringway::net
