// Dials between peers of one daemon: answered here, without connections.
//
//   Dial --posted--> Admit of the other --ok--> both ends stand
//            ^              |--refused--> the dial has failed
//            +-- TryHeld ---+--not known there yet--> held for a moment, as accepted connections are
//
// Bounded: by the dials that are open (links/dial_tracker.h). Threads: one (data thread).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/net/dialer.h"
#include "daemon/runtime/peer_runtime.h"
#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::daemon {

class InProcessDials {
 public:
  using Peers = std::map<PeerId, std::unique_ptr<PeerRuntime>>;

  // `peers`: of this daemon; outlives it.
  explicit InProcessDials(const Peers& peers) : peers_(peers) {}

  // Returns whether the other end is here.
  bool Reaches(const net::DialRequest& request) const { return peers_.contains(request.to); }
  void Dial(net::DialRequest request, std::uint64_t serial, TimePoint now);
  void TryHeld(TimePoint now);

 private:
  struct Held {
    net::DialRequest request;
    std::uint64_t serial = 0;
    TimePoint until;
  };
  // Returns false if it should be held and tried again.
  bool Try(const Held& dial, TimePoint now) const;

  const Peers& peers_;
  std::vector<Held> held_;
};

}  // namespace ringway::daemon
