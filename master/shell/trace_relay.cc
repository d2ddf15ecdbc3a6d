#include "master/shell/trace_relay.h"

#include <algorithm>
#include <utility>

#include "proto/frame_codec.h"

namespace ringway {
namespace {

constexpr std::size_t kImageBytesMax = kFrameBytesMax - 4096;  // room for the enclosing message

TraceRelay::Message Refusal(TraceRelay::Connection client, const Status& why) {
  TraceRelay::Message out{.to = client, .message = {}};
  out.message.mutable_trace_reply()->set_code(static_cast<std::uint32_t>(why.code()));
  out.message.mutable_trace_reply()->set_text(why.text());
  return out;
}

}  // namespace

TraceRelay::Message TraceRelay::Ask(Connection client, const control::TraceRequest& request,
                                    const Result<Connection>& daemon, TimePoint now) {
  if (!daemon.ok()) return Refusal(client, daemon.status());
  if (!clocks_.contains(daemon.value())) {
    return Refusal(client, Status(Code::kNotSupported, "daemon " + request.daemon() +
                                                           " has sent no time yet: ask again in a second, or install "
                                                           "the master's release there"));
  }
  if (pending_.contains(daemon.value())) {
    return Refusal(client, Status(Code::kResourceExhausted, "daemon " + request.daemon() +
                                                                " still sends the trace asked for before: ask again "
                                                                "in a second"));
  }
  if (waiting() >= kPendingMax)
    return Refusal(client, Status(Code::kResourceExhausted, "too many traces are asked for: ask again in a second"));
  const std::uint64_t number = next_number_++;
  pending_[daemon.value()] = {.number = number, .client = client, .due = now + kWait};
  Message out{.to = daemon.value(), .message = {}};
  control::TraceRequest& passed = *out.message.mutable_trace();
  passed = request;
  passed.clear_daemon();
  passed.set_number(number);
  return out;
}

std::optional<TraceRelay::Message> TraceRelay::OnPart(Connection daemon, const control::TracePart& part,
                                                      TimePoint now) {
  const auto found = pending_.find(daemon);
  if (found == pending_.end() || found->second.number != part.number()) return std::nullopt;
  const std::optional<Connection> waits = found->second.client;
  pending_.erase(found);
  if (!waits) return std::nullopt;
  const Connection client = *waits;
  if (part.image().size() > kImageBytesMax)
    return Refusal(client, Status(Code::kProtocol, "the daemon sends more than a message holds"));
  Message out{.to = client, .message = {}};
  control::TraceReply& reply = *out.message.mutable_trace_reply();
  reply.set_image(part.image());
  const std::optional<ClockOffset::Estimate> clock = clocks_[daemon].At(now);
  reply.set_has_clock(clock.has_value());
  if (!clock) return out;
  reply.set_ahead_us(clock->ahead.count());
  reply.set_error_us(static_cast<std::uint64_t>(clock->error.count()));
  return out;
}

std::vector<TraceRelay::Message> TraceRelay::Tick(TimePoint now) {
  std::vector<Message> out;
  for (auto& [daemon, pending] : pending_) {
    if (!pending.client || pending.due > now) continue;
    out.push_back(
        Refusal(*pending.client, Status(Code::kTimeout, "the daemon has not answered: look whether it hangs")));
    pending.client.reset();
  }
  return out;
}

std::vector<TraceRelay::Message> TraceRelay::OnClosed(Connection connection) {
  std::vector<Message> out;
  for (auto& [daemon, pending] : pending_) {
    if (daemon == connection && pending.client)
      out.push_back(Refusal(*pending.client, Status(Code::kDaemonUnreachable, "the daemon's connection has ended")));
    if (pending.client == connection) pending.client.reset();
  }
  pending_.erase(connection);
  clocks_.erase(connection);
  return out;
}

std::size_t TraceRelay::waiting() const {
  return static_cast<std::size_t>(std::count_if(pending_.begin(), pending_.end(),
                                                [](const auto& entry) { return entry.second.client.has_value(); }));
}

void TraceRelay::OnHeartbeat(Connection daemon, const control::DaemonHeartbeat& heartbeat, TimePoint now) {
  if (heartbeat.has_clock()) clocks_[daemon].Add(heartbeat.clock(), now);
}

void TraceRelay::Stamp(control::DaemonHeartbeat& reply, TimePoint now) {
  reply.mutable_clock()->set_sent_us(now.time_since_epoch().count());
}

}  // namespace ringway
