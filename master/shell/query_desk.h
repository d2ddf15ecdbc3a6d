// Answers status and plan requests, which anybody may send, in slices. Pure: the caller decides how much of its time
// they may take.
//
//   Ask --> queued --> [Step] ... --> Answer, to all that asked for the same
//
//   fairness  status and plan requests take turns, so that many plans do not delay an operator's status
//   sharing   equal requests that arrive before their answer is begun share it: a crowd costs no more than one client
//   cache     a plan's report is reused while its inputs are unchanged (PlanInputs)
//
// Threads: one. The caller ensures that a connection has at most one request.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "master/coordination/coordinator.h"
#include "master/coordination/plan_report.h"
#include "master/coordination/status.h"

namespace ringway {

class QueryDesk {
 public:
  using Connection = std::uint64_t;
  struct Answer {
    std::vector<Connection> to;
    control::FromMaster message;
    std::shared_ptr<const std::string> frame;  // the message's
  };

  // REQUIRES: `message` is a status or plan request, and this connection has no other.
  void Ask(Connection connection, const control::ToMaster& message);
  // The connection is gone; requests that no other connection shares are dropped.
  void Forget(Connection connection);
  // Drops the plan requests and returns who asked for them: this master leads no more.
  std::vector<Connection> TakePlans();
  bool idle() const { return statuses_.empty() && plans_.empty(); }

  // Works on one slice of a request, some milliseconds at most. Returns the answer after its last slice.
  // REQUIRES: not idle.
  std::optional<Answer> Step(const Coordinator& coordinator, const ProcessFacts& facts);

  // Number of reports made.
  std::uint64_t status_reports() const { return status_reports_; }
  std::uint64_t plan_reports() const { return plan_reports_; }

 private:
  struct StatusRequest {
    std::vector<Connection> to;
    StatusReport report;
    bool is_begun = false;
  };
  struct Plan {
    control::PlanRequest request;
    std::vector<Connection> to;
  };
  struct Kept {
    PlanInputs inputs;
    std::string json;
  };

  control::FromMaster ExplainedPlan(const Coordinator& coordinator, const control::PlanRequest& request);
  const std::string& KeptPlan(PlanInputs inputs);

  std::deque<StatusRequest> statuses_;  // of equal ones at most two: one begun, one not
  std::deque<Plan> plans_;
  bool plan_is_next_ = false;
  std::deque<Kept> kept_;  // the newest last
  std::uint64_t status_reports_ = 0;
  std::uint64_t plan_reports_ = 0;
};

}  // namespace ringway
