#include "tests/sim/network.h"

#include <algorithm>

namespace ringway::sim {

Connection& Network::Open(Host a, Host b) {
  Connection& connection = connections_.emplace_back();
  connection.hosts[0] = a;
  connection.hosts[1] = b;
  return connection;
}

Duration Network::Delay(Host from, Host to) {
  const auto drawn = [&](Duration min, Duration max) {
    return min + Duration(static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>((max - min).count() + 1)));
  };
  const auto [known, is_new] = delays_.try_emplace({std::min(from, to), std::max(from, to)});
  const bool far = options_.far_delay_max > Duration::zero() && (from == options_.far || to == options_.far);
  if (is_new) known->second = drawn(options_.delay_min, far ? options_.far_delay_max : options_.delay_max);
  Duration delay = drawn(known->second, known->second * 2);
  if (options_.late_one_of != 0 && random_() % options_.late_one_of == 0) delay += drawn({}, options_.late_max);
  return delay;
}

bool Network::Flips() {
  if (std::exchange(flip_next_, false)) return true;
  return flip_one_of_ != 0 && random_() % flip_one_of_ == 0;
}

void Network::Send(Connection& connection, std::uint32_t side, EventQueue::Run deliver) {
  if (!connection.open[side]) return;
  Connection::Way& way = connection.ways[side];
  way.last = std::max(way.last, events_.now() + Delay(connection.hosts[side], connection.hosts[1 - side]));
  way.messages.emplace_back(way.last, std::move(deliver));
  Arm(connection, side);
}

void Network::SendEnd(Connection& connection, std::uint32_t side) {
  Send(connection, side, [&connection, side] {
    connection.open[1 - side] = false;
    if (connection.on_closed[1 - side]) connection.on_closed[1 - side]();
  });
}

void Network::Close(Connection& connection, std::uint32_t side) {
  SendEnd(connection, side);
  connection.open[side] = false;
  connection.ways[1 - side].messages.clear();
}

void Network::Reset(Connection& connection) {
  for (Connection::Way& way : connection.ways) way.messages.clear();
  for (const std::uint32_t side : {0U, 1U}) SendEnd(connection, side);
}

void Network::Vanish(Connection& connection, std::uint32_t side) {
  connection.open[side] = false;
  for (Connection::Way& way : connection.ways) way.messages.clear();
}

void Network::StartReading(Connection& connection, std::uint32_t side) {
  connection.reads[side] = true;
  Arm(connection, 1 - side);
}

void Network::Arm(Connection& connection, std::uint32_t side) {
  Connection::Way& way = connection.ways[side];
  if (way.armed || way.messages.empty()) return;
  way.armed = true;
  events_.At(way.messages.front().first, [this, &connection, side] { Deliver(connection, side); });
}

void Network::Deliver(Connection& connection, std::uint32_t side) {
  Connection::Way& way = connection.ways[side];
  way.armed = false;
  if (!connection.open[1 - side]) return way.messages.clear();
  if (way.messages.empty() || !connection.reads[1 - side]) return;
  if (way.messages.front().first > events_.now()) return Arm(connection, side);  // an earlier one was lost
  if (!Hears(connection.hosts[side], connection.hosts[1 - side]))
    return waiting_.emplace_back(&connection, side), void();
  const EventQueue::Run deliver = std::move(way.messages.front().second);
  way.messages.pop_front();
  Arm(connection, side);
  deliver();
}

void Network::Unsilence(Host from, Host to) {
  silent_.erase({from, to});
  RetryWaiting();
}

void Network::ResumeReading(Host host) {
  deaf_.erase(host);
  RetryWaiting();
}

void Network::RetryWaiting() {
  for (const auto& [connection, side] : std::exchange(waiting_, {})) Arm(*connection, side);
}

}  // namespace ringway::sim
