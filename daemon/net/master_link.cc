#include "daemon/net/master_link.h"

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "proto/frame_codec.h"
#include "proto/hash.h"
#include "proto/jitter.h"

namespace ringway::net {
namespace {

constexpr std::size_t kQueueBytesMax = 16 << 20;
constexpr std::uint32_t kHeartbeatMsMin = 10;
constexpr std::uint32_t kHeartbeatMsMax = 60'000;

}  // namespace

MasterLink::MasterLink(asio::io_context& context, MasterLinkOptions options, MasterSink* sink)
    : context_(context),
      clock_(Clock::Of(context)),
      options_(std::move(options)),
      sink_(sink),
      timer_(context),
      who_(Hash64(std::as_bytes(std::span(options_.hello.name())))),
      pause_(options_.pause_min) {}

MasterLink::~MasterLink() { Stop(); }

void MasterLink::Start() {
  ConnectOptions connect{.address = address(),
                         .timeout = AttemptTimeout(),
                         .allow_remote = options_.allow_remote,
                         .security = options_.security,
                         .whom = {.role = ProcessRole::kMaster, .name = {}},
                         .tuning = {}};
  connector_ = std::make_shared<Connector>(context_, std::move(connect));
  connector_->Start([this](Result<Connection> connected) { OnConnected(std::move(connected)); });
}

void MasterLink::Stop() {
  stopped_ = true;
  timer_.Cancel();
  if (connector_ != nullptr) connector_->Cancel();
  if (socket_ != nullptr) socket_->Close();
  up_ = false;
}

void MasterLink::OnConnected(Result<Connection> connected) {
  connector_ = nullptr;
  if (!connected.ok()) return Lost(connected.status());
  socket_ = std::make_shared<FramedSocket>(context_, kQueueBytesMax);
  socket_->Start(std::move(connected.value().stream), this);
  control::ToMaster message;
  *message.mutable_hello() = options_.hello;
  socket_->Queue(message);
  socket_->Flush();
  timer_.After(AttemptTimeout(), [this] { OnNoAnswer(); });
}

void MasterLink::OnNoAnswer() {
  Lost(Status(Code::kMasterUnreachable, address() + " does not answer: is it a ringway-master?"));
}

void MasterLink::Send(const control::ToMaster& message) {
  if (!up_) return;
  socket_->Queue(message);
  socket_->Flush();
}

void MasterLink::Break(const std::string& why) {
  if (up_) Lost(Status(Code::kMasterUnreachable, why));
}

Status MasterLink::OnFrame(std::span<const std::byte> frame) {
  control::FromMaster message;
  if (Status status = ParseFrame(frame, message); !status.ok()) return status;
  heard_ = clock_.Now();
  if (!up_) return OnFirst(message);
  switch (message.kind_case()) {
    case control::FromMaster::kHeartbeat:
      echo_ = message.heartbeat().clock();
      clock_at_ = heard_;
      return Status::Ok();
    case control::FromMaster::kRefusal:
      return {FailureFromWire(message.refusal().code()), message.refusal().text()};
    case control::FromMaster::kHelloReply:
    case control::FromMaster::KIND_NOT_SET:
      return {Code::kProtocol, "the master sent a message that has no place here"};
    default:
      return sink_->OnMasterMessage(std::move(message));
  }
}

Status MasterLink::OnFirst(const control::FromMaster& message) {
  if (message.has_refusal()) {
    hint_ = message.refusal().leader();
    Lost(Status(FailureFromWire(message.refusal().code(), Code::kJoinRefused),
                "the master at " + address() + " refuses this daemon: " + message.refusal().text()));
    return Status::Ok();
  }
  if (!message.has_hello_reply()) return {Code::kProtocol, "the master's first message is no answer to the hello"};
  const control::HelloReply& reply = message.hello_reply();
  if (!kProtocolVersions.Has(reply.version())) {
    return {Code::kVersionMismatch, "the master chose protocol version " + std::to_string(reply.version())};
  }
  if (Status status = CheckTerm(reply); !status.ok()) {
    Lost(status);
    return Status::Ok();
  }
  heartbeat_ = std::chrono::milliseconds(std::clamp(reply.heartbeat_ms(), kHeartbeatMsMin, kHeartbeatMsMax));
  detect_ = std::max<Duration>(std::chrono::milliseconds(reply.detect_ms()), 2 * heartbeat_);
  up_ = true;
  echo_ = {};  // of another process's clock
  pause_ = options_.pause_min;
  next_heartbeat_ = heard_ + heartbeat_;
  ArmHeartbeat();
  sink_->OnMasterUp(reply);
  return Status::Ok();
}

Status MasterLink::CheckTerm(const control::HelloReply& reply) {
  const bool same = reply.term() == term_ && reply.instance() == instance_;
  if (reply.term() <= term_ && !same) {
    return {Code::kMasterUnreachable,
            "the master has term " + std::to_string(reply.term()) + " and does not continue the one of term " +
                std::to_string(term_) +
                " that this daemon follows: start it with that one's --journal; if that is lost, stop all daemons, "
                "then start them again"};
  }
  term_ = reply.term();
  instance_ = reply.instance();
  return Status::Ok();
}

void MasterLink::ArmHeartbeat() {
  timer_.At(next_heartbeat_, [this] { OnHeartbeat(); });
}

void MasterLink::OnHeartbeat() {
  const TimePoint now = clock_.Now();
  // A gap in this loop is no silence of the master: what waits in the socket is read first.
  if (now - next_heartbeat_ > heartbeat_) heard_ = std::max(heard_, now - detect_ / 2);
  if (now - heard_ > detect_) {
    return Lost(
        Status(Code::kMasterUnreachable, "silent for " + std::to_string((now - heard_).count() / 1000) + " ms"));
  }
  control::ToMaster message;
  *message.mutable_heartbeat() = counters_;
  control::ClockSample& clock = *message.mutable_heartbeat()->mutable_clock();
  clock.set_sent_us(now.time_since_epoch().count());
  clock.set_echo_us(echo_.sent_us());
  clock.set_held_us((now - clock_at_).count());
  next_heartbeat_ = now + heartbeat_;
  ArmHeartbeat();
  Send(message);
}

void MasterLink::OnClosed(const std::string& why) {
  const bool plain = !up_ && options_.security == nullptr;
  Lost(Status(Code::kMasterUnreachable,
              why + (plain ? "; if the master has certificates, give --tls-dir here, too" : "")));
}

// Where there are several, the others are to be asked soon, also if one's host is gone.
Duration MasterLink::AttemptTimeout() const {
  return options_.addresses.size() == 1 ? options_.attempt_timeout : options_.attempt_timeout / 3;
}

// Each once in a round, or two that name each other would keep it from a third.
bool MasterLink::TurnToNext() {
  const auto& all = options_.addresses;
  tried_.insert(at_);
  const bool is_round = tried_.size() == all.size();
  if (is_round) tried_.clear();
  const auto hinted = std::find(all.begin(), all.end(), std::exchange(hint_, ""));
  const auto at = static_cast<std::size_t>(hinted - all.begin());
  if (hinted != all.end() && !tried_.contains(at)) {
    at_ = at;
  } else {
    do {
      at_ = (at_ + 1) % all.size();
    } while (tried_.contains(at_));
  }
  return is_round;
}

void MasterLink::Lost(const Status& why) {
  if (socket_ != nullptr) socket_->Close();
  const bool was_up = std::exchange(up_, false);
  if (stopped_) return;
  // That another one leads says less than why that one cannot be reached.
  const bool only_stands_by = !hint_.empty();
  if (!why_ || !only_stands_by) why_ = why;
  if (was_up) tried_.clear();
  const bool is_round = TurnToNext();
  // A master that is back is not to meet all daemons in the same moment.
  const Duration pause = is_round || was_up ? pause_ : options_.pause_min;
  const Duration half = pause / 2;
  timer_.After(half + Jitter(who_, ++attempts_, half), [this] { Start(); });
  if (is_round) pause_ = std::min(pause_ * 2, options_.pause_max);
  if (was_up) {
    why_.reset();
    return sink_->OnMasterDown(why.text());
  }
  if (is_round) sink_->OnMasterRefused(*std::exchange(why_, std::nullopt));
}

}  // namespace ringway::net
