// The local ABI: the protocol between client library and daemon on one host.
//
// Transport: a Unix SOCK_SEQPACKET socket, one connection a session, one session a peer (one membership of one group).
// Every packet starts with PacketHeader and is one of the fixed structs below; packets with descriptors carry exactly
// one in SCM_RIGHTS. Bulk data never crosses the socket: it lives in sealed memfds ("regions") that the client creates
// and the daemon maps.
//
//   client                                  daemon
//     Hello + page memfd        -->
//                               <--         HelloReply            (version, or why it was refused)
//     Join                      -->
//                               <--         JoinProgress*         (why it still waits), then JoinReply (with limits)
//                               <--         StateHeld             (only with Join::takes_state, before the JoinReply)
//     StateTaken                -->                               (it may be admitted)
//     RegisterRegion + memfd    -->                               (no reply; a bad region ends the session)
//     Submit                    -->                               (slot: kSubmitted)
//     Progress*                 -->                               (only for staged inputs)
//                               <--         Doorbell              (some slot of the page is kDone)
//     Leave                     -->
//                               <--         LeaveReply
//                               <--         Ended                 (any time: the session is over, and why)
//
// Completion: the daemon fills slot `i` of the SessionPage, then stores `state = kDone` (release). With that store the
// outcome is reported to the trainer. The Doorbell packet only wakes it; several may be merged into one.
//
// Status clients (Hello without a page) and trainers are two kinds: a trainer may not ask for the status, and a status
// client reads each answer before it asks again. Regions are registered after the join.
//
// Trust: the daemon treats every field of every packet and of the page as hostile; a client that breaks the protocol
// loses its own session only. The client checks what the daemon writes as far as its memory safety needs.
//
// Members: the page lists those of the newest view before any result of that view is reported (MemberTable).
//
// Threads: the page is written by both sides under the ownership rule of Slot; nothing else is shared.
#pragma once

#include <ringway/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "proto/encoding_code.h"
#include "proto/versions.h"

namespace ringway::abi {

inline constexpr std::uint32_t kMagic = 0x4C575252;  // "RRWL" in memory
inline constexpr std::uint32_t kVersion = 17;
inline constexpr std::uint32_t kVersionMin = 16;
inline constexpr Versions kVersions{kVersionMin, kVersion};
inline constexpr std::uint32_t kVersionOfReplays = 17;  // with kStateChannel, and all-reduces without some inputs
inline constexpr std::uint32_t kVersionOfKept = 17;     // with Outcome::input_kept

inline constexpr std::uint32_t kSlotCount = 256;        // operations in flight a session
inline constexpr std::uint32_t kWorldSizeMax = 64;      // contributors a result can name
inline constexpr std::uint32_t kTextBytes = 256;        // NUL-terminated texts
inline constexpr std::uint32_t kGroupNameBytes = 128;   // NUL-terminated
inline constexpr std::uint32_t kPeerNameBytes = 64;     // NUL-terminated
inline constexpr std::uint32_t kRegionCountMax = 1024;  // regions a session
inline constexpr std::uint32_t kChannelCountMax = 65;   // channels are numbered 0 .. kChannelCountMax - 1
inline constexpr std::uint32_t kStateChannel = 64;      // of shared states that newcomers replay; never a trainer's
inline constexpr std::uint32_t kPriorityMax = 255;
inline constexpr std::uint32_t kPacketBytesMax = 64 * 1024;

enum class PacketType : std::uint32_t {
  kHello = 1,
  kHelloReply,
  kJoin,
  kJoinProgress,
  kJoinReply,
  kRegisterRegion,
  kUnregisterRegion,
  kSubmit,
  kProgress,
  kCancel,
  kSetDeadline,
  kDoorbell,
  kLeave,
  kLeaveReply,
  kEnded,
  kStatus,
  kStatusReply,
  kStateHeld,
  kStateTaken,
  kTrace,
};

struct PacketHeader {
  std::uint32_t magic;
  PacketType type;
};

// First packet of a session, with the page memfd attached: sizeof(SessionPage) bytes, which may be rounded up to whole
// memory pages; sealed GROW|SHRINK|SEAL. A status client (ringwayctl) sends no descriptor and then only kStatus
// and kTrace.
struct Hello {
  PacketHeader header;
  std::uint32_t version_min;
  std::uint32_t version_max;
  std::uint32_t pid;
  std::uint32_t reserved;
};

struct HelloReply {
  PacketHeader header;
  Code code;
  std::uint32_t version;          // the one chosen
  std::uint64_t daemon_instance;  // random number of the daemon process
  char text[kTextBytes];
};

struct Join {
  PacketHeader header;
  char group[kGroupNameBytes];
  char name[kPeerNameBytes];        // a label for logs; "" lets the daemon choose
  std::uint32_t wait_world;         // a new group is formed with at least this many peers
  std::uint32_t min_world;          // operations fail with kWorldTooSmall below this
  std::uint32_t fail_on_peer_loss;  // 0 or 1, the same on all peers of a group
  std::uint32_t op_deadline_ms;     // an operation that takes longer fails on all ranks with kDeadline; 0: none
  std::uint32_t hung_ms;            // a peer whose trainer stalls all others for so long is evicted; 0: never
  std::uint32_t takes_state;        // 1: where the group has members, it takes their state before it is admitted
};

// Reports why the join still waits, for example "2 of 4 peers are here" or which peer cannot be reached.
struct JoinProgress {
  PacketHeader header;
  Code code;
  std::uint32_t reserved;
  char text[kTextBytes];
};

// The newcomer is not admitted before its StateTaken. `members` may give it the state, each in the StateGroup of the
// two. A newcomer that becomes another one, because the master has forgotten it, gets a second StateHeld.
struct StateHeld {
  PacketHeader header;
  std::uint64_t peer_id;  // its own
  std::uint32_t member_count;
  std::uint32_t reserved;
  std::uint64_t members[kWorldSizeMax];
};

// The daemon ignores it unless `peer_id`, that of the StateHeld it answers, is still the newcomer's.
struct StateTaken {
  PacketHeader header;
  std::uint64_t peer_id;
};

struct JoinReply {
  PacketHeader header;
  Code code;
  std::uint32_t rank;
  std::uint32_t world_size;
  std::uint32_t regions_mib_max;  // of all regions of the session together; 0: no limit
  std::uint64_t peer_id;
  std::uint64_t epoch;
  char text[kTextBytes];
};

// The memfd must be sealed F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL and `bytes` long. The client chooses region_id
// (0 .. kRegionCountMax - 1, not in use). The daemon maps it read-only when it is an input and, separately, writable
// when it is a result.
struct RegisterRegion {
  PacketHeader header;
  std::uint32_t region_id;
  std::uint32_t reserved;
  std::uint64_t bytes;
};

// The daemon unmaps when no operation and no half-written frame uses the region any more.
struct UnregisterRegion {
  PacketHeader header;
  std::uint32_t region_id;
  std::uint32_t reserved;
};

// Describes an operation that a trainer asks for. The client fills it in, the daemon checks each field, and the peer
// runs it. A field that the kind does not use is 0.
struct OpSpec {
  std::uint64_t count;       // elements, as SizesOf takes it
  std::uint64_t root;        // peer id of the root, of a message's other end, or Descriptor::without_from
  std::uint64_t feedback;    // names the tensor whose residual is added (FeedbackOf); 0: none
  std::uint64_t members;     // IsForOneWorld: MembersHash of the members that the input is laid out for
  double weight;             // of this input in an average; 0: all weigh the same
  std::uint32_t world_size;  // IsForOneWorld: how many these are
  std::uint32_t rank;        // HasCounts: the trainer's place among them
  std::uint32_t channel;
  std::uint32_t tag;       // of a message
  std::uint32_t priority;  // at most kPriorityMax; the highest is sent first; messages have none
  std::uint32_t grace_ms;  // how long to wait for more inputs than the quorum; 0 without one
  OpKind kind;
  DType dtype;
  ReduceOp op;
  std::uint8_t algorithm;  // 0: the plan's choice; else an Algorithm + 1 (CodeOf), the same on all ranks
  EncodingCode codec;
  std::uint8_t quorum;  // the code of a Quorum
  Late late;            // kNext needs a quorum and a feedback, which then keeps the input
  std::uint8_t reserved[7];
};

// An algorithm that does not exist gets the code of one that does not.
constexpr std::uint8_t CodeOf(std::optional<Algorithm> algorithm) {
  if (!algorithm) return 0;
  const auto number = static_cast<std::uint8_t>(*algorithm);
  return static_cast<std::uint8_t>((number < kAlgorithmCount ? number : kAlgorithmCount) + 1);
}
// Nothing: the plan's choice. REQUIRES: spec.algorithm <= kAlgorithmCount.
constexpr std::optional<Algorithm> AlgorithmOf(const OpSpec& spec) {
  if (spec.algorithm == 0) return std::nullopt;
  return static_cast<Algorithm>(spec.algorithm - 1);
}

// Returns whether an input that comes late is kept for the next operation of `feedback`.
constexpr bool KeepsLate(const OpSpec& spec) { return spec.late == Late::kNext; }

// One operation. The daemon assigns sequence numbers: a channel's operations are numbered in the order of its Submit
// packets. The input is input_count elements, the result range result_count: SizesOf the kind, but where an output has
// all ranks' parts as many as the trainer has room for. Offsets are multiples of SizeOf(dtype); the ranges may not
// overlap. The region of an empty range is ignored. If `staged` is 1 the input becomes valid as Slot::staged_bytes
// grows, announced by Progress packets.
//
// A message (IsMessage) is numbered in its stream, which its two ends, its channel and its tag name.
//
// A refused submission (Outcome::refused) takes no number. A later one, sent before the trainer read of the refusal,
// would take that number in its place and pair with another operation of the others. So a channel accepts nothing until
// the trainer has read each refusal: `refusals_told` counts those that it has read (for an UpdateView: of all
// channels).
//
// If the kind HasCounts, spec.world_size RankCounts follow in the packet.
struct Submit {
  PacketHeader header;
  OpSpec spec;
  std::uint32_t slot;
  std::uint32_t staged;
  std::uint32_t input_region;
  std::uint32_t result_region;
  std::uint64_t input_offset_bytes;
  std::uint64_t result_offset_bytes;
  std::uint64_t input_count;
  std::uint64_t result_count;
  std::uint64_t refusals_told;
};

// kAllToAllV: the elements from a rank, and the range of the input that goes to it. Other kinds: the rank's part of the
// buffer; nothing is sent.
struct RankCounts {
  std::uint64_t count;
  std::uint64_t send_begin;
  std::uint64_t send_count;
};

// FNV-1a, never 0.
class Fnv {
 public:
  constexpr void Add(std::uint8_t byte) { hash_ = (hash_ ^ byte) * 0x100000001b3U; }
  constexpr std::uint64_t value() const { return hash_ == 0 ? 1 : hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325U;
};

// Hash of peer ids in rank order; `number` converts an id to a number.
template <typename Ids, typename Number = std::identity>
constexpr std::uint64_t MembersHash(const Ids& ids, Number number = {}) {
  Fnv hash;
  for (const auto& id : ids) {
    for (std::uint64_t rest = std::invoke(number, id), i = 0; i < 8; ++i, rest >>= 8)
      hash.Add(static_cast<std::uint8_t>(rest));
  }
  return hash.value();
}

// Returns the name of a tensor as a number.
constexpr std::uint64_t FeedbackOf(std::string_view name) {
  Fnv hash;
  for (const char c : name) hash.Add(static_cast<std::uint8_t>(c));
  return hash.value();
}

struct Progress {
  PacketHeader header;
  std::uint32_t slot;
  std::uint32_t reserved;
};

// A request; the outcome in the slot is agreed on all ranks and may still be success.
struct Cancel {
  PacketHeader header;
  std::uint32_t slot;
  std::uint32_t reserved;
};

// Replaces the deadline of an operation, Join::op_deadline_ms or an earlier one's. It may have ended.
struct SetDeadline {
  PacketHeader header;
  std::uint32_t slot;
  std::uint32_t after_ms;  // from now; 0: it is overdue
};

struct Doorbell {
  PacketHeader header;
};

struct Leave {
  PacketHeader header;
};

struct LeaveReply {
  PacketHeader header;
};

struct Ended {
  PacketHeader header;
  Code code;
  std::uint32_t reserved;
  char text[kTextBytes];
};

// Asks for the daemon's status. The reply is StatusReply followed by JSON text up to the packet's end; longer texts
// take several packets, of which `remaining_bytes` says how much follows after this one.
struct Status {
  PacketHeader header;
};

struct StatusReply {
  PacketHeader header;
  std::uint64_t remaining_bytes;
};

// Asks for what the daemon's flight recorder holds of a group's newest operations. The reply has the form of a
// status's, with an image (proto/flight/layout.h) for text.
struct Trace {
  PacketHeader header;
  char group[kGroupNameBytes];
  std::uint32_t last;  // operations of each channel of each of its peers here; 0: all that are held
  std::uint32_t reserved;
};

enum class SlotState : std::uint32_t { kFree = 0, kSubmitted = 1, kDone = 2 };

// The outcome of an operation: the peer fills it in, and the client makes the trainer's result of it.
struct Outcome {
  Code code;
  std::uint32_t world_size;   // contributors
  std::uint32_t rank;         // this peer's place among them
  std::uint32_t retries;      // aborted attempts before this one
  std::uint64_t epoch;        // view in which the result was computed
  std::uint64_t sequence;     // in its channel
  std::uint64_t wire_bytes;   // bytes this peer sent for the operation, headers and retries included
  float error_bound;          // of a lossy codec (collective/error_bound.h)
  Algorithm algorithm;        // computed the result here
  std::uint8_t update_waits;  // 1: a prepared view waits on every rank; UpdateView will adopt it
  std::uint8_t refused;       // 1: it was not submitted, and has no number
  std::uint8_t input_kept;    // 1: this peer's input came late, and is added to its next one
  std::uint64_t absent;       // contributors, as bits by their place, that took part without an input
  double weight;              // the sum of the weights of the inputs
  std::uint64_t behind;       // later operations of the channel that are done, and not submitted here
};

// One operation in flight. The client owns a kFree or kDone slot, the daemon a kSubmitted one, except for staged_bytes,
// which the client may raise at any time.
struct alignas(64) Slot {
  std::atomic<SlotState> state;
  std::uint32_t reserved;
  std::atomic<std::uint64_t> staged_bytes;
  Outcome outcome;
  std::uint64_t contributors[kWorldSizeMax];  // peer ids in rank order
  char text[kTextBytes];
};

struct MemberEntry {
  std::uint64_t peer_id;
  char name[kPeerNameBytes];
  char site[kPeerNameBytes];  // of its daemon; truncated
};

struct MemberList {
  std::uint64_t epoch;  // 0: nothing was written yet
  std::uint32_t world_size;
  std::uint32_t reserved;
  MemberEntry members[kWorldSizeMax];  // rank order
};

// A seqlock: `changes` is odd while the daemon writes, and has grown afterwards; a reader copies, compares and retries.
// A daemon that dies while it writes leaves it odd for good, so a reader retries a bounded number of times.
struct alignas(64) MemberTable {
  std::atomic<std::uint64_t> changes;
  MemberList list;
};

inline void WriteMembers(MemberTable& table, const MemberList& list) {
  const std::uint64_t before = table.changes.load(std::memory_order_relaxed);
  table.changes.store(before | 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  table.list = list;
  table.changes.store((before | 1) + 1, std::memory_order_release);
}

// Returns false if every attempt met a writer.
inline bool ReadMembers(const MemberTable& table, MemberList* out) {
  constexpr int kTriesMax = 1000;
  for (int i = 0; i < kTriesMax; ++i) {
    const std::uint64_t before = table.changes.load(std::memory_order_acquire);
    *out = table.list;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && table.changes.load(std::memory_order_relaxed) == before) return true;
  }
  return false;
}

// Peer ids of newcomers that take the state of this member, 0 where there is none or it asks no more. The daemon writes
// a free entry, then raises `count`; newcomers for whom there is none wait for one.
inline constexpr std::uint32_t kNewcomersMax = 8;
struct alignas(64) NewcomerTable {
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> peers[kNewcomersMax];
};

struct SessionPage {
  std::uint32_t magic;
  std::uint32_t version;
  Slot slots[kSlotCount];
  MemberTable members;
  NewcomerTable newcomers;
};

// A group of two, in which a member of `group` gives its state to a newcomer before that is admitted. What is sent in
// it yields to all else that leaves the host; who may join `group` may join it.
inline constexpr std::string_view kStateGroupMark = "#state-";
inline std::string StateGroup(const std::string& group, std::uint64_t newcomer, std::uint64_t member) {
  return group + std::string(kStateGroupMark) + std::to_string(newcomer) + "-" + std::to_string(member);
}
// Returns the group whose state travels in the StateGroup `group`; `group` itself if it is none.
inline std::string GroupOfState(const std::string& group) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t mark = group.rfind(kStateGroupMark);
  if (mark == std::string::npos || mark == 0) return group;
  const std::string_view peers = std::string_view(group).substr(mark + kStateGroupMark.size());
  const std::size_t dash = peers.find_first_not_of(kDigits);
  const bool are_two = dash != std::string_view::npos && peers[dash] == '-' && dash > 0 && dash + 1 < peers.size();
  const bool are_digits = are_two && peers.find_first_not_of(kDigits, dash + 1) == std::string_view::npos;
  return are_digits ? group.substr(0, mark) : group;
}
inline bool IsStateGroup(const std::string& group) { return GroupOfState(group) != group; }

static_assert(std::atomic<SlotState>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(OpSpec) == 80 && sizeof(Submit) == 144 && sizeof(RankCounts) == 24 && sizeof(Join) == 224 &&
              sizeof(JoinReply) == 296 && sizeof(RegisterRegion) == 24);
static_assert(sizeof(MemberEntry) == 136 && sizeof(MemberList) == 16 + std::size_t{64} * 136);
static_assert(sizeof(Outcome) == 72 && sizeof(Slot) == 896 && offsetof(Slot, contributors) == 88 &&
              offsetof(Slot, text) == 600);

}  // namespace ringway::abi
