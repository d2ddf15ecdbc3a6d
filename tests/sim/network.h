// The simulated network: connections between processes, each in order, without an order between connections.
//
//   open --Close(side)--> messages sent by that side still arrive, then the other side sees the end
//                         messages in flight to that side are lost
//
// A silence is a partition or a stopped process as TCP sees it: messages wait, and arrive late when it ends, unless
// their receiver has closed its side by then.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/sim/events.h"

namespace ringway::sim {

using Host = std::uint32_t;  // a process

struct NetworkOptions {
  // Every pair of processes draws a one-way delay from this range; each message takes up to twice that.
  Duration delay_min = Duration(50);
  Duration delay_max = Duration(500);
  // Pairs with this host draw from up to this delay instead, so that its messages to different hosts overtake each
  // other. 0: no such host.
  Host far = 0;
  Duration far_delay_max{};
  // One of this many messages is late by up to `late_max`, and delays those behind it on its connection. 0: none.
  std::uint32_t late_one_of = 0;
  Duration late_max{};
};

// Two ends, 0 and 1. Owned by the network; stays valid when closed.
struct Connection {
  struct Way {  // from side i
    std::deque<std::pair<TimePoint, EventQueue::Run>> messages;
    TimePoint last{};
    bool armed = false;  // an event to deliver the first one is queued
  };
  Host hosts[2] = {};
  bool open[2] = {true, true};
  bool reads[2] = {true, true};  // messages to an end that does not read yet wait
  EventQueue::Run on_closed[2];  // the other side closed; this side is closed when it runs
  Way ways[2];
};

class Network {
 public:
  Network(EventQueue& events, std::mt19937_64& random, const NetworkOptions& options)
      : events_(events), random_(random), options_(options) {}

  Connection& Open(Host a, Host b);
  // Dropped if `side` is closed.
  void Send(Connection& connection, std::uint32_t side, EventQueue::Run deliver);
  void Close(Connection& connection, std::uint32_t side);
  // Both ends see the end; messages in flight are lost.
  void Reset(Connection& connection);
  // This side disappears with its recent messages, and the other side is not notified.
  void Vanish(Connection& connection, std::uint32_t side);
  void StartReading(Connection& connection, std::uint32_t side);

  Duration Delay(Host from, Host to);

  // Flips a bit of one in `messages` messages from now on, on any connection; 0: none.
  void FlipOneOf(std::uint32_t messages) { flip_one_of_ = messages; }
  // Also flips a bit of the next message that is sent.
  void FlipNext() { flip_next_ = true; }
  // Draws whether to flip a bit of the message being sent.
  bool Flips();

  void Silence(Host from, Host to) { silent_.emplace(from, to); }
  void StopReading(Host host) { deaf_.insert(host); }
  void Unsilence(Host from, Host to);
  void ResumeReading(Host host);
  bool Hears(Host from, Host to) const { return !deaf_.contains(to) && !silent_.contains({from, to}); }
  const std::set<std::pair<Host, Host>>& silences() const { return silent_; }

 private:
  // Queues the end of the stream behind earlier messages.
  void SendEnd(Connection& connection, std::uint32_t side);
  void Arm(Connection& connection, std::uint32_t side);
  void Deliver(Connection& connection, std::uint32_t side);
  void RetryWaiting();

  EventQueue& events_;
  std::mt19937_64& random_;
  const NetworkOptions options_;
  std::deque<Connection> connections_;
  std::map<std::pair<Host, Host>, Duration> delays_;
  std::uint32_t flip_one_of_ = 0;
  bool flip_next_ = false;
  std::set<std::pair<Host, Host>> silent_;
  std::set<Host> deaf_;
  std::vector<std::pair<Connection*, std::uint32_t>> waiting_;  // for a silence to end
};

}  // namespace ringway::sim
