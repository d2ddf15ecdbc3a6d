// A TCP relay that stands before a daemon's or the master's port and breaks connections on demand.
//
//   Relay relay;                                     // listens at once; the daemon advertises relay.address()
//   relay.Aim("127.0.0.1:7401");                     // where the daemon really listens
//   relay.BlackHole({.from = 7, .to = 9});           // what peer 7 sends to peer 9 travels no further
//   relay.Restore();                                 // and now goes on where it stopped: no byte is lost
//
// It reads the first frame of a connection, the dialler's LinkHello, to know whose it is. Only connections to the
// daemon behind it pass through: a pair's connections pass the relay of the one that was dialled. On a connection whose
// first frame is no LinkHello (the master's) the peers are kDialler and kDialled. The peers
// of an encrypted connection are unknown: a fault for any flow applies to it.
//
// Bounds: kConnectionsMax connections, others are refused; kHeldBytesMax a direction. Threads: methods from any, in
// effect when they return; the relay runs a thread of its own. Errors of a connection end it, both sides, with RST.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ringway::e2e {

enum class Links { kAll, kControl, kLanes };

// Bytes in one direction. `from` and `to`: the peers, whoever dialled; 0: any.
struct Flow {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  Links links = Links::kAll;

  Flow Reversed() const { return {to, from, links}; }
};

class Relay {
 public:
  static constexpr std::uint64_t kDialler = ~std::uint64_t{0};
  static constexpr std::uint64_t kDialled = kDialler - 1;
  static constexpr std::uint64_t kHidden = kDialler - 2;
  static constexpr std::size_t kConnectionsMax = 1024;
  static constexpr std::size_t kHeldBytesMax = 1 << 20;

  Relay();
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  const std::string& address() const { return address_; }  // 127.0.0.1:PORT
  // New connections go to this 127.0.0.1:PORT; until the first call they are closed.
  void Aim(const std::string& target);

  // Ends with RST, at both ends, the connections there are that carry the flow; how many.
  std::size_t Cut(const Flow& flow);
  // Flips a bit of one byte: the first of the flow that arrives after `skip` more on one connection. Only once.
  void Corrupt(const Flow& flow, std::size_t skip);
  // Flips a bit of one in so many bytes of the flow, on present and later connections; hellos stay whole.
  void AddNoise(const Flow& flow, std::size_t one_of);
  // Each byte of the flow leaves this long after it came, from now on, on present and later connections.
  void Delay(const Flow& flow, std::chrono::milliseconds delay);
  // The flow's bytes are neither read nor sent on, on present and later connections, which stay open and silent.
  void BlackHole(const Flow& flow);
  // Ends delays, black holes, noise and corruptions that have not happened. What was held goes on.
  void Restore();

  std::size_t Connections();       // that have said whose they are
  std::uint64_t CorruptedBytes();  // so far

 private:
  class Core;
  std::unique_ptr<Core> core_;
  std::string address_;
};

}  // namespace ringway::e2e
