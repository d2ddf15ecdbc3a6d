// One relayed connection: two sockets and a pipe in each direction, under the relay's rules.
//
//   accepted --first frame--> known --connected--> open --> closed (end passed on in both directions, error, Cut)
//
// Threads: one, the relay's. Lifetime: shared, its handlers hold it.
#pragma once

#include <array>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "proto/frame_codec.h"
#include "tests/e2e/relay.h"

namespace ringway::e2e {

// The faults of flows. They are the relay's; all its connections read them.
struct RelayRules {
  struct Slowed {
    Flow flow;
    std::chrono::milliseconds delay;
  };
  struct Corruption {
    Flow flow;
    std::size_t skip = 0;
  };
  struct Noise {
    Flow flow;
    std::size_t one_of = 0;
    std::size_t left = 0;  // until the next byte that is changed
  };
  std::vector<Slowed> slowed;
  std::vector<Noise> noises;
  std::vector<Flow> black_holes;
  std::optional<Corruption> corruption;
  std::uint64_t corrupted_bytes = 0;
};

class RelayConnection : public std::enable_shared_from_this<RelayConnection> {
 public:
  // REQUIRES: `rules` outlives the connection.
  RelayConnection(asio::ip::tcp::socket accepted, RelayRules* rules);

  void Start(const asio::ip::tcp::endpoint& target);
  bool Carries(const Flow& flow) const;
  // RST to both ends.
  void Cut();
  // The rules have changed: what they held may go on.
  void Reconsider();
  bool closed() const { return closed_; }
  bool known() const { return known_; }

 private:
  struct Held {
    std::chrono::steady_clock::time_point due;
    std::vector<std::byte> bytes;
  };
  struct Pipe {
    explicit Pipe(asio::ip::tcp::socket& in, asio::ip::tcp::socket& out)
        : source(in), sink(out), timer(in.get_executor()) {}
    asio::ip::tcp::socket& source;
    asio::ip::tcp::socket& sink;
    asio::steady_timer timer;
    Flow flow;
    std::deque<Held> held;
    std::size_t held_bytes = 0;
    bool reading = false, writing = false;
    bool ended = false, end_passed_on = false;
    std::array<std::byte, 64 * 1024> buffer;
  };

  void ReadHello(const asio::ip::tcp::endpoint& target);
  // Marks the connection's peers as unknown.
  void Hide(const asio::ip::tcp::endpoint& target);
  // Returns whether the first frame is whole, or certainly none that the relay knows.
  bool KnowsHello();
  void Connect(const asio::ip::tcp::endpoint& target);
  bool InBlackHole(const Pipe& pipe) const;
  std::chrono::milliseconds DelayOf(const Pipe& pipe) const;
  void CorruptIn(const Pipe& pipe, std::vector<std::byte>& bytes);
  void AddNoise(const Pipe& pipe, std::vector<std::byte>& bytes);
  void Hold(Pipe& pipe, std::vector<std::byte> bytes);
  void Pump(Pipe& pipe);
  void ReadMore(Pipe& pipe);
  void WriteMore(Pipe& pipe);
  void PassOnEnd(Pipe& pipe);

  asio::ip::tcp::socket near_, far_;  // the dialler's; the target's
  RelayRules* rules_;
  Pipe forward_, back_;
  FrameReader reader_;
  std::vector<std::byte> hello_bytes_;
  bool known_ = false, open_ = false, closed_ = false;
};

}  // namespace ringway::e2e
