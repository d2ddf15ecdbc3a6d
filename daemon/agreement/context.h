// The state that the parts of a Peer share: who it is, the time, the view in force, and where its actions and counts
// go.
//
// Ownership: the Peer's; it outlives all parts. Actions come out in the order in which they were emitted.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/agreement/peer_values.h"
#include "daemon/agreement/view_state.h"
#include "daemon/agreement/watchdog.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/duration_counts.h"
#include "proto/ids.h"
#include "proto/log_field.h"
#include "proto/peer_counts.h"

namespace ringway::agreement {

class Context {
 public:
  Context(PeerId self_id, std::string group_name, PeerOptions peer_options)
      : self(self_id), group(std::move(group_name)), options(std::move(peer_options)), watchdog(options.stuck_after) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const PeerId self;
  const std::string group;
  const PeerOptions options;
  TimePoint now{};  // of the newest event that carried the time
  ViewState views;  // Membership's to move on
  PeerCounts counts;
  PeerDurations durations;  // but for operations, whose end the shell times
  Watchdog watchdog;

  const View& view() const { return views.view(); }
  std::string NameOf(PeerId peer) const;
  // Its name, id and address as far as they are known, for a note.
  LogFields FieldsOf(PeerId other) const;

  void Emit(Action action) { actions_.push_back(std::move(action)); }
  void SendToMaster(control::ToMaster message) { Emit(ToMaster{std::move(message)}); }
  void AddNote(std::string event, LogFields fields, Severity severity = Severity::kInfo) {
    Emit(Note{std::move(event), std::move(fields), severity});
  }
  std::vector<Action> TakeActions() { return std::exchange(actions_, {}); }
  // Something moved at this rank.
  void Moved() { watchdog.Moved(now); }
  // A loss or a fault seen on the data path: Membership acts on it after the event; the newest reason counts.
  void RequestRecoveryLater(std::string reason) { requested_ = std::move(reason); }
  std::optional<std::string> TakeRequest() { return std::exchange(requested_, {}); }

 private:
  std::optional<std::string> requested_;
  std::vector<Action> actions_;
};

}  // namespace ringway::agreement
