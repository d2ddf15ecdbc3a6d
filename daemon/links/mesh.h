// Which links of a peer are wanted, and which are up: one control link and all lanes to every other peer of the group,
// members and candidates alike, opened in the background before they are needed.
//
//   pair:  wanted --dial--> partly up --> standing (control link and first lanes) --link down--> partly up (redial)
//
//   first lanes  as many as the dialler chose
//   more lanes   opened if either end wants them (lane_scaler.h): the dialler opens the larger of both requests, the
//                acceptor sends its request and closes any excess. A pair stands without them
//   usable       one large lane is up; the other links are redialled meanwhile: a broken link accuses nobody
//   gone         no link is up, and the newest dial was refused
//
// Dialling: the higher peer id dials the control link, the lower one the lanes, and both ends know it. Where one end
// cannot be dialled (NAT, a firewall), the other takes over and dials everything, as the LinkHello says:
//
//   an end has no address, so others cannot reach it             it dials everything, from the beginning
//   this end's part has come up, and for kTakeOver since then    this end dials everything from now on
//     nothing of the other's
//   both take over at once                                       the higher id wins
//
// Failed dials are repeated with exponential backoff. Pure: time is a parameter, dials come out as values.
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

  // Adds the pair; a known one only takes the new address.
  void Want(PeerId other, const PeerPlace& at);
  void Forget(PeerId other);
  bool Knows(PeerId other) const { return pairs_.contains(other); }
  // REQUIRES: Knows(other).
  const std::string& DaemonOf(PeerId other) const { return pairs_.at(other).at.daemon; }

  // Checks that the other end may dial this accepted connection. `who`: its proven identity; null: connections are not
  // authenticated.
  Status Admit(const LinkId& link, const LinkTerms& terms, const Identity* who) const;
  // The other end dials everything from now on. Returns the number for LanesWanted if it has changed.
  std::optional<std::uint32_t> Yield(PeerId other);

  // ControlUp and LaneUp return true if this link makes the pair standing.
  bool ControlUp(PeerId other, TimePoint now);
  // First lanes and maximum, from the dialler.
  struct LaneTerms {
    std::uint32_t lanes = 0;
    std::uint32_t lanes_max = 0;
    std::uint64_t generation = 0;  // of this lane: each later dial has a higher one, from either end
  };
  bool LaneUp(PeerId other, LaneId lane, const LaneTerms& terms, TimePoint now);
  void ControlDown(PeerId other, TimePoint now);
  void LaneDown(PeerId other, LaneId lane, TimePoint now);
  // The other end has dialled us: an earlier refusal is void.
  void Answered(PeerId other);
  void AllDown(PeerId other, TimePoint now);
  // `refused`: the other side answered that there is no such peer. Returns false if the failure is stale, because
  // another dial has opened the link meanwhile.
  bool DialFailed(PeerId other, bool control, bool refused, TimePoint now);
  // No link is up, and the newest dial was refused.
  bool IsGone(PeerId other) const;

  // End `who` wants `lanes` lanes of the pair.
  enum class End : std::uint8_t { kHere, kThere };
  struct LanesNews {
    std::optional<std::uint32_t> say;  // in LanesWanted to the other end
    std::vector<LaneId> close;         // lanes that are up
  };
  LanesNews WantLanes(PeerId other, std::uint32_t lanes, End who);
  // Returns whether the lane is wanted, so that it has to be reopened when it closes.
  bool WantsLane(PeerId other, LaneId lane) const;

  bool HasControl(PeerId other) const;
  std::vector<PeerId> StandingPeers() const;
  std::vector<PeerId> ControlPeers() const;

  // Something was received from the peer.
  void Heard(PeerId other, TimePoint now);
  // Returns when that was; the beginning of time for an unknown peer.
  TimePoint LastHeard(PeerId other) const;
  // Restarts all silence timers, and the times for which links have been down, as if all peers had just been heard.
  void HeardAll(TimePoint now);
  // Peers from which nothing was received for longer than `limit`.
  std::vector<PeerId> SilentSince(TimePoint now, Duration limit) const;
  // Returns whether the control link or all large lanes are down.
  bool IsBroken(PeerId other) const;
  // Returns whether the control link or all large lanes have been down for longer than `limit`; or everything for half
  // of it, where the other end dials everything: no refused dial can tell that it is gone.
  bool BrokenFor(PeerId other, TimePoint now, Duration limit) const;

  // Pairs that this end dials alone from now on.
  struct TakenOver {
    PeerId other;
    std::optional<std::uint32_t> say;  // in LanesWanted
  };
  std::vector<TakenOver> TakeOver(TimePoint now);

  // Returns what to dial now. A dial is returned once, and is not repeated until all of its links are up or it has
  // failed. A dial without an answer for 30 s counts as failed: the answer was lost in a full queue.
  std::vector<Dial> TakeDials(TimePoint now);

 private:
  struct Attempt {
    bool dialling = false;
    std::set<LaneId> awaited{};  // lanes of the dial that are not up yet
    TimePoint next{};            // the next dial; while dialling: when this one counts as failed
    Duration pause = kPauseMin;
  };
  struct Pair {
    PeerPlace at;
    bool control = false;
    TimePoint control_since{};  // when `control` changed
    bool refused = false;       // a dial was, after the newest link came up
    bool knows_us = false;      // a link was up before
    std::set<LaneId> lanes;
    std::uint32_t lanes_expected = 0;  // first lanes
    std::uint32_t lanes_max = 0;       // 0: not known; then no more are opened
    std::uint32_t used_here = 0;       // lanes wanted by this end
    std::uint32_t used_there = 0;      // lanes wanted by the other
    bool dials_control = false;
    bool dials_lanes = false;
    TimePoint lanes_since{};  // when the first lane came up, or the last one went down
    // One part has come up while the other was down. A part that was up before the other went down proves nothing: it
    // may be dead, too.
    bool is_ahead = false;
    TimePoint heard{};
    TimePoint idle_since{};  // when the last large lane went down
    std::uint64_t generation = 0;
    Attempt control_attempt, lane_attempt;
    bool has_first_lanes() const;
    bool standing() const { return control && has_first_lanes(); }
    bool dials_all() const { return dials_control && dials_lanes; }
    bool dials_none() const { return !dials_control && !dials_lanes; }
    bool MayTakeOver(TimePoint now) const;
    // This end dials everything, or nothing. Returns the number for LanesWanted if it has changed.
    std::optional<std::uint32_t> DialAll(bool here);
    std::uint32_t said() const { return dials_lanes ? std::max(used_here, used_there) : used_here; }
    // Returns how many lanes there should be.
    std::uint32_t wanted() const;
    // Returns the first lanes; when they are up, at most kMoreAtOnce of the others.
    std::vector<LaneId> missing() const;
    bool complete() const { return lanes_expected > 0 && missing().empty(); }
    bool carries() const { return !lanes.empty() && lanes.rbegin()->value >= SmallLanes(lanes_expected); }
  };
  static constexpr std::size_t kMoreAtOnce = 32;
  static constexpr Duration kPauseMin = std::chrono::milliseconds(20);
  static constexpr Duration kPauseMax = std::chrono::seconds(1);
  static constexpr Duration kSteady = std::chrono::seconds(1);  // a control link up for so long is redialled at once
  static constexpr Duration kAnswerMax = std::chrono::seconds(30);  // dials end themselves sooner
  static constexpr Duration kTakeOver =
      std::chrono::seconds(3);  // several round trips: an end that can dial has done so by then

  static void Failed(Attempt& attempt, TimePoint now);
  static void AddDial(PeerId other, Pair& pair, bool control, TimePoint now, std::vector<Dial>& out);

  PeerId self_;
  std::map<PeerId, Pair> pairs_;
};

}  // namespace ringway::links
