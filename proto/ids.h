// Strong types for the numbers the protocol speaks of, so that a rank is never a peer id and an epoch never a count.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace ringway {

// A number that is only comparable with its own kind. Trivially copyable; value-initialises to 0.
template <typename Tag, typename Rep>
struct Id {
  Rep value{};

  constexpr Id() = default;
  constexpr explicit Id(Rep v) : value(v) {}
  friend constexpr auto operator<=>(Id, Id) = default;
};

using Rank = Id<struct RankTag, std::uint32_t>;          // place in the view's member list, 0 .. world_size - 1
using PeerId = Id<struct PeerIdTag, std::uint64_t>;      // one trainer's membership; never repeats; 0 is nobody
using DaemonId = Id<struct DaemonIdTag, std::uint64_t>;  // one daemon process; never repeats; 0 is nobody
using LaneId = Id<struct LaneIdTag, std::uint32_t>;      // lane of a pair of peers, 0 .. lanes - 1
using ChannelId = Id<struct ChannelTag, std::uint32_t>;  // ordered stream of operations of a group

// Number of a view. The upper half is the master's term, the lower a counter, so epochs only grow, across restarts of
// the master too. 0 means no view.
struct Epoch : Id<struct EpochTag, std::uint64_t> {
  using Id::Id;
  static constexpr Epoch Of(std::uint32_t term, std::uint32_t counter) {
    return Epoch((static_cast<std::uint64_t>(term) << 32) | counter);
  }
  constexpr std::uint32_t term() const { return static_cast<std::uint32_t>(value >> 32); }
  constexpr std::uint32_t counter() const { return static_cast<std::uint32_t>(value); }
};

// Name of an operation within its group; stays the same when the operation is retried under a later epoch.
struct OpName {
  ChannelId channel;
  std::uint64_t seq = 0;
  friend constexpr auto operator<=>(const OpName&, const OpName&) = default;
};

inline std::string ToString(Epoch epoch) {
  return std::to_string(epoch.term()) + "." + std::to_string(epoch.counter());
}
inline std::string ToString(PeerId peer) { return std::to_string(peer.value); }
inline std::string ToString(const OpName& op) {
  return std::to_string(op.channel.value) + ":" + std::to_string(op.seq);
}

}  // namespace ringway
