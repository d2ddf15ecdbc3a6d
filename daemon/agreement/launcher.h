// Begins and ends the attempts of operations, and makes the staged buffers that they compute into.
//
//   Launch --> live --Stop--> over: what it computed is sealed, its window is free
//
// Invariant: the table's retained bytes are those of all operations.
//
// Ownership: the Peer's, as the table of operations, which outlives it.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "daemon/agreement/context.h"
#include "daemon/agreement/membership.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/operation.h"
#include "daemon/transfer/transfer.h"
#include "proto/collective/schedule.h"

namespace ringway::agreement {

class Launcher {
 public:
  // All outlive it.
  Launcher(Context& ctx, OpTable& table, transfer::Transfer& transfer, const Membership& membership)
      : ctx_(ctx), table_(table), transfer_(transfer), membership_(membership) {}
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Returns the algorithm, which is the same on every rank; a ring where the planned one would need too much memory.
  Algorithm AlgorithmOf(const Operation& op) const;
  // Made once a view: of many ranks it takes longer than a small operation. An all_to_all_v has its own.
  std::shared_ptr<const collective::Schedule> ScheduleOf(const Submission& submission);
  // Returns the ranks of this daemon, this one among them, that send each other nothing of the operation
  // (collective::HostRound); empty: none. The same on each of them.
  std::vector<Rank> RanksByMemory(const Descriptor& descriptor) const;
  // Returns the bound on its result's error; 0 where nothing is lost. Made once a view.
  double ErrorBoundOf(const Descriptor& descriptor);
  void OnView() {
    schedules_.clear();
    error_bounds_.clear();
  }

  // Returns whether the eager window does not hold it: nobody sends READY of a small operation at once, and all may
  // wait for the next one of its channel.
  bool GoesAtOnce(const Operation& op) const;
  void Launch(Operation& op, std::shared_ptr<const collective::Schedule> schedule);
  void Stop(Operation& op);
  // Its result is served to those who lack it. REQUIRES: it has one, which all share.
  void Serve(Operation& op, PeerId to);
  // Releases the operation's copies, which nobody will ask for.
  void Unretain(Operation& op);

 private:
  bool IsToBeRetained(const Operation& op) const;
  // Copies of result and input, for those who may lack them when it is reported.
  void Retain(Operation& op, bool with_input);
  // Before what computed it goes, or is served.
  static void Seal(Operation& op);

  Context& ctx_;
  OpTable& table_;
  transfer::Transfer& transfer_;
  const Membership& membership_;
  // Those of this view; error bounds by what they depend on.
  using ScheduleKey = std::tuple<OpKind, Algorithm, std::uint8_t>;  // the last: the root
  std::map<ScheduleKey, std::shared_ptr<const collective::Schedule>> schedules_;
  std::map<std::tuple<OpKind, Algorithm, ReduceOp, DType, Codec, Rounding, bool>, double> error_bounds_;
};

}  // namespace ringway::agreement
