// The part of a PeerRuntime that links it to other peers of its daemon: without connections.
#include <vector>

#include "daemon/runtime/peer_runtime.h"
#include "proto/lane_roles.h"
#include "proto/segment_header.h"

namespace ringway::daemon {
namespace {

constexpr Duration kRoundTrip = std::chrono::microseconds(1);  // the least that is known

std::uint32_t FirstLanesOf(const net::DialRequest& request) {
  return request.control ? 0 : request.lanes != 0 ? request.lanes : kLanesLoopback;
}

// The control link's is 0.
std::vector<LaneId> LanesOf(const net::DialRequest& request) {
  if (request.control) return {LaneId(0)};
  std::vector<LaneId> lanes = request.missing;
  for (std::uint32_t lane = 0; request.missing.empty() && lane < FirstLanesOf(request); ++lane)
    lanes.emplace_back(lane);
  return lanes;
}

// As the end that is dialled has them.
links::LinkTerms TermsOf(const net::DialRequest& request) {
  return {.lanes = FirstLanesOf(request),
          .generation = request.generation,
          .round_trip = kRoundTrip,
          .dialled_all = request.all,
          .in_process = true};
}

links::LinkId LinkOf(const net::DialRequest& request, PeerId other, LaneId lane) {
  return {.other = other, .control = request.control, .lane = lane};
}

}  // namespace

Status PeerRuntime::AdmitInProcess(const net::DialRequest& request) const {
  for (const LaneId lane : LanesOf(request)) {
    if (Status status = Admit(LinkOf(request, request.from, lane), TermsOf(request), nullptr); !status.ok())
      return status;
  }
  return Status::Ok();
}

void PeerRuntime::ConnectInProcess(std::uint64_t serial, const net::DialRequest& request, PeerRuntime& to) {
  if (ended_) return;
  const std::vector<LaneId> lanes = LanesOf(request);
  const auto verdict = dials_.OnAnswer(serial, {.links = lanes.size(), .last = true});
  const links::LinkTerms there = TermsOf(request);
  links::LinkTerms here = there;
  here.lanes_max = here.lanes;
  here.dialled_all = false;
  for (const LaneId lane : lanes) {
    if (!verdict.take) break;
    const links::LinkId link = LinkOf(request, request.to, lane);
    const links::LinkId back = LinkOf(request, request.from, lane);
    if (request.control) {
      const auto ours = std::make_shared<net::InProcessControl>(context_, request.to);
      const auto theirs = std::make_shared<net::InProcessControl>(context_, request.from);
      net::InProcessControl::Join(ours, theirs);
      to.AddInProcess(back, there, theirs);
      AddInProcess(link, here, ours);
      continue;
    }
    const bool small = lane.value < SmallLanes(here.lanes);
    const std::uint32_t bytes_max = small ? kSmallLanePayloadBytes : kPayloadBytesMax;
    const auto ours =
        std::make_shared<net::InProcessLane>(context_, net::LaneLabel{.link = link, .self = options_.self}, bytes_max);
    const auto theirs =
        std::make_shared<net::InProcessLane>(context_, net::LaneLabel{.link = back, .self = request.to}, bytes_max);
    net::InProcessLane::Join(ours, theirs);
    to.AddInProcess(back, there, theirs);
    AddInProcess(link, here, ours);
  }
  ReportDial(verdict);
}

void PeerRuntime::AddInProcess(const links::LinkId& link, const links::LinkTerms& terms,
                               const std::shared_ptr<net::InProcessControl>& control) {
  if (ended_) return control->Close();
  PairWith(link.other).TakeControl(control, true);
  control->Start(this);
  OnStands(link, terms);
}

void PeerRuntime::AddInProcess(const links::LinkId& link, const links::LinkTerms& terms,
                               const std::shared_ptr<net::InProcessLane>& lane) {
  if (ended_) return lane->Close();
  PairWith(link.other).TakeLane(lane, terms.lanes);
  lane->Start(nullptr, this);
  OnStands(link, terms);
}

}  // namespace ringway::daemon
