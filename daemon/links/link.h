// Links of a pair of peers as values: the mesh wants them, the shell opens them, the ledger counts what they carry.
//
// Values only. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/identity.h"
#include "proto/ids.h"

namespace ringway::links {

// The control link or a lane.
struct LinkId {
  PeerId other;
  bool control = false;
  LaneId lane;
  friend auto operator<=>(const LinkId&, const LinkId&) = default;
};

// The properties of a link that is up.
struct LinkTerms {
  std::uint32_t lanes = 0;        // first lanes of the pair
  std::uint32_t lanes_max = 0;    // most lanes of the pair; chosen by the dialler
  std::uint64_t generation = 0;   // of this lane
  Duration round_trip{};          // of the connection; 0: not known
  std::string host = {};          // the other's, by its address; empty: this one
  std::uint64_t probe_bytes = 0;  // budget of each probe of the pair (prober.h)
  bool dialled_all = false;       // the other end dials all links of the pair
  bool in_process = false;        // to a peer of this daemon: what is read once travels without a hash
};

// A peer's address, its daemon, and whether it may be able to dial this end.
struct PeerPlace {
  std::string address;  // HOST:PORT of its daemon; empty: nobody can dial it
  std::string daemon;   // its daemon's name
  bool reaches_us = true;
};

// Open the control link, or lanes; answer with OnLinkUp for each or one OnDialFailed.
struct Dial {
  PeerId other;
  PeerPlace at;
  bool control = false;
  bool all = false;              // this end dials all links of the pair
  std::uint32_t lanes = 0;       // first lanes of the pair; 0: the shell decides by the path
  std::vector<LaneId> missing;   // lanes to open, maybe more than the first; empty when `lanes` is 0: all
  std::uint64_t generation = 0;  // for their LinkHello
  bool known = false;            // the other side knew this peer before: if it no longer does it refuses at once
};

// All links of the pair, or this lane. No OnLinkDown follows.
struct CloseLinks {
  PeerId other;
  std::optional<LaneId> lane;
};

}  // namespace ringway::links
