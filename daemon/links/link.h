// A link of a pair of peers, as everything that decides on links names it: the mesh asks for it, the shell opens it,
// the ledger counts what travels on it.
//
// Values only. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/ids.h"

namespace ringway::links {

// A link of a pair: the control link or a lane.
struct LinkId {
  PeerId other;
  bool control = false;
  LaneId lane;
  friend auto operator<=>(const LinkId&, const LinkId&) = default;
};

// What is known of one that stands.
struct LinkTerms {
  std::uint32_t lanes = 0;        // of the pair, at first
  std::uint32_t lanes_max = 0;    // .. and at most; said by who dialled
  std::uint64_t generation = 0;   // of this lane
  Duration round_trip{};          // of the connection; 0: not known
  std::uint64_t probe_bytes = 0;  // to spend, three times, on measuring the pair when it stands
};

// Open the control link, or lanes; answer with OnLinkUp for each or one OnDialFailed.
struct Dial {
  PeerId other;
  std::string address;
  bool control = false;
  std::uint32_t lanes = 0;       // of the pair, at first; 0: the shell decides by the path
  std::vector<LaneId> missing;   // which to open, maybe beyond those; none when lanes is 0: all
  std::uint64_t generation = 0;  // for their LinkHello
  bool known = false;            // this peer was known there before: refused at once where it is not any more
};

// All links of the pair, or this lane. No OnLinkDown follows.
struct CloseLinks {
  PeerId other;
  std::optional<LaneId> lane;
};

}  // namespace ringway::links
