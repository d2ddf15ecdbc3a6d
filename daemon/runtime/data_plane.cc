#include "daemon/runtime/data_plane.h"

#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "proto/frame_codec.h"
#include "proto/lane_roles.h"
#include "proto/mutation.h"

namespace ringway::daemon {
namespace {

// A packet of 1500 bytes carries 1448.
constexpr double kBytesPerMbit = 1e6 / 8 * 1448 / 1500;
constexpr Duration kHoldOffer = std::chrono::seconds(2);
constexpr Duration kTickMin = std::chrono::milliseconds(5);
constexpr Duration kTickMax = std::chrono::milliseconds(100);

// The peer that a message is for, 0 if it is for none.
PeerId AddresseeOf(const control::FromMaster& message) {
  switch (message.kind_case()) {
    case control::FromMaster::kCandidates:
      return PeerId(message.candidates().peer());
    case control::FromMaster::kForget:
      return PeerId(message.forget().peer());
    case control::FromMaster::kPending:
      return PeerId(message.pending().peer());
    case control::FromMaster::kView:
      return PeerId(message.view().peer());
    case control::FromMaster::kAbort:
      return PeerId(message.abort().peer());
    case control::FromMaster::kEvicted:
      return PeerId(message.evicted().peer());
    case control::FromMaster::kRevokePrepared:
      return PeerId(message.revoke_prepared().peer());
    default:
      return PeerId();
  }
}

std::string ReplyFrame(std::uint32_t version, const Status& status) {
  control::LinkReply reply;
  reply.set_version(version);
  reply.set_code(static_cast<std::uint32_t>(status.code()));
  reply.set_text(status.text());
  std::string frame;
  AppendFrame(reply, frame);
  return frame;
}

std::string UserOf(const local::TrainerSession& session) {
  return session.user() ? std::to_string(*session.user()) : "unknown";
}

}  // namespace

DataPlane::DataPlane(asio::io_context& context, DataPlaneOptions options, DataPlaneSink* control)
    : context_(context),
      clock_(net::Clock::Of(context)),
      options_(std::move(options)),
      control_(control),
      memory_(std::make_shared<MemoryBudget>(options_.memory_max)),
      shares_(std::make_shared<local::UserShares>(
          local::UserLimits{.descriptors = options_.descriptors.trainers_max(), .unlimited = {0, ::geteuid()}})),
      lane_threads_(context, options_.lane_threads),
      flow_(options_.share),
      probes_(std::make_shared<flow::ProbeBook>(options_.probe_bytes_a_day)),
      tick_(context) {
  flow_.SetBackgroundShare(options_.state_share / 100.0);
  SetUplinkLimit(options_.uplink_limit_mbit);
}

DataPlane::~DataPlane() = default;

void DataPlane::SetUplinkLimit(std::uint64_t mbit) {
  options_.uplink_limit_mbit = mbit;
  const double allowed = static_cast<double>(mbit) * kBytesPerMbit;
  flow_.SetAllowed(allowed);
  probes_->SetAllowed(allowed);
}

// ---- time

void DataPlane::ArmTick() {
  tick_due_ = clock_.Now() + tick_interval_;
  tick_.At(tick_due_, [this] { OnTick(); });
}

// After a gap in this loop (a stopped process, a starved core) others seem silent because nobody listened: what has
// arrived meanwhile is handled before any timer judges. Two turns later the sockets have been asked.
void DataPlane::OnTick() {
  if (clock_.Now() - tick_due_ < tick_interval_) return TickAll();
  asio::post(context_, [this] { asio::post(context_, [this] { TickAll(); }); });
}

void DataPlane::TickAll() {
  if (stopped_) return;
  if (!master_up_ && RINGWAY_MUTANT(kTickWithMasterOnly)) return ArmTick();
  const TimePoint now = clock_.Now();
  control::DaemonHeartbeat counters;
  for (const auto& [self, peer] : peers_) peer->NoteWork(now);  // before any of them looks whether the host is quiet
  for (const auto& [self, peer] : peers_) {
    peer->Tick(now);
    *counters.add_counters() = peer->counters();
  }
  flow_.Decide(now);
  for (const auto& [self, peer] : peers_) peer->KeepPace();
  counters.set_draining(draining_);
  counters.set_memory_used(memory_->used());
  counters.set_memory_max(memory_->bytes_max());
  control_->SetCounters(std::move(counters));
  for (const auto& [uid, lines] : shares_->TakeLineSummaries(now)) LogLeftOut(uid, lines);
  shares_->Age(now);
  memory_->Age(now);
  TryHeldOffers(now);
  AskForTheHeld(now);
  ArmTick();
}

// ---- the master

void DataPlane::Start() { ArmTick(); }

void DataPlane::OnMasterUp(const control::HelloReply& reply) {
  master_up_ = true;
  master_refusal_.clear();
  events_.Add(clock_.Now(), {.kind = "master_up", .text = "term=" + std::to_string(reply.term())});
  tick_interval_ = std::clamp<Duration>(std::chrono::milliseconds(reply.heartbeat_ms()) / 2, kTickMin, kTickMax);
  SendRoster();
  for (const auto& [self, peer] : peers_) {
    if (!RINGWAY_MUTANT(kMissMasterBack)) peer->OnMasterBack();
  }
  if (RINGWAY_MUTANT(kForgetJoins)) return;
  for (auto& [request, joining] : std::exchange(joining_, {})) Ask(joining.session, std::move(joining.request));
}

// A peer that the master accepted while the connection broke is not on it, and so withdrawn.
void DataPlane::SendRoster() {
  control::ToMaster message;
  message.mutable_roster();
  for (const auto& [self, peer] : peers_) message.mutable_roster()->add_peers(self.value);
  control_->ToMaster(std::move(message));
}

void DataPlane::OnMasterDown() {
  if (master_up_) events_.Add(clock_.Now(), {.kind = "master_down"});
  master_up_ = false;
  ReportNoMaster();
}

void DataPlane::OnMasterRefused(const std::string& why) {
  master_refusal_ = why;
  if (!master_up_) ReportNoMaster();
}

void DataPlane::ReportNoMaster() {
  for (const auto& [request, joining] : joining_) {
    joining.session->JoinProgress(Code::kMasterUnreachable, NoMasterText());
  }
}

void DataPlane::OnMasterMessage(const control::FromMaster& message) {
  if (message.has_join_accepted()) return OnJoinAccepted(message.join_accepted());
  if (message.has_join_refused()) return OnJoinRefused(message.join_refused());
  if (message.has_drain()) return message.drain().end() ? EndDrain() : BeginDrain();
  if (message.has_trace()) return SendTrace(message.trace());
  const PeerId self = AddresseeOf(message);
  if (self == PeerId()) return;
  const auto found = peers_.find(self);
  if (found == peers_.end()) {
    if (!message.has_evicted()) Withdraw(self);
    return;
  }
  const bool unknown = message.has_evicted() && message.evicted().unknown();
  if (unknown && found->second->status().epoch == Epoch()) return RejoinAsNew(self);
  found->second->OnMasterMessage(message);
  if (message.has_candidates() || message.has_view()) TryHeldOffers(clock_.Now());
}

void DataPlane::OnJoinAccepted(const control::JoinAccepted& accepted) {
  const PeerId self(accepted.peer());
  const auto found = joining_.find(accepted.request_id());
  if (found == joining_.end() || shutting_down_) return Withdraw(self);
  Joining joining = std::move(found->second);
  LogOf(joining.session->host_user(),
        {.event = "trainer_joins",
         .group = accepted.group(),
         .peer = self,
         .name = joining.request.name(),
         .fields = {{"user", UserOf(*joining.session)}, {"pid", std::to_string(joining.session->pid())}}});
  joining_.erase(found);
  RuntimeOptions options{
      .self = self,
      .join = std::move(joining.request),
      .grace = options_.grace,
      .probe_bytes = options_.probe_bytes,
      .probes = probes_,
      .home = {.daemon = options_.identity.name, .address = bound_, .is_reachable = !options_.identity.address.empty()},
      .board = board_,
      .flight = flight_deck_};
  peers_.emplace(self,
                 std::make_unique<PeerRuntime>(context_, lane_threads_, this, std::move(options), joining.session));
}

void DataPlane::RejoinAsNew(PeerId peer) {
  const auto found = peers_.find(peer);
  const auto session = found->second->session();
  control::JoinRequest request = found->second->join();
  peers_.erase(found);
  if (!session->open()) return;
  if (shutting_down_ || draining_) return session->End(Code::kShuttingDown, draining_ ? kDrained : kStopping);
  Ask(session, std::move(request));
}

void DataPlane::OnJoinRefused(const control::JoinRefused& refused) {
  const auto found = joining_.find(refused.request_id());
  if (found == joining_.end()) return;
  const auto session = found->second.session;
  joining_.erase(found);
  session->JoinRefused(Status(FailureFromWire(refused.code(), Code::kJoinRefused), refused.text()));
}

void DataPlane::Withdraw(PeerId peer) {
  control::ToMaster message;
  message.mutable_withdraw()->set_peer(peer.value);
  control_->ToMaster(std::move(message));
}

void DataPlane::SendToMaster(control::ToMaster message) {
  if (master_up_ && !RINGWAY_MUTANT(kKeepFromMaster)) control_->ToMaster(std::move(message));
}

// ---- links

void DataPlane::Dial(net::DialRequest request, std::uint64_t serial) {
  if (in_process_dials_.Reaches(request)) {  // later: the dialler is on the stack
    asio::post(context_, [this, serial, request = std::move(request)]() mutable {
      in_process_dials_.Dial(std::move(request), serial, clock_.Now());
    });
    return;
  }
  const PeerId self = request.from;
  Status status;
  const auto dialler = peers_.find(self);
  // Its lanes count already.
  if (!request.control && dialler != peers_.end())
    status = RoomFor(dialler->second->session()->host_user(), 0,
                     request.missing.empty() ? LaneId(0) : request.missing.front());
  if (status.ok() && control_->Dial(self, serial, std::move(request))) return;
  if (status.ok()) status = Status(Code::kResourceExhausted, "too many dials are under way on this daemon");
  asio::post(context_, [this, self, serial, status] { OnDialed(self, serial, status); });
}

std::shared_ptr<void> DataPlane::CountRetiring() {
  if (*retiring_ >= options_.descriptors.kept_max()) return nullptr;
  ++*retiring_;
  return {retiring_.get(), [count = retiring_](void*) { --*count; }};
}

Status DataPlane::RoomFor(const HostUser& user, std::size_t lanes, LaneId lane) const {
  const std::size_t retiring = *retiring_;
  std::size_t open = retiring;
  std::size_t of_others = retiring;
  for (const auto& [self, peer] : peers_) {
    open += peer->lanes_open();
    if (peer->session()->host_user().uid != user.uid) of_others += peer->lanes_open();
  }
  const DescriptorPlan& plan = options_.descriptors;
  const std::size_t max = lane.value < kLanesRemote ? plan.first_lanes_max() : plan.more_lanes_max();
  const std::size_t left = max - std::min(max, of_others);
  const std::uint64_t user_max = user.is_limited ? FairPool::ShareOf(left) : left;
  if (open - of_others + lanes <= user_max) return Status::Ok();
  return {Code::kResourceExhausted, "this daemon has " + std::to_string(open) + " lanes, " +
                                        std::to_string(open - of_others) + " of them for user " +
                                        std::to_string(user.uid) + ", and keeps the rest of its " +
                                        std::to_string(plan.limit) + " descriptors for others: raise its LimitNOFILE"};
}

void DataPlane::OnDialed(PeerId self, std::uint64_t serial, Result<net::DialedLinks> outcome) {
  const auto found = peers_.find(self);
  if (found == peers_.end() || RINGWAY_MUTANT(kForgetDials)) return;
  found->second->OnDialed(serial, std::move(outcome));
}

void DataPlane::OnOffer(net::LinkOffer offer) {
  if (stopped_) return;
  const bool full = held_offers_.size() >= kHeldOffersMax || HoldsEnoughLike(offer);
  if (TryOffer(offer, full)) return;
  held_offers_.push_back({.offer = std::move(offer), .until = clock_.Now() + kHoldOffer});
}

bool DataPlane::HoldsEnoughLike(const net::LinkOffer& offer) const {
  const Identity* who = offer.stream->identity();
  if (who == nullptr) return false;
  const auto of_same = std::count_if(held_offers_.begin(), held_offers_.end(), [&](const HeldOffer& held) {
    return held.offer.stream->identity() != nullptr && *held.offer.stream->identity() == *who;
  });
  return static_cast<std::size_t>(of_same) >= kHeldOffersOfOneMax;
}

bool DataPlane::TryOffer(net::LinkOffer& offer, bool last_try) {
  const control::LinkHello& hello = offer.hello;
  const links::LinkId link{
      .other = PeerId(hello.from()), .control = hello.control(), .lane = LaneId(hello.control() ? 0 : hello.lane())};
  const links::LinkTerms terms = {
      .lanes = hello.control() ? 0 : hello.lanes(), .generation = hello.generation(), .dialled_all = hello.all()};
  const auto found = peers_.find(PeerId(hello.to()));
  Status status;
  if (found == peers_.end()) {
    status = Status(Code::kJoinRefused, "peer " + std::to_string(hello.to()) + " is not here");
  } else if (found->second->group() != hello.group()) {
    status = Status(Code::kProtocol, "peer " + std::to_string(hello.to()) + " is not in group '" + hello.group() + "'");
  } else {
    status = found->second->Admit(link, terms, offer.stream->identity());
    if (status.ok() && !link.control) status = RoomFor(found->second->session()->host_user(), 1, link.lane);
  }
  if (status.code() == Code::kJoinRefused && !last_try && !hello.known()) return false;
  if (!status.ok()) {
    RefuseOffer(offer, status);
    return true;
  }
  found->second->AddLink(
      StandingLink{.id = link,
                   .terms = terms,
                   .stream = std::move(offer.stream),
                   .answer = RINGWAY_MUTANT(kAnswerNoOffer) ? std::string() : ReplyFrame(offer.version, Status::Ok())});
  return true;
}

void DataPlane::TryHeldOffers(TimePoint now) {
  in_process_dials_.TryHeld(now);
  if (RINGWAY_MUTANT(kForgetHeldOffers)) return;
  std::vector<HeldOffer> offers = std::exchange(held_offers_, {});
  for (HeldOffer& held : offers) {
    if (!TryOffer(held.offer, now >= held.until)) held_offers_.push_back(std::move(held));
  }
}

void DataPlane::RefuseOffer(net::LinkOffer& offer, const Status& why) {
  const std::string frame = ReplyFrame(offer.version, why);
  const bool written = offer.stream->Write(std::as_bytes(std::span(frame))).bytes == frame.size();
  if (!written || offer.daemon.empty()) return;
  control_->Keep({.daemon = offer.daemon, .lane = LaneId(offer.hello.lane()), .stream = std::move(offer.stream)});
}

// ---- trainers

Status DataPlane::MayJoin(const local::TrainerSession& session, const std::optional<std::string>& group) {
  const std::string user = UserOf(session);
  if (group ? options_.users.Allows(abi::GroupOfState(*group), user) : options_.users.AllowsAny(user))
    return Status::Ok();
  const std::string which = group ? "group " + *group : "any group";
  LogOf(session.host_user(),
        {.event = "trainer_refused",
         .fields = {{"group", group.value_or("")}, {"user", user}, {"pid", std::to_string(session.pid())}},
         .severity = agreement::Severity::kWarning});
  return {Code::kJoinRefused,
          "user " + user + " may not join " + which + ": the daemon's option --allow-user names others"};
}

std::string DataPlane::NoMasterText() const {
  const std::string text = "the daemon has no connection to the master at " + options_.identity.master;
  return text + (master_refusal_.empty() ? " and waits for it" : ": " + master_refusal_);
}

std::string DataPlane::StatusJson() {
  std::vector<PeerReport> reports;
  for (const auto& [self, peer] : peers_) reports.push_back({peer->status(), peer->pairs(), peer->live()});
  DaemonState state{.master_connected = master_up_,
                    .memory = memory_.get(),
                    .descriptors = options_.descriptors,
                    .lanes = *retiring_,
                    .kept = control_->kept(),
                    .uplink_limit_mbit = options_.uplink_limit_mbit,
                    .draining = draining_,
                    .security = tls::FactsOf(options_.security.get(), options_.insecure),
                    .events = &events_,
                    .now = clock_.Now()};
  for (const auto& [self, peer] : peers_) state.lanes += peer->lanes_open();
  return ToJson(options_.identity, state, reports);
}

void DataPlane::Log(const agreement::Note& note, PeerId self, const std::string& group) {
  const auto peer = peers_.find(self);
  const std::string name = peer == peers_.end() ? "" : peer->second->join().name();
  LogLine line{note.event, group, self, name, note.fields, note.severity};
  if (peer == peers_.end()) return Write(std::move(line));
  LogOf(peer->second->session()->host_user(), std::move(line));
}

// An operator wants to read all errors, and asks for what is shown to debug.
void DataPlane::LogOf(const HostUser& user, LogLine line) {
  using agreement::Severity;
  if (line.severity == Severity::kInfo || line.severity == Severity::kWarning) {
    const auto left_out = shares_->TakeLine(user, clock_.Now());
    if (!left_out) return;
    if (*left_out > 0) LogLeftOut(user.uid, *left_out);
  }
  Write(std::move(line));
}

void DataPlane::Write(LogLine line) {
  if (line.severity != agreement::Severity::kDebug) {
    std::string text;
    for (const LogField& field : line.fields) {
      (text.empty() ? text : text += ' ').append(field.key).append("=").append(field.value);
    }
    events_.Add(clock_.Now(), {.kind = line.event, .group = line.group, .who = line.name, .text = text});
  }
  control_->Log(std::move(line));
}

void DataPlane::LogLeftOut(std::uint32_t uid, std::uint64_t lines) {
  Write({.event = "lines_left_out",
         .fields = {{"user", std::to_string(uid)}, {"lines", lines}},
         .severity = agreement::Severity::kWarning});
}

// ---- the end

void DataPlane::OnPeerEnded(PeerId self) {
  // The runtime is on the stack.
  asio::post(context_, [this, self] {
    peers_.erase(self);
    AskForTheHeld(clock_.Now());
    if (shutting_down_ && peers_.empty()) control_->OnDrained();
  });
}

void DataPlane::ShutDown(TimePoint deadline) {
  if (std::exchange(shutting_down_, true)) return;
  EndSessions(deadline, kStopping);
  if (peers_.empty()) control_->OnDrained();
}

void DataPlane::EndJoining(const std::string& why) {
  for (const auto& [request, joining] : std::exchange(joining_, {})) joining.session->End(Code::kShuttingDown, why);
}

void DataPlane::EndSessions(TimePoint deadline, const std::string& why) {
  EndJoining(why);
  for (const auto& [self, peer] : peers_) peer->ShutDown(deadline, why);
}

void DataPlane::BeginDrain() {
  if (std::exchange(draining_, true)) return;
  Write({.event = "draining", .fields = {{"peers", peers_.size()}}, .severity = agreement::Severity::kWarning});
  EndSessions(clock_.Now() + options_.grace, kDrained);
}

void DataPlane::EndDrain() {
  if (std::exchange(draining_, false)) Write({.event = "in_service", .fields = {}});
}

void DataPlane::Stop() {
  if (std::exchange(stopped_, true)) return;
  tick_.Cancel();
  EndJoining(kStopping);
  held_offers_.clear();
  peers_.clear();
  context_.stop();
}

}  // namespace ringway::daemon
