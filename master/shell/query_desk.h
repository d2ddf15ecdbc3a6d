// Answers status and plan requests, which anybody may ask, in slices. Pure: whoever runs it decides how much of its
// time that may take.
//
//   Ask --> waits --> [Step] ... --> Answer, to all who asked the same
//
// Status and plans take turns, so that an operator's status never waits for a crowd of plans.
// Requests for the same thing that came before its answer was begun share the answer, so a crowd of clients costs no
// more than one. A plan's report is kept as long as what it was made from stays (PlanInputs). A connection has one
// request at most: that is the caller's to see to.
//
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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
    std::shared_ptr<const std::string> frame;
  };

  // REQUIRES: `message` is a status or plan request, and this connection has no other.
  void Ask(Connection connection, const control::ToMaster& message);
  // The connection is gone: what nobody else has asked is not answered.
  void Forget(Connection connection);
  bool idle() const { return statuses_.empty() && plans_.empty(); }

  // One slice of a request: some milliseconds at most. The answer, if that was its last one.
  // REQUIRES: not idle.
  std::optional<Answer> Step(const Coordinator& coordinator, const ProcessFacts& facts);

  // How often the work was done, whoever had asked for it.
  std::uint64_t status_reports() const { return status_reports_; }
  std::uint64_t plan_reports() const { return plan_reports_; }

 private:
  struct StatusRequest {
    std::vector<Connection> to;
    std::optional<StatusReport> report;  // begun
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

  std::deque<StatusRequest> statuses_;  // two at most: one is begun, one is not
  std::deque<Plan> plans_;
  bool plan_is_next_ = false;
  std::deque<Kept> kept_;  // the newest last
  std::uint64_t status_reports_ = 0;
  std::uint64_t plan_reports_ = 0;
};

}  // namespace ringway
