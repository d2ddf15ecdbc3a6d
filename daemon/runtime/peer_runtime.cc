#include "daemon/runtime/peer_runtime.h"

#include <sys/socket.h>

#include <algorithm>
#include <asio/post.hpp>
#include <utility>
#include <variant>

#include "daemon/net/address.h"
#include "daemon/net/socket_options.h"
#include "proto/lane_roles.h"
#include "proto/shell/log.h"

namespace ringway::daemon {

PeerRuntime::PeerRuntime(asio::io_context& context, net::LaneThreads& lane_threads, RuntimeHost* host,
                         RuntimeOptions options, std::shared_ptr<local::TrainerSession> session)
    : context_(context),
      lane_threads_(lane_threads),
      host_(host),
      options_(std::move(options)),
      session_(std::move(session)),
      peer_(options_.self, options_.join.group(), {.memory = session_->memory()}),
      pace_timer_(context),
      tail_timer_(context),
      alive_(std::make_shared<PeerRuntime*>(this)) {
  session_->Attach(this);
}

PeerRuntime::~PeerRuntime() {
  *alive_ = nullptr;
  host_->pacer().Forget(options_.self);
  CloseEverything();
  if (session_ != nullptr) session_->Detach();
}

// ---- events

void PeerRuntime::OnMasterMessage(const control::FromMaster& message) {
  if (ended_) return;
  const TimePoint now = MonotonicNow();
  switch (message.kind_case()) {
    case control::FromMaster::kCandidates:
      peer_.OnCandidates(message.candidates(), now);
      break;
    case control::FromMaster::kForget:
      peer_.OnForget(message.forget(), now);
      break;
    case control::FromMaster::kPending:
      peer_.OnPending(message.pending());
      break;
    case control::FromMaster::kView:
      peer_.OnView(message.view(), now);
      break;
    case control::FromMaster::kAbort:
      peer_.OnAbort(Epoch(message.abort().epoch()), now);
      break;
    case control::FromMaster::kTakeBack:
      peer_.OnTakeBack(Epoch(message.take_back().epoch()));
      break;
    case control::FromMaster::kEvicted: {
      const std::uint32_t code = message.evicted().code();
      peer_.OnEvicted(code > 0 && code < kCodeCount ? static_cast<Code>(code) : Code::kEvicted,
                      message.evicted().text());
      break;
    }
    default:
      return;
  }
  Run();
}

void PeerRuntime::OnMasterBack() {
  if (ended_) return;
  peer_.OnMasterBack(MonotonicNow());
  Run();
}

void PeerRuntime::Tick(TimePoint now) {
  if (ended_) return;
  peer_.Tick(now);
  Run();
  SamplePaths(now);
}

void PeerRuntime::ShutDown(TimePoint deadline) {
  if (ended_) return;
  session_->ReadPending();  // what was submitted before is finished
  if (ended_) return;
  shutting_down_ = true;
  peer_.Leave(deadline, MonotonicNow());
  Run();
}

// ---- links

void PeerRuntime::AddLink(StandingLink link) {
  if (ended_) return;
  const links::LinkId id = link.id;
  links::LinkTerms terms = link.terms;
  terms.round_trip = net::RoundTripOf(link.fd.get());
  if (!net::IsWithinHost(link.fd.get())) terms.probe_bytes = options_.probe_bytes;
  if (id.control)
    AddControl(std::move(link));
  else
    AddLane(std::move(link));
  peer_.OnLinkUp(id, terms, MonotonicNow());
  Run();
}

void PeerRuntime::AddControl(StandingLink link) {
  Pair& pair = pairs_[link.id.other];
  pair.one_host = net::IsWithinHost(link.fd.get());
  if (pair.control != nullptr) pair.control->Close();
  pair.control = std::make_shared<net::ControlLink>(context_, link.id.other);
  // The socket is fresh: its buffer has room for a reply. If not, the other side's handshake fails, which closes it.
  (void)::send(link.fd.get(), link.answer.data(), link.answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  pair.control->Start(std::move(link.fd), std::as_bytes(std::span(link.rest)), this);
}

void PeerRuntime::AddLane(StandingLink link) {
  Pair& pair = pairs_[link.id.other];
  const std::size_t first = link.terms.lanes;
  if (std::exchange(pair.first_lanes, first) != first) CloseLanes(pair);
  const std::size_t lanes = std::max<std::size_t>({pair.lanes.size(), first, link.id.lane.value + 1});
  pair.lanes.resize(lanes);
  pair.tails.resize(lanes);
  pair.tails[link.id.lane.value] = {};
  auto& lane = pair.lanes[link.id.lane.value];
  if (lane != nullptr) lane->Close();
  const bool small = link.id.lane.value < SmallLanes(first);
  lane = lane_threads_.MakeLane({link.id.other, link.id.lane}, small ? kSmallLanePayloadBytes : kPayloadBytesMax);
  (void)::send(link.fd.get(), link.answer.data(), link.answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  lane->Start(std::move(link.fd), std::as_bytes(std::span(link.rest)), this);
}

void PeerRuntime::CloseLanes(Pair& pair) {
  for (const auto& lane : pair.lanes) {
    if (lane != nullptr) lane->Close();
  }
  pair.lanes.clear();
  pair.tails.clear();
}

void PeerRuntime::CloseEverything() {
  for (auto& [other, pair] : pairs_) {
    if (pair.control != nullptr) pair.control->Close();
    CloseLanes(pair);
  }
  pairs_.clear();
  to_flush_.clear();
}

void PeerRuntime::OnDialed(std::uint64_t serial, Result<net::DialedLinks> outcome) {
  const auto found = dials_.find(serial);
  if (found == dials_.end() || ended_) return;
  const OpenDial dial = found->second;
  const bool last = !outcome.ok() || outcome.value().last;
  if (!last) found->second.lanes -= std::min(dial.lanes, outcome.value().links.size());
  if (!last && dial.closed) return;
  if (last) dials_.erase(found);
  const bool replaced = std::any_of(dials_.begin(), dials_.end(), [&](const auto& entry) {
    return entry.second.other == dial.other && entry.second.control == dial.control;
  });
  if (dial.closed && replaced) return;
  if (!outcome.ok() || dial.closed) {
    const Status why =
        outcome.ok() ? Status(Code::kPeerUnreachable, "the link was given up while it was dialled") : outcome.status();
    peer_.OnDialFailed(dial.other, dial.control, why, MonotonicNow());
    return Run();
  }
  const Status failure = outcome.value().failure;
  for (net::DialedLinks::Link& link : outcome.value().links) {
    AddLink(StandingLink{.id = {.other = dial.other, .control = dial.control, .lane = link.lane},
                         .terms = {.lanes = outcome.value().lanes,
                                   .lanes_max = outcome.value().lanes_max,
                                   .generation = dial.generation},
                         .fd = std::move(link.fd),
                         .rest = std::move(link.rest),
                         .answer = {}});
  }
  if (failure.ok() || ended_) return;
  // Others stand, so it is there, whatever it said to this one.
  peer_.OnDialFailed(dial.other, dial.control, Status(Code::kPeerUnreachable, failure.text()), MonotonicNow());
  Run();
}

Result<net::LaneInbound> PeerRuntime::OnLaneHeader(const net::LaneLabel& lane, const SegmentHeader& header) {
  auto judged = peer_.OnHeader(LinkOf(lane), header);
  if (!judged.ok()) return judged.status();
  agreement::Inbound& inbound = judged.value();
  net::LaneInbound out{.kind = net::LaneInbound::Kind::kDiscard,
                       .target = inbound.target,
                       .attempt = inbound.attempt,
                       .keep = std::move(inbound.keep)};
  switch (inbound.kind) {
    case agreement::Inbound::Kind::kDirect:
      out.kind = net::LaneInbound::Kind::kDirect;
      return out;
    case agreement::Inbound::Kind::kScratch:
      out.kind = net::LaneInbound::Kind::kScratch;
      return out;
    case agreement::Inbound::Kind::kDiscard:
      break;
  }
  Run();  // no OnPayload will follow to do it
  return out;
}

Status PeerRuntime::OnLanePayload(const net::LaneLabel& lane, std::span<const std::byte> payload, std::uint64_t hash) {
  Status status = peer_.OnPayload(LinkOf(lane), payload, hash);
  Run();
  return status;
}

void PeerRuntime::OnLaneIdle() { Run(); }

void PeerRuntime::OnLaneClosed(const net::LaneLabel& lane, const std::string& why) {
  if (ended_) return;
  Pair& pair = pairs_[lane.other];
  if (lane.id.value < pair.lanes.size()) pair.lanes[lane.id.value] = nullptr;
  peer_.OnLinkDown(LinkOf(lane), why, MonotonicNow());
  Run();
}

Status PeerRuntime::OnControlMessage(PeerId from, const control::PeerMessage& message) {
  if (ended_) return Status::Ok();
  Status status = peer_.OnPeerMessage(from, message, MonotonicNow());
  Run();
  return status;
}

void PeerRuntime::OnControlClosed(PeerId other, const std::string& why) {
  if (ended_) return;
  pairs_[other].control = nullptr;
  peer_.OnLinkDown({.other = other, .control = true, .lane = {}}, why, MonotonicNow());
  Run();
}

// ---- the trainer

Status PeerRuntime::Submit(local::SubmitOrder order) {
  if (ended_) return {Code::kLeft, "the session has left its group"};
  if (shutting_down_) return {Code::kShuttingDown, "the daemon is stopping and takes no new operations"};
  agreement::Submission submission;
  submission.token = order.token;
  submission.channel = order.channel;
  submission.descriptor = order.descriptor;
  submission.algorithm = order.algorithm;
  submission.input = order.input;
  submission.result = order.result;
  submission.keep = std::move(order.keep);
  submission.input_bytes_ready = order.input_bytes_ready;
  const TimePoint now = MonotonicNow();
  if (order.deadline > Duration::zero()) submission.deadline = now + order.deadline;
  Status status = peer_.Submit(std::move(submission), now);
  Run();
  return status;
}

void PeerRuntime::OnStaged(std::uint64_t token, std::uint64_t input_bytes_ready) {
  if (ended_) return;
  peer_.OnStaged(token, input_bytes_ready);
  Run();
}

void PeerRuntime::Cancel(std::uint64_t token) {
  if (ended_) return;
  peer_.Cancel(token, MonotonicNow());
  Run();
}

void PeerRuntime::Leave() {
  if (ended_) return;
  const TimePoint now = MonotonicNow();
  peer_.Leave(now + options_.grace, now);
  Run();
}

void PeerRuntime::OnTrainerGone(bool inputs_whole) {
  if (ended_) return;
  const TimePoint now = MonotonicNow();
  if (inputs_whole)
    peer_.Leave(now + options_.grace, now);
  else
    peer_.Abandon(now);
  Run();
}

// ---- the loop

void PeerRuntime::Run() {
  run_again_ = true;
  if (running_) return;
  running_ = true;
  while (std::exchange(run_again_, false)) {
    CarryOutActions();
    FlushLinks();
    if (ended_) break;
    if (Pump()) {
      RunLater();
      CarryOutActions();
      FlushLinks();
      break;
    }
  }
  running_ = false;
  if (!ended_ && peer_.HasWork()) WorkLater();
}

// Behind everything that waits already: lanes, control links and timers get their turn between slices.
void PeerRuntime::WorkLater() {
  if (std::exchange(work_posted_, true)) return;
  asio::post(context_, [alive = alive_] {
    PeerRuntime* self = *alive;
    if (self == nullptr || self->ended_) return;
    self->work_posted_ = false;
    self->peer_.Work();
    self->Run();
  });
}

void PeerRuntime::RunLater() {
  if (std::exchange(run_posted_, true)) return;
  asio::post(context_, [alive = alive_] {
    PeerRuntime* self = *alive;
    if (self == nullptr || self->ended_) return;
    self->run_posted_ = false;
    self->Run();
  });
}

void PeerRuntime::CarryOutActions() {
  while (!ended_) {
    std::vector<agreement::Action> actions = peer_.TakeActions();
    if (actions.empty()) return;
    for (agreement::Action& action : actions) {
      std::visit([this](auto& one) { CarryOut(one); }, action);
    }
  }
}

void PeerRuntime::CarryOut(agreement::ToPeer& action) {
  const auto found = pairs_.find(action.to);
  if (found == pairs_.end() || found->second.control == nullptr) return;
  const auto& link = found->second.control;
  link->Send(action.message);
  if (std::find(to_flush_.begin(), to_flush_.end(), link) == to_flush_.end()) to_flush_.push_back(link);
}

void PeerRuntime::CarryOut(agreement::ToMaster& action) { host_->SendToMaster(std::move(action.message)); }

void PeerRuntime::CarryOut(links::Dial& action) {
  const std::uint64_t serial = next_dial_++;
  const std::size_t lanes = action.missing.empty() ? std::max(action.lanes, kLanesRemote) : action.missing.size();
  dials_.emplace(serial, OpenDial{.other = action.other,
                                  .control = action.control,
                                  .generation = action.generation,
                                  .lanes = action.control ? 0 : lanes});
  host_->Dial(net::DialRequest{.group = group(),
                               .from = options_.self,
                               .to = action.other,
                               .address = action.address,
                               .control = action.control,
                               .lanes = action.lanes,
                               .missing = action.missing,
                               .generation = action.generation,
                               .known = action.known},
              serial);
}

void PeerRuntime::CarryOut(links::CloseLinks& action) {
  const auto found = pairs_.find(action.other);
  if (action.lane) {
    if (found == pairs_.end() || action.lane->value >= found->second.lanes.size()) return;
    if (auto& lane = found->second.lanes[action.lane->value]; lane != nullptr) std::exchange(lane, nullptr)->Close();
    return;
  }
  for (auto& [serial, dial] : dials_) {
    if (dial.other == action.other) dial.closed = true;
  }
  host_->pacer().Forget(options_.self, action.other);
  if (found == pairs_.end()) return;
  CloseLanes(found->second);
  if (found->second.control != nullptr) {
    found->second.control->Flush();
    found->second.control->Close();
  }
  pairs_.erase(found);
}

void PeerRuntime::CarryOut(agreement::Complete& action) {
  const bool plain = action.bytes > 0 && action.codec == Codec::kNone && action.retries == 0;
  if (action.code == Code::kOk && plain) {
    times_.Add({action.epoch, action.algorithm, action.bytes, MonotonicNow() - action.submitted});
  }
  if (shell::Shows(shell::Level::kDebug)) LogOutcome(action);
  local::Completion completion;
  completion.token = action.token;
  completion.code = action.code;
  completion.text = std::move(action.text);
  completion.sequence = action.op.seq;
  completion.epoch = action.epoch;
  completion.contributors = action.contributors;
  completion.rank = action.rank;
  completion.wire_bytes = action.wire_bytes;
  completion.retries = action.retries;
  completion.update_waits = action.update_waits;
  completion.algorithm = action.algorithm;
  NameMembers();
  session_->Complete(completion);
}

void PeerRuntime::LogOutcome(const agreement::Complete& action) const {
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(MonotonicNow() - action.submitted);
  agreement::Note note{.event = action.code == Code::kOk ? "operation_done" : "operation_over",
                       .fields = "epoch=" + ToString(action.epoch) + " op=" + ToString(action.op),
                       .severity = agreement::Severity::kDebug};
  note.fields += std::string(" code=") + NameOf(action.code) + " world=" + std::to_string(action.contributors.size()) +
                 " bytes=" + std::to_string(action.bytes) + " wire_bytes=" + std::to_string(action.wire_bytes) +
                 " us=" + std::to_string(took.count()) + " retries=" + std::to_string(action.retries) +
                 " algorithm=" + NameOf(action.algorithm);
  host_->Log(note, options_.self, group());
}

void PeerRuntime::NameMembers() {
  const agreement::View& view = peer_.view();
  if (view.epoch == named_) return;
  named_ = view.epoch;
  session_->NameMembers(view.epoch, view.infos);
}

void PeerRuntime::CarryOut(agreement::Joined& action) {
  NameMembers();
  session_->Joined(
      {.peer = options_.self, .epoch = action.epoch, .rank = action.rank, .world_size = action.world_size});
}

void PeerRuntime::CarryOut(agreement::StillPending& action) { session_->JoinProgress(action.code, action.text); }

void PeerRuntime::CarryOut(agreement::Ended& action) {
  if (std::exchange(ended_, true)) return;
  FlushLinks();
  CloseEverything();
  // A trainer that did not ask to leave is told why it had to.
  if (shutting_down_ && action.code == Code::kLeft)
    session_->End(Code::kShuttingDown, "the daemon is stopping");
  else
    session_->End(action.code, action.text);
  host_->OnPeerEnded(options_.self);
}

void PeerRuntime::CarryOut(agreement::Note& action) { host_->Log(action, options_.self, group()); }

void PeerRuntime::FlushLinks() {
  for (const auto& link : to_flush_) link->Flush();
  to_flush_.clear();
  session_->Flush();
}

}  // namespace ringway::daemon
