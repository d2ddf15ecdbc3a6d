// One membership of one group, whole, without I/O: events and the time go in, actions come out.
//
// A Peer joins the view machine (who is in the group, freezing, verdicts), the operation table (what is open, complete,
// retained), the mesh (which links must stand) and the executors (which bytes go where). The daemon's data thread owns
// it; the simulation owns hundreds of them.
//
//   shell (data thread)                                   Peer
//     OnMaster, OnPeerMessage, OnLinkUp/Down, Submit ...  -->
//                                                         <--   TakeActions(): messages, dials, completions, notes
//     lane readable: header                               -->   OnHeader: where the payload goes
//     lane readable: whole payload                        -->   OnPayload: verified, reduced, forwarded
//     lane writable                                       -->   NextSegment: what to send next
//     HasWork, after everything else had its turn         -->   Work: a slice of copies and sums
//
// Copies and sums that no frame brings along (a world of one, a result that goes to its trainer, what came too early)
// are done in slices of about PeerOptions::slice_bytes: a little at once, the rest by Work, between which other events
// get their turn. So no heartbeat waits for them, however large or many the operations.
//
// Duties of the shell: call TakeActions after every event and carry the actions out in order; while HasWork, call Work
// as an event of its own, behind those that wait already; call Tick at least every heartbeat interval; before each read
// into Inbound::target, ask IsLive(attempt) and divert to discard if it is not.
//
// Threads: one. Errors: a peer that breaks the protocol yields a Status from OnHeader or OnPayload; the shell closes
// that lane. Nothing here throws, logs, reads a clock or knows a socket.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/agreement/peer_values.h"
#include "daemon/agreement/view.h"
#include "daemon/flow/traffic.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

class Peer {
 public:
  // `self` and `group` as the master accepted them.
  Peer(PeerId self, std::string group, PeerOptions options = {});
  ~Peer();
  Peer(Peer&&) noexcept;

  // ---- control events. Messages for another peer id are the shell's to route, not to pass here.
  void OnCandidates(const control::Candidates& candidates, TimePoint now);
  void OnForget(const control::Forget& forget, TimePoint now);
  void OnPending(const control::Pending& pending);
  void OnView(const control::ViewFor& view, TimePoint now);
  void OnAbort(Epoch epoch, TimePoint now);
  // Prepared views from this epoch on are void.
  void OnRevokePrepared(Epoch first);
  void OnEvicted(Code code, const std::string& text);
  // kProtocol if it cannot be the next one, or describes what cannot be: close the control link, which is then dialled
  // again.
  Status OnPeerMessage(PeerId from, const control::PeerMessage& message, TimePoint now);
  // The master's connection is back after a break: what it may have missed is sent again.
  void OnMasterBack(TimePoint now);

  // Returns Ok if the connection `link` is wanted on these terms; kJoinRefused with the reason if not. `who` is the
  // authenticated dialler; null without certificates.
  Status Admit(const LinkId& link, const LinkTerms& terms, const Identity* who) const;
  // Returns the name of the other's daemon; empty: the pair is not known.
  std::string DaemonOf(PeerId other) const;
  // The link stands (dialled or accepted). A second link with the same id replaces the first: the shell closes the old
  // one without OnLinkDown.
  void OnLinkUp(const LinkId& link, const LinkTerms& terms, TimePoint now);
  void OnLinkDown(const LinkId& link, const std::string& why, TimePoint now);
  // kJoinRefused: something answered, and there is no such peer. Any other code: nothing is known.
  void OnDialFailed(PeerId other, bool control, const Status& why, TimePoint now);

  // ---- trainer events
  // The newcomer has the state, or goes without: from now on it may be admitted.
  void OnStateTaken(TimePoint now);
  // kShuttingDown after Leave. REQUIRES: the shell has checked descriptor, ranges and channel.
  Status Submit(Submission submission, TimePoint now);
  void OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready);
  void Cancel(std::uint64_t token, TimePoint now);
  // Replaces Submission::time_limit, from now.
  void SetDeadline(std::uint64_t token, Duration after, TimePoint now);
  // The trainer wants to go, or died with all its inputs whole: finish what is open, hand over what others lack, leave,
  // Ended(kLeft). At `deadline` it leaves whatever stands.
  void Leave(TimePoint deadline, TimePoint now);
  // The trainer died in the middle of copying an input in: leave at once.
  void Abandon(TimePoint now);

  // Returns whether there are copies or sums to do; Work does a slice of them.
  bool HasWork() const;
  void Work();

  // Heartbeats, silence, redials, deadlines. Call at least every heartbeat interval, after pending input was handled.
  // Before the Ticks of all peers of the host: whether operations are in flight here, so that none of them probes.
  void NoteWork(TimePoint now);
  void Tick(TimePoint now);

  // Takes samples of the lanes of pairs with traffic; the rates that they show are reported to the master (paths.h).
  // Pairs within one host have no path to measure and are not sampled.
  void OnPathSamples(std::span<const flow::PathSample> samples, const flow::Bandwidth& uplink, TimePoint now);
  // So many lanes to the other are of use here, from now on: more are opened, or those not of use to it either closed.
  void WantLanes(PeerId other, std::uint32_t lanes, TimePoint now);

  // ---- data path
  Result<Inbound> OnHeader(const LinkId& lane, const SegmentHeader& header);
  // The payload of the last header of this lane is whole, and `hash` is its Hash64: whoever reads a payload makes it,
  // maybe on another thread. kProtocol if it is not the header's: close the lane.
  Status OnPayload(const LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash);
  bool IsLive(std::uint64_t attempt) const;
  // The next segment for this lane with at most `payload_bytes_max`, if there is one: it counts as sent. Codecs encode
  // into `scratch`, which must hold payload_bytes_max and stay untouched until the segment is written.
  bool NextSegment(const LinkId& lane, std::uint32_t payload_bytes_max, std::span<std::byte> scratch, Outbound& out);
  // Makes an empty frame, which the other side skips; returns false if the lane is down.
  bool EmptyFrame(const LinkId& lane, Outbound& out);
  // Peers for which NextSegment may give something.
  std::vector<PeerId> PeersWithWork() const;
  // Returns whether any operation's codec needs `scratch` in NextSegment.
  bool NeedsScratch() const;

  std::vector<Action> TakeActions();
  PeerStatus GetStatus() const;
  const PeerCounts& counts() const;
  // What has waited for long; nothing: Wait::what is empty.
  const Wait& wait() const;
  // Epoch 0 before it is a member.
  const View& view() const;
  // The sequence number that the next submission on this channel gets.
  std::uint64_t NextSequence(ChannelId channel) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringway::agreement
