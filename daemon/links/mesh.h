// Which links must stand, and which do: one control link and all lanes to every other peer of the group, members and
// candidates alike, opened in the background before they are needed.
//
//   pair:  wanted --dial--> partly up --> standing (control link and all lanes) --link down--> partly up (redial) ...
//
// "All" are the first ones, as many as the dialler chose. Where either end has a use for more (lane_scaler.h) the
// dialler opens them, and says how many; the other asks for them, and closes what is more than was said. They never
// delay the first ones, and without them the pair stands as well.
//
// A member whose pair has one lane that takes every size can be worked with; what else is down, the control link too,
// is opened again meanwhile: a link that breaks accuses nobody. Gone is who has no link left and refuses a new one. Of
// a pair the higher peer id dials the control link and the lower one the lanes, so admission proves both addresses.
// Failed dials are repeated with a doubling pause. Pure: time is a parameter, dials come out as values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/links/link.h"
#include "proto/clock.h"
#include "proto/ids.h"
#include "proto/lane_roles.h"
#include "proto/result.h"

namespace ringway::links {

class Mesh {
 public:
  explicit Mesh(PeerId self) : self_(self) {}

  // Starts to want the pair; a known pair only takes the new address.
  void Want(PeerId other, const std::string& address);
  void Forget(PeerId other);
  bool Knows(PeerId other) const { return pairs_.contains(other); }

  // Whether an accepted connection is one that the other side should dial.
  Status Admit(PeerId other, bool control, LaneId lane, std::uint32_t lanes) const;

  // Gives true when the pair has just come to stand.
  bool ControlUp(PeerId other, TimePoint now);
  // `lanes` at first, `lanes_max` later: what is said by who dials them.
  struct LaneTerms {
    std::uint32_t lanes = 0;
    std::uint32_t lanes_max = 0;
  };
  bool LaneUp(PeerId other, LaneId lane, const LaneTerms& terms, TimePoint now);
  void ControlDown(PeerId other, TimePoint now);
  void LaneDown(PeerId other, LaneId lane, TimePoint now);
  // A connection of it is here: what it refused before counts no more.
  void Answered(PeerId other);
  void AllDown(PeerId other, TimePoint now);
  // `refused`: something answered that there is no such peer. Gives false if that is no news, because another dial has
  // opened the link meanwhile.
  bool DialFailed(PeerId other, bool control, bool refused, TimePoint now);
  // No link is up, and the newest dial was refused.
  bool IsGone(PeerId other) const;

  // So many lanes of the pair are of use, this end or the other one says.
  enum class End : std::uint8_t { kHere, kThere };
  struct LanesNews {
    std::optional<std::uint32_t> say;  // to the other
    std::vector<LaneId> close;         // that are up
  };
  LanesNews WantLanes(PeerId other, std::uint32_t lanes, End who);
  // Whether the lane is to be up, so that its end is a loss.
  bool WantsLane(PeerId other, LaneId lane) const;

  bool HasControl(PeerId other) const;
  std::vector<PeerId> StandingPeers() const;
  std::vector<PeerId> ControlPeers() const;

  // Anything was received from the peer.
  void Heard(PeerId other, TimePoint now);
  // .. from all, as far as this end can tell; what is down is so from now on.
  void HeardAll(TimePoint now);
  // Peers that were silent for longer than `limit`.
  std::vector<PeerId> SilentSince(TimePoint now, Duration limit) const;
  // Whether for longer than `limit` the control link has been down, or all lanes that take every size.
  bool BrokenFor(PeerId other, TimePoint now, Duration limit) const;

  // What to dial now. Each intent is given once until it is over: each of its links has come up, or it failed. What is
  // not answered in 30 s counts as failed: its answer was lost in a full queue.
  std::vector<Dial> TakeDials(TimePoint now);

 private:
  struct Attempt {
    bool dialling = false;
    std::set<LaneId> awaited{};  // lanes of the dial that have yet to come up
    TimePoint next{};            // the next dial; while dialling: when this one counts as failed
    Duration pause = kPauseMin;
  };
  struct Pair {
    std::string address;
    bool control = false;
    TimePoint control_since{};  // it is up, or down
    bool refused = false;       // a dial, after the newest link came up
    bool knows_us = false;      // a link was up: the other side need not be told of us first
    std::set<LaneId> lanes;
    std::uint32_t lanes_expected = 0;  // the first ones
    std::uint32_t lanes_max = 0;       // 0: not known; then no more are opened
    std::uint32_t used_here = 0;       // lanes that are of use
    std::uint32_t used_there = 0;
    bool dials_lanes = false;
    TimePoint heard{};
    TimePoint idle_since{};  // without a lane that takes every size
    std::uint64_t generation = 0;
    Attempt control_attempt, lane_attempt;
    bool has_first_lanes() const;
    bool standing() const { return control && has_first_lanes(); }
    std::uint32_t said() const { return dials_lanes ? std::max(used_here, used_there) : used_here; }
    // How many there should be.
    std::uint32_t wanted() const;
    // The first ones, or so many of the others as one dial opens.
    std::vector<LaneId> missing() const;
    bool complete() const { return lanes_expected > 0 && missing().empty(); }
    bool carries() const { return !lanes.empty() && lanes.rbegin()->value >= SmallLanes(lanes_expected); }
  };
  static constexpr std::size_t kMoreAtOnce = 32;
  static constexpr Duration kPauseMin = std::chrono::milliseconds(20);
  static constexpr Duration kPauseMax = std::chrono::seconds(1);
  static constexpr Duration kSteady =
      std::chrono::seconds(1);  // a control link that was up for so long is redialled at once
  static constexpr Duration kAnswerMax = std::chrono::seconds(30);  // dials end themselves sooner

  static void Failed(Attempt& attempt, TimePoint now);

  PeerId self_;
  std::map<PeerId, Pair> pairs_;
};

}  // namespace ringway::links
