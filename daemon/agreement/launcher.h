// Begins and ends the attempts of operations: their executors, and the staged buffers that they compute into.
//
//   Launch --> live: executor, buffers, number --Stop--> over: what it computed is sealed, its window is free
//
// Invariants: an operation with an executor has a live attempt. The table's retained bytes are those of all operations.
//
// Ownership: the Peer's, as the table of operations, which outlives it.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "daemon/agreement/attempts.h"
#include "daemon/agreement/context.h"
#include "daemon/agreement/membership.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/operation.h"
#include "daemon/agreement/send_queue.h"
#include "proto/collective/schedule.h"

namespace ringway::agreement {

class Launcher {
 public:
  // All outlive it.
  Launcher(Context& ctx, Attempts& attempts, OpTable& table, SendQueue& queue, Membership& membership)
      : ctx_(ctx), attempts_(attempts), table_(table), queue_(queue), membership_(membership) {}
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // The same on every rank. Where it would need too much memory, a ring does.
  Algorithm AlgorithmOf(const Operation& op) const;
  // Made once a view: of many ranks it takes longer than a small operation. An all_to_all_v has its own.
  std::shared_ptr<const collective::Schedule> ScheduleOf(const Submission& submission);
  // Of its result; 0 where nothing is lost. Made once a view.
  double ErrorBoundOf(const Descriptor& descriptor);
  void OnView() {
    schedules_.clear();
    error_bounds_.clear();
  }

  void Launch(Operation& op, std::shared_ptr<const collective::Schedule> schedule);
  void Stop(Operation& op);
  // Everybody holds its outcome.
  void Forget(const Operation& op);
  // Nobody will ask for its copies.
  void Unretain(Operation& op);

 private:
  bool IsToBeRetained(const Operation& op) const;
  // Copies of result and input, for those who may lack them when the trainer was told.
  void Retain(Operation& op, bool with_input);

  Context& ctx_;
  Attempts& attempts_;
  OpTable& table_;
  SendQueue& queue_;
  Membership& membership_;
  // Of this view; bounds by what they depend on.
  using ScheduleKey = std::tuple<OpKind, Algorithm, std::uint8_t>;  // the last: the root
  std::map<ScheduleKey, std::shared_ptr<const collective::Schedule>> schedules_;
  std::map<std::tuple<OpKind, Algorithm, ReduceOp, DType, Codec, Rounding>, double> error_bounds_;
};

}  // namespace ringway::agreement
