// The values that cross the seam between a Peer and its shell: submissions in, actions out, frames both ways, and what
// it reports about itself.
//
// Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "daemon/agreement/watchdog.h"
#include "daemon/buffers/submission.h"
#include "daemon/collective/host_board.h"
#include "daemon/flow/prober.h"
#include "daemon/links/frames.h"
#include "daemon/links/link.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/duration_counts.h"
#include "proto/ids.h"
#include "proto/log_field.h"
#include "proto/memory_budget.h"
#include "proto/peer_counts.h"
#include "proto/segment_header.h"

namespace ringway::agreement {

using links::CloseLinks;
using links::Dial;
using links::LinkId;
using links::LinkTerms;

using buffers::Complete;  // an action: the trainer's slot is filled now
using buffers::Keep;
using buffers::Submission;

using links::Inbound;
using links::Outbound;

// ---- actions

// On the control link; dropped where there is none: it is kept, and sent again when the link is up.
struct ToPeer {
  PeerId to;
  control::PeerMessage message;
};
struct ToMaster {
  control::ToMaster message;
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
// A newcomer may take the state of these members before it is admitted, for which it waits until OnStateTaken.
struct StateHeld {
  std::vector<PeerId> members;
};
// To a member: this newcomer takes its state, or does not any more.
struct NewcomerAsks {
  PeerId newcomer;
  bool asks = true;
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
  LogFields fields;
  Severity severity = Severity::kInfo;
};

using Action = std::variant<ToPeer, ToMaster, Dial, CloseLinks, Complete, Joined, StillPending, StateHeld, NewcomerAsks,
                            Ended, Note>;

// What an operation or a message has waited for since long.
struct Wait {
  std::string what;          // its name; empty: nothing waits
  std::optional<OpName> op;  // nothing: it is a message
  Duration age{};            // since it was submitted
  std::vector<PeerId> on;    // whose trainers have not submitted it, as far as is known here
  std::string reason;        // in words: their names, "data", or "a new view"
  std::string text() const { return what.empty() ? "" : what + " for " + reason; }
};

struct PeerStatus : PeerCounts {
  PeerDurations durations;
  std::string group;
  PeerId self;
  Epoch epoch;
  bool frozen = false;
  std::optional<std::uint32_t> rank;
  std::vector<control::PeerInfo> members;  // rank order
  std::vector<std::uint32_t> ring;
  std::vector<std::uint32_t> shares;  // proto/collective/shares.h
  std::uint64_t ops_open = 0;
  Wait wait;                         // of the oldest operation that has waited for a second (or the detection time)
  std::uint64_t held_bytes = 0;      // of frames that came too early
  std::uint64_t retained_bytes = 0;  // of results kept for members that may lack them
};

// The daemon of a peer.
struct Home {
  std::string daemon;        // its name
  std::string address;       // where its own peers find each other
  bool is_reachable = true;  // others may be able to dial it
};

struct PeerOptions {
  std::uint64_t retained_bytes_max = 64 << 20;  // of all results that it keeps for others
  std::uint64_t slice_bytes = 1 << 20;          // copied or added up at once; a few hundred microseconds, 2 ms at worst
  std::shared_ptr<MemoryShare> memory = nullptr;      // the session's; null: no limit
  Duration stuck_after = Watchdog::kPatience;         // see watchdog.h
  std::shared_ptr<flow::ProbeBook> probes = nullptr;  // the host's; null: its own
  Home home = {};
  bool takes_state = false;                                // of the members, before it is admitted
  std::shared_ptr<collective::HostBoard> board = nullptr;  // the daemon's; null: all operations go over links
  std::function<void()> wake = {};                         // another peer's event has given it work (HasWork)
};

}  // namespace ringway::agreement
