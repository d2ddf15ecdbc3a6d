#include "tests/e2e/relay_connection.h"

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <asio/write.hpp>
#include <span>
#include <utility>

#include "proto/control.pb.h"

namespace ringway::e2e {
namespace {

using asio::ip::tcp;

constexpr std::byte kTlsHandshake{0x16};

bool Matches(const Flow& rule, const Flow& flow) {
  if (flow.from == Relay::kHidden) return true;
  return (rule.from == 0 || rule.from == flow.from) && (rule.to == 0 || rule.to == flow.to) &&
         (rule.links == Links::kAll || rule.links == flow.links);
}

void Reset(tcp::socket& socket) {
  asio::error_code ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

}  // namespace

RelayConnection::RelayConnection(tcp::socket accepted, RelayRules* rules)
    : near_(std::move(accepted)),
      far_(near_.get_executor()),
      rules_(rules),
      forward_(near_, far_),
      back_(far_, near_) {}

void RelayConnection::Start(const tcp::endpoint& target) { ReadHello(target); }

bool RelayConnection::Carries(const Flow& flow) const {
  return known_ && !closed_ && (Matches(flow, forward_.flow) || Matches(flow, back_.flow));
}

void RelayConnection::Cut() {
  if (std::exchange(closed_, true)) return;
  forward_.timer.cancel();
  back_.timer.cancel();
  Reset(near_);
  Reset(far_);
}

void RelayConnection::Reconsider() {
  if (!open_ || closed_) return;
  for (Pipe* pipe : {&forward_, &back_}) {
    pipe->timer.cancel();
    const auto due = std::chrono::steady_clock::now() + DelayOf(*pipe);
    for (Held& held : pipe->held) held.due = std::min(held.due, due);
    Pump(*pipe);
  }
}

// ---- whose it is

void RelayConnection::ReadHello(const tcp::endpoint& target) {
  near_.async_read_some(asio::buffer(forward_.buffer), [self = shared_from_this(), target](auto error, std::size_t n) {
    if (error) return self->Cut();
    const auto bytes = std::span(self->forward_.buffer).first(n);
    self->hello_bytes_.insert(self->hello_bytes_.end(), bytes.begin(), bytes.end());
    if (self->hello_bytes_.front() == kTlsHandshake) return self->Hide(target);
    if (!self->reader_.Feed(bytes).ok()) return self->Cut();
    if (!self->KnowsHello()) return self->ReadHello(target);
    self->known_ = true;
    self->Connect(target);
  });
}

void RelayConnection::Hide(const tcp::endpoint& target) {
  forward_.flow = back_.flow = {Relay::kHidden, Relay::kHidden, Links::kAll};
  known_ = true;
  Connect(target);
}

bool RelayConnection::KnowsHello() {
  const auto frame = reader_.Next();
  if (!frame.has_value()) return false;
  control::LinkHello hello;
  if (!ParseFrame(*frame, hello).ok() || hello.to() == 0) {
    hello.Clear();
    hello.set_from(Relay::kDialler);
    hello.set_to(Relay::kDialled);
  }
  forward_.flow = {hello.from(), hello.to(), hello.control() ? Links::kControl : Links::kLanes};
  back_.flow = forward_.flow.Reversed();
  return true;
}

void RelayConnection::Connect(const tcp::endpoint& target) {
  far_.async_connect(target, [self = shared_from_this()](auto error) {
    if (error || self->closed_) return self->Cut();
    asio::error_code ignored;
    self->near_.set_option(tcp::no_delay(true), ignored);
    self->far_.set_option(tcp::no_delay(true), ignored);
    self->open_ = true;
    self->Hold(self->forward_, std::move(self->hello_bytes_));
    self->Pump(self->forward_);
    self->Pump(self->back_);
  });
}

// ---- the rules

bool RelayConnection::InBlackHole(const Pipe& pipe) const {
  return std::any_of(rules_->black_holes.begin(), rules_->black_holes.end(),
                     [&](const Flow& rule) { return Matches(rule, pipe.flow); });
}

std::chrono::milliseconds RelayConnection::DelayOf(const Pipe& pipe) const {
  std::chrono::milliseconds longest(0);
  for (const auto& rule : rules_->slowed) {
    if (Matches(rule.flow, pipe.flow)) longest = std::max(longest, rule.delay);
  }
  return longest;
}

void RelayConnection::CorruptIn(const Pipe& pipe, std::vector<std::byte>& bytes) {
  auto& corruption = rules_->corruption;
  if (!corruption.has_value() || !Matches(corruption->flow, pipe.flow)) return;
  // The first connection that carries the flow is the one: the rule now means its link alone.
  corruption->flow = pipe.flow;
  if (corruption->skip >= bytes.size()) {
    corruption->skip -= bytes.size();
    return;
  }
  bytes[corruption->skip] ^= std::byte{0x10};
  corruption.reset();
  ++rules_->corrupted_bytes;
}

void RelayConnection::AddNoise(const Pipe& pipe, std::vector<std::byte>& bytes) {
  for (RelayRules::Noise& noise : rules_->noises) {
    if (!Matches(noise.flow, pipe.flow)) continue;
    for (; noise.left < bytes.size(); noise.left += noise.one_of) {
      bytes[noise.left] ^= std::byte{0x04};
      ++rules_->corrupted_bytes;
    }
    noise.left -= bytes.size();
  }
}

// ---- the pipes

void RelayConnection::Hold(Pipe& pipe, std::vector<std::byte> bytes) {
  CorruptIn(pipe, bytes);
  pipe.held_bytes += bytes.size();
  pipe.held.push_back({std::chrono::steady_clock::now() + DelayOf(pipe), std::move(bytes)});
}

void RelayConnection::Pump(Pipe& pipe) {
  if (closed_ || InBlackHole(pipe)) return;
  ReadMore(pipe);
  WriteMore(pipe);
  PassOnEnd(pipe);
}

// A read that is under way when a black hole opens keeps what it gets, in `held`.
void RelayConnection::ReadMore(Pipe& pipe) {
  if (pipe.reading || pipe.ended || pipe.held_bytes >= Relay::kHeldBytesMax) return;
  pipe.reading = true;
  pipe.source.async_read_some(asio::buffer(pipe.buffer), [self = shared_from_this(), &pipe](auto error, std::size_t n) {
    pipe.reading = false;
    if (self->closed_) return;
    if (error && error != asio::error::eof) return self->Cut();
    pipe.ended = bool(error);
    std::vector<std::byte> bytes(pipe.buffer.begin(), pipe.buffer.begin() + static_cast<std::ptrdiff_t>(n));
    self->AddNoise(pipe, bytes);
    if (n > 0) self->Hold(pipe, std::move(bytes));
    self->Pump(pipe);
  });
}

void RelayConnection::WriteMore(Pipe& pipe) {
  if (pipe.writing || pipe.held.empty()) return;
  pipe.writing = true;
  pipe.timer.expires_at(pipe.held.front().due);
  pipe.timer.async_wait([self = shared_from_this(), &pipe](auto) {
    pipe.writing = false;
    if (self->closed_ || self->InBlackHole(pipe)) return;
    if (std::chrono::steady_clock::now() < pipe.held.front().due) return self->WriteMore(pipe);
    pipe.writing = true;
    asio::async_write(pipe.sink, asio::buffer(pipe.held.front().bytes), [self, &pipe](auto error, std::size_t n) {
      pipe.writing = false;
      if (self->closed_) return;
      if (error) return self->Cut();
      pipe.held_bytes -= n;
      pipe.held.pop_front();
      self->Pump(pipe);
    });
  });
}

void RelayConnection::PassOnEnd(Pipe& pipe) {
  if (!pipe.ended || !pipe.held.empty() || std::exchange(pipe.end_passed_on, true)) return;
  asio::error_code ignored;
  pipe.sink.shutdown(tcp::socket::shutdown_send, ignored);
  if (!forward_.end_passed_on || !back_.end_passed_on) return;
  closed_ = true;
  near_.close(ignored);
  far_.close(ignored);
}

}  // namespace ringway::e2e
