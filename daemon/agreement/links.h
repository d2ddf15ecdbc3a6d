// The links of a peer: which stand, what is dialled, control messages that arrive exactly once whatever breaks, lanes
// that close without losing a frame, and which losses accuse a member.
//
//   a link breaks, of a pair that has others     repaired: dialled again, what was sent is kept; nobody's fault
//   the last one breaks, a dial is refused       gone: accused
//   broken for the detection time                accused
//   full of messages that are not acknowledged   accused
//   breaks again and again, for an hour          accused
//
// Invariant: streams, round trips, losses and lanes are only kept of pairs that the mesh knows.
//
// Ownership: the Peer's. Who is accused, and what happens to frames of a lane that is gone, its listener decides.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/agreement/context.h"
#include "daemon/links/control_stream.h"
#include "daemon/links/lane_ledger.h"
#include "daemon/links/mesh.h"
#include "daemon/transfer/attempt.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace ringway::agreement {

class Links {
 public:
  class Listener {
   public:
    // The rest of a frame that was half read from the lane will not come.
    virtual void OnLaneDown(const LinkId& lane) = 0;
    // The other end did not take the frame: its lane closed before.
    virtual void OnFrameLost(PeerId to, const links::SentFrame& frame) = 0;
    // The frame failed its checksum at the other end. It is lost, too, which is reported after this.
    virtual void OnFrameRefused(const links::SentFrame& frame) = 0;
    virtual void OnFault(const std::vector<PeerId>& others, const std::string& why) = 0;

   protected:
    ~Listener() = default;
  };

  // All outlive it.
  Links(Context& ctx, const transfer::Attempts& attempts, Listener& listener)
      : ctx_(ctx), attempts_(attempts), listener_(listener), mesh_(ctx.self) {}
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // ---- pairs
  void Want(const control::PeerInfo& other);
  bool Knows(PeerId other) const { return mesh_.Knows(other); }
  // Returns the name of its daemon; empty: the pair is not known.
  std::string DaemonOf(PeerId other) const { return Knows(other) ? mesh_.DaemonOf(other) : ""; }
  // Its links are closed. REQUIRES: what was half read from them is dropped.
  void Forget(PeerId other);
  void Heard(PeerId other) { mesh_.Heard(other, ctx_.now); }
  TimePoint LastHeard(PeerId other) const { return mesh_.LastHeard(other); }
  // Returns whether there was a gap in the own loop. The input of that time has just been handled, so silence is not
  // yet the others' fault: all are taken for heard.
  [[nodiscard]] bool OnTick();
  std::vector<PeerId> SilentFor(Duration limit) const { return mesh_.SilentSince(ctx_.now, limit); }
  // Members that may be lost: a link of the pair is down, or they have been silent for almost the detection time.
  std::set<PeerId> Suspects() const;
  // Returns how long a suspect has been silent.
  Duration SuspicionTime() const;
  // A member whose links are all closed and who refuses new ones.
  void AccuseGone(PeerId other);
  void AccuseBroken();
  // All members are taken for heard, and nothing is held against them.
  void OnView();
  // Reports each pair that stands to the master.
  void ReportPairs();
  // Reports no pair until Release, so the master does not admit this newcomer.
  void Hold() { held_ = true; }
  void Release();
  bool held() const { return held_; }

  // ---- links. REQUIRES, but for Admit: the pair is known.
  Status Admit(const LinkId& link, const LinkTerms& terms, const Identity* who) const;
  // Returns whether the pair has come to stand with it; the master gets a report.
  [[nodiscard]] bool OnUp(const LinkId& link, const LinkTerms& terms);
  void OnDown(const LinkId& link, const std::string& why);
  void OnDialFailed(PeerId other, bool control, const Status& why);
  void PumpDials();
  // Candidates that are silent are dialled anew.
  void RestartSilent();
  void ForgetOldLosses();
  void WantLanes(PeerId other, std::uint32_t lanes, links::Mesh::End who);

  // ---- control messages
  bool HasControl(PeerId other) const { return mesh_.HasControl(other); }
  // Now, or when its control link is up again.
  void Send(PeerId to, control::PeerMessage message);
  // Sends the message to all other members.
  void Broadcast(const control::PeerMessage& message);
  // Sends the heartbeat to all peers that can be reached.
  void SendHeartbeats(const control::PeerMessage& heartbeat);
  bool IsHeartbeatDue() const { return ctx_.now - last_heartbeat_ >= ctx_.view().plan.heartbeat; }
  // A message has come. kBroken: its link is to be closed.
  links::ControlStream::Verdict Take(PeerId from, const control::PeerMessage& message);
  // Returns whether it may not have got a message like that yet.
  bool Keeps(PeerId to, const std::function<bool(const control::PeerMessage&)>& like) const;
  // It should learn what was taken before the next heartbeat is due.
  bool MustAcknowledge(PeerId other) const;
  void OnLaneClosed(PeerId from, const control::LaneClosed& closed);

  // ---- frames on lanes
  bool IsUp(const LinkId& lane) const { return lanes_.IsUp(lane); }
  // Returns whether the other end is in this process.
  bool IsInProcess(const LinkId& lane) const { return in_process_.contains(lane); }
  void CountIn(const LinkId& lane) { lanes_.CountIn(lane); }
  void CountOut(const LinkId& lane, const links::SentFrame& frame);
  // The next bytes on the lane failed their checksum: the shell closes it.
  void Refuse(const LinkId& lane) { lanes_.Refuse(lane); }

 private:
  // Seconds of an hour in which a link of one pair broke: it will not get better.
  static constexpr std::uint32_t kLossesMax = 3000;
  static constexpr Duration kLossesTime = std::chrono::hours(1);

  struct Losses {
    std::uint32_t seconds = 0;
    TimePoint last{};
  };

  void LoseControl(PeerId other, const std::string& why);
  // The lane is closed here, and what it carried is settled with the other end.
  void LoseLane(const LinkId& lane, const std::string& why);
  void CountLoss(PeerId other);
  void StartOver(PeerId candidate);
  void ReportPair(PeerId other);
  void SendKept(PeerId to);
  void SendLaneClosed(PeerId to, const control::LaneClosed& closed);
  void SayLanes(PeerId to, std::uint32_t lanes);
  // During a recovery links go down with their peers, which is no reason for a warning.
  Severity LossSeverity() const { return ctx_.views.running() ? Severity::kWarning : Severity::kInfo; }

  Context& ctx_;
  const transfer::Attempts& attempts_;
  Listener& listener_;
  links::Mesh mesh_;
  std::map<PeerId, links::ControlStream> streams_;
  std::set<LinkId> in_process_;
  std::map<PeerId, Duration> round_trips_;  // the shortest seen on any link of the pair
  links::LaneLedger lanes_;
  std::map<PeerId, Losses> losses_;  // in this view, since
  TimePoint losses_since_{};
  TimePoint last_heartbeat_{};
  TimePoint last_tick_{};
  bool held_ = false;
};

}  // namespace ringway::agreement
