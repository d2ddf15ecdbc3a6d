// Watches operations that wait for long. It logs them, gives them up at their deadline (of one that has its result, the
// input that would be kept), blames a hung trainer (stragglers.h), and restarts them where nothing can be what they
// wait for (watchdog.h). For sends and recvs it only blames a hung trainer and reports what status shows.
//
// They are looked at once a heartbeat, and when the next deadline is over; heartbeats report to the others how far this
// peer has completed and its trainer submitted, and for how long nothing has moved here.
//
// Ownership: the Peer's. What is found it raises with the membership.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/agreement/context.h"
#include "daemon/agreement/membership.h"
#include "daemon/agreement/message_table.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/stragglers.h"
#include "proto/clock.h"
#include "proto/control.pb.h"
#include "proto/ids.h"

namespace ringway::agreement {

class OperationWatch {
 public:
  // All outlive it.
  OperationWatch(Context& ctx, OpTable& table, const MessageTable& messages, Membership& membership)
      : ctx_(ctx), table_(table), messages_(messages), membership_(membership) {}
  OperationWatch(const OperationWatch&) = delete;
  OperationWatch& operator=(const OperationWatch&) = delete;

  void OnStop() { stragglers_.OnStop(ctx_.now); }
  void OnView();
  // This process did not run for a while, as the others may not have.
  void OnGap() { stragglers_.BeginAnew(ctx_.now); }
  void Tick();

  // REQUIRES: from a member. `early`: of a later view than this one.
  void Heard(PeerId from, const control::PeerHeartbeat& heartbeat, bool early);
  void Describe(control::PeerHeartbeat& heartbeat) const;
  // Fills in the messages that its trainer waits for.
  void Describe(control::MessageWaits& waits) const;
  // Returns what the trainer submits next, as reported to the others. An input that has not grown for the detection
  // time counts as not submitted yet.
  ChannelSeqs SubmittedSeqs() const;
  // The oldest operation or message that has waited for a while.
  const Wait& wait() const { return wait_; }

 private:
  static bool NeedsNoInputOf(const Operation& op, PeerId member);
  std::vector<PeerId> AwaitedBy(const Operation& op) const;
  std::string WaitsFor(const Operation& op) const;
  // Returns whether its deadline has passed since the last look.
  bool IsNewlyOverdue(Operation& op);
  Duration StillFor() const;
  void FireIfStuck();
  void LookAtMessages();
  void BlameTheHung();
  std::string BlameForOperations();
  std::string BlameForMessages();
  std::string SilentFor(PeerId peer) const;
  bool AnyMessage(const std::function<bool(const Message&)>& is_so) const;
  static bool Needs(const Message& message, PeerId other, const Progress& theirs);

  Context& ctx_;
  OpTable& table_;
  const MessageTable& messages_;
  Membership& membership_;
  Stragglers stragglers_;
  TimePoint next_look_{};
  Wait wait_;
  std::uint64_t own_ = 0;                 // how much the trainer here has submitted
  TimePoint own_since_{};                 // when own_ last grew
  std::map<PeerId, std::uint64_t> hung_;  // whom messages waited for in hung_in_, and how much these had submitted
  Epoch hung_in_;                         // a view
};

}  // namespace ringway::agreement
