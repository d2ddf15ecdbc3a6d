#include "daemon/runtime/pair_transport.h"

#include <algorithm>
#include <utility>

#include "proto/segment_header.h"

namespace ringway::daemon {

// ---- links

void PairTransport::TakeControl(std::shared_ptr<net::ControlLink> link, bool within_host) {
  if (control_ != nullptr) control_->Close();
  control_ = std::move(link);
  flow_.SetWithinHost(within_host);
}

void PairTransport::TakeLane(const std::shared_ptr<net::Lane>& lane, std::size_t first) {
  if (std::exchange(first_lanes_, first) != first) CloseLanes();
  const std::size_t index = lane->label().link.lane.value;
  lanes_.resize(std::max({lanes_.size(), first, index + 1}));
  if (lanes_[index] != nullptr) lanes_[index]->Close();
  lanes_[index] = lane;
  looks_.resize(lanes_.size());
  looks_[index] = {};
  flow_.lanes().OnOpened(index, lanes_.size());
}

void PairTransport::RetireLane(std::shared_ptr<net::Lane>& lane) {
  if (lane == nullptr) return;
  net::Lane::Keep keep = retire_to_(lane->label().link.lane);
  const std::shared_ptr<net::Lane> ended = std::exchange(lane, nullptr);
  if (keep)
    ended->Retire(std::move(keep));
  else
    ended->Close();
}

void PairTransport::DropLane(LaneId id) {
  if (id.value < lanes_.size()) RetireLane(lanes_[id.value]);
}

bool PairTransport::CloseLane(LaneId id) {
  if (id.value >= lanes_.size() || lanes_[id.value] == nullptr) return false;
  std::exchange(lanes_[id.value], nullptr)->Close();
  return true;
}

void PairTransport::Close() {
  CloseLanes();
  CloseControl();
}

void PairTransport::Retire() {
  for (auto& lane : lanes_) RetireLane(lane);
  ForgetLanes();
  CloseControl();
}

void PairTransport::CloseControl() {
  if (control_ == nullptr) return;
  control_->Flush();
  std::exchange(control_, nullptr)->Close();
}

void PairTransport::CloseLanes() {
  for (const auto& lane : lanes_) {
    if (lane != nullptr) lane->Close();
  }
  ForgetLanes();
}

void PairTransport::ForgetLanes() {
  lanes_.clear();
  looks_.clear();
  flow_.lanes().OnAllClosed();
}

std::size_t PairTransport::connections() const {
  return static_cast<std::size_t>(std::count_if(
      lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane != nullptr && lane->has_connection(); }));
}

// ---- flow

LaneState PairTransport::state(std::size_t i) const {
  const net::Lane* const lane = lanes_[i].get();
  if (lane == nullptr) return {};
  return {.up = true, .every_size = lane->send_payload_bytes_max() == kPayloadBytesMax, .idle = lane->idle()};
}

std::vector<LaneState> PairTransport::States() const {
  std::vector<LaneState> out;
  for (std::size_t i = 0; i < lanes_.size(); ++i) out.push_back(state(i));
  return out;
}

std::vector<LaneTraffic> PairTransport::Traffic() {
  std::vector<LaneTraffic> out;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    LastLook& last = looks_[i];
    if (lanes_[i] == nullptr)
      last = {};
    else if (last.MayDiffer(state(i)))
      last = {.traffic = lanes_[i]->traffic(), .moved = false};
    out.push_back(last.traffic);
  }
  return out;
}

void PairTransport::Renew(std::size_t i) {
  if (i >= lanes_.size() || !state(i).up || !state(i).every_size) return;
  lanes_[i]->Renew();
  looks_[i].moved = true;
}

flow::PairFlow::Verdict PairTransport::Sample(bool waits, TimePoint now) {
  const std::vector<LaneState> states = States();
  if (!flow_.Look(states, now)) return {};
  flow::PairFlow::Verdict verdict = flow_.Judge(states, Traffic(), waits, now);
  for (const std::size_t i : verdict.renew) Renew(i);
  return verdict;
}

void PairTransport::Keep() {
  if (flow_.within_host()) return;
  flow_.pacer().Adopt();
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i] != nullptr) lanes_[i]->Pace(flow_.pacer().BurstLimit(state(i).every_size));
  }
}

std::uint64_t PairTransport::resent_bytes() {
  std::uint64_t bytes = 0;
  for (const LaneTraffic& lane : Traffic()) bytes += lane.resent_bytes;
  return bytes;
}

PairStatus PairTransport::status() {
  const std::vector<LaneState> states = States();
  const std::vector<LaneTraffic> traffic = Traffic();
  const std::size_t large = flow_.large_lanes(lanes_.size());
  PairStatus status{.other = other_,
                    .lanes_up = static_cast<std::uint32_t>(std::ranges::count(states, true, &LaneState::up)),
                    .round_trip = flow::LaneLook(states, traffic, large).round_trip()};
  flow::ForEachUsed(*this, large, [&](std::size_t) { ++status.lanes_used; });
  status.rate_limit = flow_.pacer().limit();
  for (const LaneTraffic& lane : traffic) status.retransmits += lane.retransmits;
  return status;
}

}  // namespace ringway::daemon
