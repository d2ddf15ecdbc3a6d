#include "daemon/runtime/peer_runtime.h"

#include <algorithm>
#include <asio/post.hpp>
#include <utility>
#include <variant>

#include "proto/lane_roles.h"
#include "proto/mutation.h"
#include "proto/shell/log.h"

namespace ringway::daemon {
namespace {

// Nothing waits in the stream: it has room for a reply. If not, the connection ends here.
std::unique_ptr<net::Stream> Answered(StandingLink link) {
  const bool answered =
      link.answer.empty() || link.stream->Write(std::as_bytes(std::span(link.answer))).bytes == link.answer.size();
  if (!answered) link.stream->path().Shutdown();
  return std::move(link.stream);
}

}  // namespace

PeerRuntime::PeerRuntime(asio::io_context& context, net::LaneThreads& lane_threads, RuntimeSink* sink,
                         RuntimeOptions options, std::shared_ptr<local::TrainerSession> session)
    : context_(context),
      clock_(net::Clock::Of(context)),
      lane_threads_(lane_threads),
      sink_(sink),
      options_(std::move(options)),
      session_(std::move(session)),
      peer_(options_.self, options_.join.group(),
            {.memory = session_->memory(),
             .probes = options_.probes,
             .home = options_.home,
             .takes_state = session_->takes_state(),
             .board = options_.board,
             .wake = [this] { WorkLater(); }}),
      flight_(options_.flight, options_.self, options_.join.group(), clock_),
      pace_timer_(context),
      tail_timer_(context),
      alive_(std::make_shared<PeerRuntime*>(this)) {
  session_->Attach(this);
  flight_.AddName(options_.join.name());
  if (abi::IsStateGroup(group())) sink_->flow().SetBackground(options_.self);
}

PeerRuntime::~PeerRuntime() {
  *alive_ = nullptr;
  sink_->flow().Forget(options_.self);
  for (auto& [other, pair] : pairs_) pair.Close();
  if (session_ != nullptr) session_->Detach();
}

// ---- events

void PeerRuntime::OnMasterMessage(const control::FromMaster& message) {
  if (ended_) return;
  const TimePoint now = clock_.Now();
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
    case control::FromMaster::kRevokePrepared:
      peer_.OnRevokePrepared(Epoch(message.revoke_prepared().epoch()));
      break;
    case control::FromMaster::kEvicted: {
      peer_.OnEvicted(FailureFromWire(message.evicted().code(), Code::kEvicted), message.evicted().text());
      break;
    }
    default:
      return;
  }
  Run();
}

void PeerRuntime::OnMasterBack() {
  if (ended_) return;
  peer_.OnMasterBack(clock_.Now());
  Run();
}

void PeerRuntime::Tick(TimePoint now) {
  if (ended_) return;
  peer_.Tick(now);
  flight_.OnTick(peer_.wait(), peer_.counts().ops_stuck);
  Run();
  SamplePaths(now);
  LookAtRates(now);
}

void PeerRuntime::ShutDown(TimePoint deadline, const std::string& why) {
  if (ended_) return;
  session_->ReadPending();  // what was submitted before is finished
  if (ended_) return;
  why_shut_down_ = why;
  peer_.Leave(deadline, clock_.Now());
  Run();
}

// ---- links

void PeerRuntime::AddLink(StandingLink link) {
  if (ended_) return;
  const links::LinkId id = link.id;
  links::LinkTerms terms = link.terms;
  terms.round_trip = link.stream->path().RoundTrip();
  const bool within_host = link.stream->peer().within_host;
  if (!within_host) {
    terms.host = link.stream->peer().address;
    terms.probe_bytes = options_.probe_bytes;
    sink_->flow().OnLinked({.self = options_.self, .other = id.other}, peer_.DaemonOf(id.other) + '@' + terms.host,
                           terms.round_trip, clock_.Now());
  }
  if (id.control)
    AddControl(std::move(link), within_host);
  else
    AddLane(std::move(link));
  OnStands(id, terms);
}

void PeerRuntime::OnStands(const links::LinkId& link, const links::LinkTerms& terms) {
  PairWith(link.other).Keep();
  peer_.OnLinkUp(link, terms, clock_.Now());
  Run();
}

PairTransport& PeerRuntime::PairWith(PeerId other) {
  const auto found = pairs_.find(other);
  if (found != pairs_.end()) return found->second;
  const auto retire_to = [sink = sink_, daemon = peer_.DaemonOf(other)](LaneId lane) -> net::Lane::Keep {
    std::shared_ptr<void> counted = sink->CountRetiring();
    if (counted == nullptr) return nullptr;
    return [sink, daemon, lane, counted = std::move(counted)](std::unique_ptr<net::Stream> stream) {
      if (stream != nullptr && !daemon.empty() && !RINGWAY_MUTANT(kKeepNoConnection))
        sink->Keep({.daemon = daemon, .lane = lane, .stream = std::move(stream)});
    };
  };
  return pairs_.try_emplace(other, &sink_->flow(), flow::PathKey{.self = options_.self, .other = other}, retire_to)
      .first->second;
}

void PeerRuntime::AddControl(StandingLink link, bool within_host) {
  const auto control = std::make_shared<net::StreamControl>(context_, link.id.other);
  PairWith(link.id.other).TakeControl(control, within_host);
  control->Start(Answered(std::move(link)), this);
}

void PeerRuntime::AddLane(StandingLink link) {
  const bool small = link.id.lane.value < SmallLanes(link.terms.lanes);
  const auto lane = lane_threads_.MakeLane({.link = link.id, .self = options_.self},
                                           small ? kSmallLanePayloadBytes : kPayloadBytesMax);
  PairWith(link.id.other).TakeLane(lane, link.terms.lanes);
  lane->Start(Answered(std::move(link)), this);
}

void PeerRuntime::OnDialed(std::uint64_t serial, Result<net::DialedLinks> outcome) {
  if (ended_) return;
  net::DialedLinks none;
  none.last = true;
  if (!outcome.ok()) none.failure = outcome.status();
  net::DialedLinks& dialled = outcome.ok() ? outcome.value() : none;
  const auto verdict =
      dials_.OnAnswer(serial, {.links = dialled.links.size(), .last = dialled.last, .failure = dialled.failure});
  if (!verdict.take && !verdict.report) return;
  if (verdict.take) {
    for (net::DialedLinks::Link& link : dialled.links) {
      AddLink(StandingLink{
          .id = {.other = verdict.other, .control = verdict.control, .lane = link.lane},
          .terms = {.lanes = dialled.lanes, .lanes_max = dialled.lanes_max, .generation = verdict.generation},
          .stream = std::move(link.stream),
          .answer = {}});
    }
  }
  ReportDial(verdict);
}

void PeerRuntime::ReportDial(const links::DialTracker::Verdict& verdict) {
  if (!verdict.report || ended_ || RINGWAY_MUTANT(kHideFailedDial)) return;
  peer_.OnDialFailed(verdict.other, verdict.control, verdict.why, clock_.Now());
  Run();
}

Result<links::Inbound> PeerRuntime::OnLaneHeader(const links::LinkId& lane, const SegmentHeader& header) {
  auto inbound = peer_.OnHeader(lane, header);
  if (!inbound.ok()) return inbound;
  flight_.OnHeader(lane, header, inbound.value());
  if (inbound.value().kind == links::Inbound::Kind::kScratch && RINGWAY_MUTANT(kDiscardScratch)) {
    inbound.value().kind = links::Inbound::Kind::kDiscard;
    return inbound;
  }
  if (inbound.value().kind == links::Inbound::Kind::kDiscard) Run();  // no OnPayload will follow to do it
  return inbound;
}

Status PeerRuntime::OnLanePayload(const links::LinkId& lane, std::span<const std::byte> payload, std::uint64_t hash) {
  const TimePoint begin = flight_.Begin(payload.size());
  Status status = peer_.OnPayload(lane, payload, hash);
  flight_.OnPayload(lane, begin);
  Run();
  return status;
}

void PeerRuntime::OnLaneIdle() { Run(); }

void PeerRuntime::OnLaneClosed(const links::LinkId& lane, const std::string& why) {
  if (ended_ || RINGWAY_MUTANT(kKeepClosedLane)) return;
  flight_.OnLaneClosed(lane);
  if (const auto found = pairs_.find(lane.other); found != pairs_.end()) found->second.DropLane(lane.lane);
  peer_.OnLinkDown(lane, why, clock_.Now());
  Run();
}

Status PeerRuntime::OnControlMessage(PeerId from, const control::PeerMessage& message) {
  if (ended_) return Status::Ok();
  flight_.OnMessage(from, message, false);
  Status status = peer_.OnPeerMessage(from, message, clock_.Now());
  Run();
  return status;
}

void PeerRuntime::OnControlClosed(PeerId other, const std::string& why) {
  if (ended_) return;
  if (const auto found = pairs_.find(other); found != pairs_.end()) found->second.DropControl();
  peer_.OnLinkDown({.other = other, .control = true, .lane = {}}, why, clock_.Now());
  Run();
}

// ---- the trainer

Status PeerRuntime::Submit(buffers::Submission submission) {
  if (ended_) return {Code::kLeft, "the session has left its group"};
  if (!why_shut_down_.empty())
    return {Code::kShuttingDown, "the daemon is stopping, or drained, and takes no new operations"};
  const TimePoint now = clock_.Now();
  flight_.OnSubmit(submission, peer_.NextSequence(submission.channel()), now);
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
  peer_.Cancel(token, clock_.Now());
  Run();
}

void PeerRuntime::SetDeadline(std::uint64_t token, Duration after) {
  if (ended_) return;
  peer_.SetDeadline(token, after, clock_.Now());
  Run();
}

void PeerRuntime::OnStateTaken(PeerId newcomer) {
  if (ended_ || newcomer != options_.self) return;  // it was sent by a trainer that is another newcomer since
  peer_.OnStateTaken(clock_.Now());
  Run();
}

void PeerRuntime::Leave() {
  if (ended_) return;
  const TimePoint now = clock_.Now();
  peer_.Leave(now + options_.grace, now);
  Run();
}

void PeerRuntime::OnTrainerGone(bool inputs_whole) {
  if (ended_) return;
  sink_->Log({.event = "trainer_gone", .fields = {{"why", "its process ended, or closed the socket, without leaving"}}},
             options_.self, group());
  const TimePoint now = clock_.Now();
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
    const TimePoint begin = self->clock_.Now();
    self->peer_.Work();
    self->flight_.OnWork(begin);
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
    if (!ended_ && named_ != Epoch()) NameMembers();  // a trainer with nothing in flight sees who is lost, too
  }
}

void PeerRuntime::CarryOut(agreement::ToPeer& action) {
  const auto found = pairs_.find(action.to);
  if (found == pairs_.end() || found->second.control() == nullptr) return;
  flight_.OnMessage(action.to, action.message, true);
  const auto& link = found->second.control();
  link->Send(action.message);
  if (std::find(to_flush_.begin(), to_flush_.end(), link) == to_flush_.end()) to_flush_.push_back(link);
}

void PeerRuntime::CarryOut(agreement::ToMaster& action) {
  if (action.message.has_report()) flight_.OnReport(action.message.report());
  sink_->SendToMaster(std::move(action.message));
}

void PeerRuntime::CarryOut(links::Dial& action) {
  const std::size_t lanes = action.missing.empty() ? std::max(action.lanes, kLanesRemote) : action.missing.size();
  const std::uint64_t serial = dials_.Begin(action, lanes);
  sink_->Dial(net::DialRequest{.group = group(),
                               .from = options_.self,
                               .to = action.other,
                               .address = action.at.address,
                               .daemon = action.at.daemon,
                               .control = action.control,
                               .all = action.all,
                               .lanes = action.lanes,
                               .missing = action.missing,
                               .generation = action.generation,
                               .known = action.known},
              serial);
}

void PeerRuntime::CarryOut(links::CloseLinks& action) {
  const auto found = pairs_.find(action.other);
  if (action.lane) {
    if (found != pairs_.end()) (void)found->second.CloseLane(*action.lane);
    return;
  }
  dials_.Close(action.other);
  flight_.OnLinksClosed(action.other);
  sink_->flow().Forget(options_.self, action.other);
  if (found == pairs_.end()) return;
  found->second.Retire();
  pairs_.erase(found);
}

// A trainer that did not ask to leave learns why it had to: it may come back.
Status PeerRuntime::WhyFor(Code code, const std::string& text) const {
  return code == Code::kLeft && !why_shut_down_.empty() ? Status(Code::kShuttingDown, why_shut_down_)
                                                        : Status(code, text);
}

void PeerRuntime::CarryOut(agreement::Complete& action) {
  // The plan predicts such operations only.
  const bool plain =
      action.collective == OpKind::kAllReduce && action.codec == Codec::kNone && action.outcome.retries == 0;
  const TimePoint now = clock_.Now();
  const Duration took = now - action.submitted;
  if (action.ok() && action.bytes > 0 && plain) {
    times_.Add({action.epoch(), action.outcome.algorithm, action.bytes, took});
  }
  // A recv takes as long as nobody sends.
  const bool is_timed = action.collective != OpKind::kUpdateView && !IsMessage(action.collective);
  if (action.ok() && is_timed) durations_.Add(took);
  if (action.ok() && is_timed) live_.OnOperation(took);
  if (shell::Shows(shell::Level::kDebug)) LogOutcome(action);
  const Status why = WhyFor(action.outcome.code, action.text);
  action.outcome.code = why.code();
  action.text = why.text();
  NameMembers();
  flight_.OnComplete(action, now);
  session_->Complete(action);
}

void PeerRuntime::LogOutcome(const agreement::Complete& action) const {
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(clock_.Now() - action.submitted);
  const agreement::Note note{.event = action.ok() ? "operation_done" : "operation_over",
                             .fields = {{"epoch", ToString(action.epoch())},
                                        {"op", ToString(action.op())},
                                        {"collective", NameOf(action.collective)},
                                        {"code", NameOf(action.outcome.code)},
                                        {"world", action.contributors.size()},
                                        {"bytes", action.bytes},
                                        {"wire_bytes", action.outcome.wire_bytes},
                                        {"us", took.count()},
                                        {"retries", action.outcome.retries},
                                        {"algorithm", NameOf(action.outcome.algorithm)}},
                             .severity = agreement::Severity::kDebug};
  sink_->Log(note, options_.self, group());
}

void PeerRuntime::NameMembers() {
  const agreement::View& view = peer_.view();
  if (view.epoch == named_) return;
  named_ = view.epoch;
  flight_.OnView(view);
  session_->NameMembers(view.epoch, view.infos);
}

void PeerRuntime::CarryOut(agreement::Joined& action) {
  NameMembers();
  session_->Joined(
      {.peer = options_.self, .epoch = action.epoch, .rank = action.rank, .world_size = action.world_size});
}

void PeerRuntime::CarryOut(agreement::StillPending& action) { session_->JoinProgress(action.code, action.text); }

void PeerRuntime::CarryOut(agreement::StateHeld& action) { session_->HoldForState(options_.self, action.members); }

void PeerRuntime::CarryOut(agreement::NewcomerAsks& action) { session_->NameNewcomer(action.newcomer, action.asks); }

void PeerRuntime::CarryOut(agreement::Ended& action) {
  if (std::exchange(ended_, true)) return;
  FlushLinks();
  for (auto& [other, pair] : pairs_) pair.Retire();
  pairs_.clear();
  to_flush_.clear();
  const Status why = WhyFor(action.code, action.text);
  session_->End(why.code(), why.text());
  sink_->OnPeerEnded(options_.self);
}

void PeerRuntime::CarryOut(agreement::Note& action) { sink_->Log(action, options_.self, group()); }

void PeerRuntime::FlushLinks() {
  for (const auto& link : to_flush_) {
    if (!RINGWAY_MUTANT(kFlushNothing)) link->Flush();
  }
  to_flush_.clear();
  session_->Flush();
}

}  // namespace ringway::daemon
