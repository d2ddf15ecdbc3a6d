// Whose turn it is to be probed: bytes that nobody needs, sent over all lanes of one pair at a time as fast as they go,
// so that a plan need not wait for the first operation to know the rates. They also open the lanes' congestion windows.
// Pure.
//
//   wanted --its turn--> probed --measured, its bytes or its time used up--> done: not again before it is forgotten
//
// After the last byte the turn lasts for one more tick, so that what is under way is still counted. The next in turn is
// the next higher peer, so that peers that start together do not all probe the same one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::core {

class Prober {
 public:
  explicit Prober(PeerId self) : last_(self) {}

  // `bytes`: to spend on it at most; 0: none. No news for a pair that is known.
  void Want(PeerId other, std::uint64_t bytes);
  void Forget(PeerId other);

  std::optional<PeerId> turn() const { return turn_; }
  // Payload bytes of the next frame, `bytes_max` at most, which count as sent; 0: no more. REQUIRES: it is its turn.
  std::uint32_t Take(std::uint32_t bytes_max);

  // `may_send`: whether probes are allowed now; only then time is used up and the turn given to anybody. `is_measured`:
  // whether the pair in turn is. Gives the pair whose turn has ended.
  std::optional<PeerId> Tick(TimePoint now, bool may_send, bool is_measured);

 private:
  static constexpr Duration kTimeMax = std::chrono::seconds(3);

  void PassTurn();

  std::map<PeerId, std::uint64_t> bytes_left_;  // 0: done
  PeerId last_;                                 // whose turn was last
  std::optional<PeerId> turn_;
  Duration time_left_{};
  bool drains_ = false;  // its bytes were used up a tick ago
  TimePoint last_tick_{};
};

}  // namespace ringway::core
