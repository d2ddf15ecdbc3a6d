#include "daemon/net/dialer.h"

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "proto/control.pb.h"
#include "proto/stream/framed_socket.h"
#include "proto/stream/timer.h"

namespace ringway::net {
namespace {

constexpr std::size_t kHelloBytesMax = 64 * 1024;
constexpr Duration kKeptReplyMax = std::chrono::seconds(4);  // the other end holds a hello that is early for two

// One connection of a dial, from connecting to its LinkReply. Its timer's handler owns it, and runs from the event loop
// after a cancel too: so it outlives the socket's call into it, and goes with the event loop when that ends first.
class DialAttempt : public FrameSink, public std::enable_shared_from_this<DialAttempt> {
 public:
  using Done = std::function<void(Result<DialedLinks::Link>)>;

  DialAttempt(asio::io_context& context, control::LinkHello hello, std::string address)
      : context_(context), hello_(std::move(hello)), address_(std::move(address)), timer_(context) {}

  void Start(std::unique_ptr<Stream> stream, Duration reply_timeout, Done done) {
    done_ = std::move(done);
    timer_.After(reply_timeout,
                 [self = shared_from_this()] { self->Finish(self->Failure("no answer within the time limit")); });
    socket_ = std::make_shared<FramedSocket>(context_, kHelloBytesMax);
    socket_->Start(std::move(stream), this);
    socket_->Queue(hello_);
    socket_->Flush();
  }
  void Cancel() {
    done_ = nullptr;
    timer_.Cancel();
    if (socket_ != nullptr) socket_->Close();
  }

  Status OnFrame(std::span<const std::byte> frame) override {
    control::LinkHello crossing;
    if (ParseFrame(frame, crossing).ok() && crossing.to() != 0) {
      Finish(Failure("the other end has used the same connection for a link of its own"));
      return Status::Ok();
    }
    control::LinkReply reply;
    if (Status status = ParseFrame(frame, reply); !status.ok()) return status;
    if (reply.code() != 0) {
      const bool unknown = reply.code() == static_cast<std::uint32_t>(Code::kJoinRefused);
      refused_ = socket_->Release();
      Finish(Status(unknown ? Code::kJoinRefused : Code::kPeerUnreachable,
                    address_ + " refuses the link: " + reply.text()));
      return Status::Ok();
    }
    if (!kProtocolVersions.Has(reply.version())) {
      Finish(Failure("it chose a protocol version that was not offered"));
      return Status::Ok();
    }
    Finish(DialedLinks::Link{.lane = {}, .stream = socket_->Release()});
    return Status::Ok();
  }
  void OnClosed(const std::string& why) override { Finish(Failure(why)); }
  // The connection over which the link was refused; null: it was not.
  std::unique_ptr<Stream> TakeRefused() { return std::move(refused_); }

 private:
  Status Failure(const std::string& reason) const {
    return {Code::kPeerUnreachable, "no link to " + address_ + ": " + reason};
  }
  void Finish(Result<DialedLinks::Link> outcome) {
    const Done done = std::exchange(done_, nullptr);
    Cancel();
    if (done) done(std::move(outcome));
  }

  asio::io_context& context_;
  control::LinkHello hello_;
  std::string address_;
  Timer timer_;
  std::shared_ptr<FramedSocket> socket_;
  std::unique_ptr<Stream> refused_;
  Done done_;
};

// All connections of one dial. They own it, it only knows them: what ends them, the event loop's end too, ends it.
class DialGroup : public std::enable_shared_from_this<DialGroup> {
 public:
  DialGroup(asio::io_context& context, DialOptions options, net::Connect connect, DialRequest request,
            Dialer::Done done)
      : context_(context),
        options_(std::move(options)),
        connect_(std::move(connect)),
        request_(std::move(request)),
        done_(std::move(done)) {}

  // The first connection shows the kind of path, and so the number of lanes if that is still open.
  void Start() {
    pair_.lanes = request_.control ? 0 : request_.lanes != 0 ? request_.lanes : options_.lanes;
    const bool open = pair_.lanes == 0 && !request_.control;
    const std::uint32_t lanes = request_.control ? 1 : open ? kLanesRemote : pair_.lanes;
    const LaneId lane = request_.missing.empty() ? LaneId(0) : request_.missing.front();
    if (std::unique_ptr<Stream> kept = TakeKept(lane)) {
      PlanLinks(kept->peer().loopback);
      GreetOnKept(0, std::move(kept));
      return OpenOthers();
    }
    Connect(SharersOf(lane.value, lanes), [self = shared_from_this()](Result<Connection> first) {
      if (!first.ok()) return self->Finish(first.status());
      self->PlanLinks(first.value().loopback);
      self->Greet(0, std::move(first.value().stream), false);
      self->OpenOthers();
    });
  }

 private:
  std::unique_ptr<Stream> TakeKept(LaneId lane) const {
    if (request_.control || request_.daemon.empty() || options_.kept == nullptr) return nullptr;
    return options_.kept->TakeKept(request_.daemon, lane);
  }

  // All but the first.
  void OpenOthers() {
    for (std::size_t i = 1; i < lanes_.size(); ++i) {
      if (std::unique_ptr<Stream> next = TakeKept(lanes_[i]))
        GreetOnKept(i, std::move(next));
      else
        ConnectAndGreet(i);
    }
  }

  void ConnectAndGreet(std::size_t i) {
    Connect(SharersOf(lanes_[i].value, pair_.lanes), [self = shared_from_this(), i](Result<Connection> next) {
      if (!next.ok()) return self->Settle(i, next.status());
      self->Greet(i, std::move(next.value().stream), false);
    });
  }

  void GreetOnKept(std::size_t i, std::unique_ptr<Stream> kept) {
    LinkTuning tuning = options_.tuning;
    tuning.lanes = SharersOf(lanes_[i].value, pair_.lanes);
    kept->path().Tune(tuning);
    Greet(i, std::move(kept), true);
  }

  void PlanLinks(bool loopback) {
    if (pair_.lanes == 0 && !request_.control) pair_.lanes = loopback ? kLanesLoopback : kLanesRemote;
    pair_.lanes_max = options_.lanes != 0 ? pair_.lanes : kLanesMax;
    std::vector<LaneId> lanes = request_.missing;
    if (request_.control) lanes = {LaneId(0)};
    if (lanes.empty()) {
      for (std::uint32_t lane = 0; lane < pair_.lanes; ++lane) lanes.emplace_back(lane);
    }
    open_ = lanes.size();
    lanes_ = std::move(lanes);
  }

  // A connection that was refused was answered.
  void Connect(std::uint32_t lanes, std::function<void(Result<Connection>)> then) {
    if (options_.security != nullptr && request_.daemon.empty()) {
      asio::post(context_, [then, address = request_.address] {
        then(Status(Code::kPeerUnreachable, "the master does not say whose certificate " + address + " has to show"));
      });
      return;
    }
    ConnectOptions connect{.address = request_.address,
                           .timeout = options_.connect_timeout,
                           .allow_remote = options_.allow_remote,
                           .security = options_.security,
                           .whom = {.role = ProcessRole::kDaemon, .name = request_.daemon},
                           .tuning = options_.tuning};
    connect.tuning.lanes = lanes;
    connect_(context_, std::move(connect), [self = shared_from_this(), then](Result<Connection> connected) {
      if (self->options_.kept != nullptr) self->options_.kept->OnConnected(self->request_.daemon, connected.ok());
      const bool refused = !connected.ok() && connected.status().code() == Code::kPeerUnreachable;
      then(refused ? Status(Code::kJoinRefused, connected.status().text()) : std::move(connected));
    });
  }

  void Greet(std::size_t index, std::unique_ptr<Stream> stream, bool is_kept) {
    control::LinkHello hello;
    hello.set_version_min(kProtocolVersionMin);
    hello.set_version_max(kProtocolVersionMax);
    hello.set_group(request_.group);
    hello.set_from(request_.from.value);
    hello.set_to(request_.to.value);
    hello.set_control(request_.control);
    hello.set_lane(lanes_[index].value);
    hello.set_lanes(pair_.lanes);
    hello.set_generation(request_.generation);
    hello.set_all(request_.all);
    hello.set_known(request_.known);
    const auto attempt = std::make_shared<DialAttempt>(context_, std::move(hello), request_.address);
    const Duration limit = is_kept ? std::min(options_.reply_timeout, kKeptReplyMax) : options_.reply_timeout;
    attempt->Start(std::move(stream), limit,
                   [self = shared_from_this(), one = attempt.get(), index, is_kept](Result<DialedLinks::Link> outcome) {
                     if (is_kept && !outcome.ok() && !self->KeepRefused(index, one->TakeRefused()))
                       return self->ConnectAndGreet(index);
                     self->Settle(index, std::move(outcome));
                   });
  }

  // Returns false if it was not refused: there was no answer.
  bool KeepRefused(std::size_t index, std::unique_ptr<Stream> stream) {
    if (stream == nullptr) return false;
    options_.kept->Keep({.daemon = request_.daemon, .lane = lanes_[index], .stream = std::move(stream)});
    return true;
  }

  void Settle(std::size_t index, Result<DialedLinks::Link> outcome) {
    DialedLinks answer{.lanes = pair_.lanes, .lanes_max = pair_.lanes_max, .links = {}};
    answer.last = --open_ == 0;
    if (outcome.ok()) {
      stood_ = true;
      outcome.value().lane = lanes_[index];
      answer.links.push_back(std::move(outcome).value());
    } else if (failure_.ok()) {
      failure_ = outcome.status();
    }
    if (!answer.last) {
      if (!answer.links.empty()) done_(std::move(answer));
      return;
    }
    if (!stood_) return Finish(failure_);
    answer.failure = failure_;
    Finish(std::move(answer));
  }

  void Finish(Result<DialedLinks> outcome) { std::exchange(done_, nullptr)(std::move(outcome)); }

  asio::io_context& context_;
  DialOptions options_;
  net::Connect connect_;
  DialRequest request_;
  Dialer::Done done_;
  struct {
    std::uint32_t lanes = 0, lanes_max = 0;
  } pair_;
  std::vector<LaneId> lanes_;  // that are dialled
  std::size_t open_ = 0;       // connections that neither stand nor have failed
  bool stood_ = false;
  Status failure_ = Status::Ok();
};

}  // namespace

void Dialer::SetDetectMs(std::uint32_t detect_ms) { options_.tuning.detect_ms = detect_ms; }

void Dialer::Dial(DialRequest request, Done done) {
  constexpr Duration kAttemptMin = std::chrono::milliseconds(500);
  DialOptions options = options_;
  if (request.control && request.known && options.tuning.detect_ms != 0) {
    Duration third = std::chrono::milliseconds(options.tuning.detect_ms / 3);
    options.connect_timeout = std::min(options.connect_timeout, std::max(third, kAttemptMin));
    if (options_.security != nullptr) third *= 2;  // the handshake is a round trip more
    options.reply_timeout = std::min(options.reply_timeout, std::max(third, kAttemptMin));
  }
  std::make_shared<DialGroup>(context_, std::move(options), connect_, std::move(request), std::move(done))->Start();
}

}  // namespace ringway::net
