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

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "daemon/collective/executor.h"
#include "daemon/core/path_meter.h"
#include "daemon/core/watchdog.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/memory_budget.h"
#include "proto/result.h"
#include "proto/segment_header.h"

namespace ringway::core {

using collective::Keep;

// A link of a pair: the control link or a lane.
struct LinkId {
  PeerId other;
  bool control = false;
  LaneId lane;
  friend auto operator<=>(const LinkId&, const LinkId&) = default;
};

// What a trainer submits. `input` is mapped read-only; `result` is `count` elements that only this operation writes.
struct Submission {
  std::uint64_t token = 0;  // the session's own name for it; comes back in Complete
  ChannelId channel;
  Descriptor descriptor;               // its schedule is set when the operation starts
  std::optional<Algorithm> algorithm;  // nothing: the plan's choice
  const std::byte* input = nullptr;
  std::byte* result = nullptr;
  Keep keep;                            // holds the mappings while anything may touch them
  std::uint64_t input_bytes_ready = 0;  // grows by OnStaged; all of it for inputs that are not staged
  std::optional<TimePoint> deadline;    // then all ranks are asked to fail it with kDeadline
};

// ---- actions

// On the control link; dropped where there is none: it is kept, and sent again when the link is up.
struct ToPeer {
  PeerId to;
  control::PeerMessage message;
};
struct ToMaster {
  control::ToMaster message;
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
// The trainer is told now: fill the slot.
struct Complete {
  std::uint64_t token = 0;
  Code code = Code::kOk;
  std::string text;
  OpName op;
  Epoch epoch;                       // in which the result was computed
  std::vector<PeerId> contributors;  // in rank order of that epoch
  std::uint32_t rank = 0;            // this peer's among them
  std::uint64_t wire_bytes = 0;
  std::uint32_t retries = 0;
  bool update_waits = false;
  Algorithm algorithm = Algorithm::kRing;  // what it was computed with here, in the newest attempt
  std::uint64_t bytes = 0;                 // of its buffer; 0 for an UpdateView
  Codec codec = Codec::kNone;
  TimePoint submitted{};
};
// First view: the trainer's join is answered.
struct Joined {
  Epoch epoch;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
};
// Why the join still waits.
struct StillPending {
  Code code = Code::kOk;
  std::string text;
};
// The membership is over; every open operation has been completed with this code before. Destroy the Peer.
struct Ended {
  Code code = Code::kOk;
  std::string text;
};
// For the log: an event name and fields, at state changes only. kError: a fault of this program.
enum class Severity : std::uint8_t { kDebug, kInfo, kWarning, kError };
struct Note {
  std::string event;
  std::string fields;  // "epoch=1.4 lost=7"
  Severity severity = Severity::kInfo;
};

using Action = std::variant<ToPeer, ToMaster, Dial, CloseLinks, Complete, Joined, StillPending, Ended, Note>;

// ---- frames

// Where a payload goes. kDirect: read straight into `target`, payload_bytes of it. kScratch: read into a buffer of the
// shell, then OnPayload. kDiscard: skip the payload, do not call OnPayload.
struct Inbound {
  enum class Kind : std::uint8_t { kDirect, kScratch, kDiscard };
  Kind kind = Kind::kDiscard;
  std::byte* target = nullptr;
  std::uint64_t attempt = 0;  // for IsLive
  Keep keep;                  // holds the memory behind target
};

// A segment to send: header, then payload. `keep` holds the memory behind payload until the last byte is written.
struct Outbound {
  std::array<std::byte, kSegmentHeaderBytes> header;
  std::span<const std::byte> payload;
  Keep keep;
};

// What only grows.
struct PeerCounts {
  std::uint64_t ops_done = 0, ops_retried = 0, ops_failed = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t lanes_lost = 0, segments_resent = 0;
  std::uint64_t controls_lost = 0;  // control links that broke and were dialled again
  std::uint64_t ops_stuck = 0;      // found by the watchdog (watchdog.h): faults of this program
  std::uint64_t probe_bytes = 0;    // sent to measure paths
};

struct PeerStatus : PeerCounts {
  std::string group;
  PeerId self;
  Epoch epoch;
  bool frozen = false;
  std::optional<std::uint32_t> rank;
  std::vector<control::PeerInfo> members;  // rank order
  std::vector<std::uint32_t> ring;
  std::vector<std::uint32_t> shares;  // proto/shares.h
  std::uint64_t ops_open = 0;
  std::string waits;  // the oldest operation that has waited for longer than the detection time, and for whom
  std::uint64_t held_bytes = 0;      // of frames that came too early
  std::uint64_t retained_bytes = 0;  // of results kept for members that may lack them
};

struct PeerOptions {
  std::uint64_t retained_bytes_max = 64 << 20;  // of all results that it keeps for others
  std::uint64_t slice_bytes = 1 << 20;          // copied or added up at once; a few hundred microseconds, 2 ms at worst
  std::shared_ptr<MemoryShare> memory = nullptr;  // the session's; null: no limit
  Duration stuck_after = Watchdog::kPatience;     // see watchdog.h
};

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
  void OnTakeBack(Epoch first);
  void OnEvicted(Code code, const std::string& text);
  // kProtocol if it cannot be the next one: close the control link, which is then dialled again.
  Status OnPeerMessage(PeerId from, const control::PeerMessage& message, TimePoint now);
  // The master's connection is back after a break: what it may have missed is sent again.
  void OnMasterBack(TimePoint now);

  // Whether a connection that says it is `link` of `lanes` lanes is wanted; kJoinRefused with the reason if not.
  Status Admit(const LinkId& link, std::uint32_t lanes) const;
  // The link stands (dialled or accepted). A second link with the same id replaces the first: the shell closes the old
  // one without OnLinkDown.
  struct LinkTerms {
    std::uint32_t lanes = 0;        // of the pair, at first
    std::uint32_t lanes_max = 0;    // .. and at most; said by who dialled
    std::uint64_t generation = 0;   // of this lane
    Duration round_trip{};          // of the connection; 0: not known
    std::uint64_t probe_bytes = 0;  // to spend, three times, on measuring the pair when it stands
  };
  void OnLinkUp(const LinkId& link, const LinkTerms& terms, TimePoint now);
  void OnLinkDown(const LinkId& link, const std::string& why, TimePoint now);
  // kJoinRefused: something answered, and there is no such peer. Any other code: nothing is known.
  void OnDialFailed(PeerId other, bool control, const Status& why, TimePoint now);

  // ---- trainer events
  // kShuttingDown after Leave. REQUIRES: the shell has checked descriptor, ranges and channel.
  Status Submit(Submission submission, TimePoint now);
  void OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready);
  void Cancel(std::uint64_t token, TimePoint now);
  // The trainer wants to go, or died with all its inputs whole: finish what is open, hand over what others lack, leave,
  // Ended(kLeft). At `deadline` it leaves whatever stands.
  void Leave(TimePoint deadline, TimePoint now);
  // The trainer died in the middle of copying an input in: leave at once.
  void Abandon(TimePoint now);

  // Whether there are copies or sums to do; Work does a slice of them.
  bool HasWork() const;
  void Work();

  // Heartbeats, silence, redials, deadlines. Call at least every heartbeat interval, after pending input was handled.
  void Tick(TimePoint now);

  // What the lanes of pairs with traffic say, now and then; what they show is told to the master (path_meter.h). Never
  // of pairs whose two ends are one host: there is no path to measure.
  void OnPathSamples(std::span<const PathSample> samples, TimePoint now);
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
  // An empty frame, which the other side skips; false if the lane is down.
  bool EmptyFrame(const LinkId& lane, Outbound& out);
  // Peers for which NextSegment may give something.
  std::vector<PeerId> PeersWithWork() const;
  // Whether any operation's codec needs `scratch` in NextSegment.
  bool NeedsScratch() const;

  std::vector<Action> TakeActions();
  PeerStatus GetStatus() const;
  const PeerCounts& counts() const;
  // Epoch 0 before it is a member.
  const View& view() const;
  // The sequence number that the next submission on this channel gets.
  std::uint64_t NextSequence(ChannelId channel) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringway::core
