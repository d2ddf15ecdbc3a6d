#include "master/shell/query_desk.h"

#include <algorithm>
#include <utility>

#include "proto/check.h"
#include "proto/frame_codec.h"

namespace ringway {
namespace {

constexpr std::size_t kPlansKept = 8;
constexpr std::size_t kStatusBytesMax = kFrameBytesMax - 1024;  // room for the enclosing message

}  // namespace

void QueryDesk::Ask(Connection connection, const control::ToMaster& message) {
  RINGWAY_CHECK(message.has_status() || message.has_plan());
  if (message.has_status()) {
    // One that was begun may be out of date.
    const StatusQuery query = QueryOf(message.status());
    const auto same = std::find_if(statuses_.begin(), statuses_.end(), [&](const StatusRequest& request) {
      return !request.is_begun && request.report.query() == query;
    });
    if (same != statuses_.end()) return same->to.push_back(connection);
    return statuses_.push_back({.to = {connection}, .report = StatusReport(kStatusBytesMax, query)});
  }
  const auto same = std::find_if(plans_.begin(), plans_.end(), [&](const Plan& plan) {
    return plan.request.bytes() == message.plan().bytes() && plan.request.group() == message.plan().group();
  });
  if (same != plans_.end()) return same->to.push_back(connection);
  plans_.push_back({.request = message.plan(), .to = {connection}});
}

void QueryDesk::Forget(Connection connection) {
  const auto forget = [connection](auto& requests) {
    for (auto& request : requests) std::erase(request.to, connection);
    std::erase_if(requests, [](const auto& request) { return request.to.empty(); });
  };
  forget(statuses_);
  forget(plans_);
}

std::vector<QueryDesk::Connection> QueryDesk::TakePlans() {
  std::vector<Connection> out;
  for (const Plan& plan : std::exchange(plans_, {})) out.insert(out.end(), plan.to.begin(), plan.to.end());
  return out;
}

std::optional<QueryDesk::Answer> QueryDesk::Step(const Coordinator& coordinator, const ProcessFacts& facts) {
  control::FromMaster message;
  std::vector<Connection> to;
  if (plans_.empty() || (!statuses_.empty() && !plan_is_next_)) {
    StatusRequest& request = statuses_.front();
    request.is_begun = true;
    plan_is_next_ = true;
    if (request.report.Step(coordinator)) return std::nullopt;
    ++status_reports_;
    message.mutable_status()->set_json(request.report.Finish(coordinator, facts));
    message.mutable_status()->set_stands_by(!facts.leads);
    message.mutable_status()->set_leader(facts.leader);
    to = std::move(request.to);
    statuses_.pop_front();
  } else {
    plan_is_next_ = false;
    message = ExplainedPlan(coordinator, plans_.front().request);
    to = std::move(plans_.front().to);
    plans_.pop_front();
  }
  std::string frame;
  AppendFrame(message, frame);
  return Answer{.to = std::move(to),
                .message = std::move(message),
                .frame = std::make_shared<const std::string>(std::move(frame))};
}

control::FromMaster QueryDesk::ExplainedPlan(const Coordinator& coordinator, const control::PlanRequest& request) {
  Result<PlanInputs> inputs = PlanInputsOf(coordinator.FindGroup(request.group()), request);
  control::FromMaster message;
  control::PlanReply& reply = *message.mutable_plan();
  reply.set_code(static_cast<std::uint32_t>(inputs.ok() ? Code::kOk : inputs.status().code()));
  if (inputs.ok()) {
    reply.set_json(KeptPlan(std::move(inputs).value()));
  } else {
    reply.set_text(inputs.status().text());
  }
  return message;
}

const std::string& QueryDesk::KeptPlan(PlanInputs inputs) {
  const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& plan) { return plan.inputs == inputs; });
  if (kept != kept_.end()) return kept->json;
  ++plan_reports_;
  std::string json = PlanJson(inputs);
  if (kept_.size() == kPlansKept) kept_.pop_front();
  kept_.push_back({.inputs = std::move(inputs), .json = std::move(json)});
  return kept_.back().json;
}

}  // namespace ringway
