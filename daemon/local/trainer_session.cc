#include "daemon/local/trainer_session.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "daemon/local/close_guard.h"
#include "proto/check.h"
#include "proto/stream/address.h"

namespace ringway::local {
namespace {

// The longest packet of a client: a Submit with the counts of all ranks that there may be.
constexpr std::size_t kReceiveBytes = sizeof(abi::Submit) + abi::kWorldSizeMax * sizeof(abi::RankCounts);
static_assert(kReceiveBytes >= std::max({sizeof(abi::Hello), sizeof(abi::Join), sizeof(abi::RegisterRegion)}));
constexpr int kLastPacketsMax = 4096;      // read after the end of the process
constexpr std::uint64_t kDescriptors = 2;  // the socket and the process
constexpr std::uint32_t kNobody = 65534;   // of a user whom the kernel does not name

// Answers are long, so no more than one is kept for a client.
Status AskedTooEarly() { return {Code::kProtocol, "a client asked again before the last answer was read"}; }

}  // namespace

TrainerSession::TrainerSession(asio::io_context& context, SessionSink* sink, const SessionLimits& limits,
                               ReclaimerPtr reclaimer, std::shared_ptr<MemoryBudget> memory,
                               const std::shared_ptr<PreAuthLimiter>& limiter, std::shared_ptr<UserShares> users)
    : context_(context),
      sink_(sink),
      limits_(limits),
      reclaimer_(std::move(reclaimer)),
      budget_(memory != nullptr ? std::move(memory) : std::make_shared<MemoryBudget>()),
      users_(users != nullptr ? std::move(users) : std::make_shared<UserShares>(UserLimits())),
      limiter_(limiter),
      socket_(context),
      process_(context),
      quiet_(context),
      turn_(context) {
  if (limits_.region_bytes_max == 0) limits_.region_bytes_max = MemoryBudget::kUnlimited;
}

TrainerSession::~TrainerSession() = default;

Status TrainerSession::Start(net::UniqueFd fd) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 && credentials.pid > 0) {
    pid_ = static_cast<std::uint32_t>(credentials.pid);
    user_ = credentials.uid;
  }
  asio::error_code error;
  socket_.assign(fd.get(), error);
  if (error) return {Code::kIo, "cannot watch a trainer's socket: " + error.message()};
  (void)fd.Release();
  host_user_ = users_->UserOf(user_.value_or(kNobody));
  memory_ = std::make_shared<MemoryShare>(budget_, host_user_);
  if (const Status taken = TakeShares(); !taken.ok()) {
    End(taken.code(), taken.text());
    return Status::Ok();
  }
  idle_until_ = net::Clock::Of(context_).Now() + limits_.idle_max;
  ArmRead();
  ArmQuiet();
  WatchProcess();
  return Status::Ok();
}

Status TrainerSession::TakeShares() {
  if (IsBarred()) {
    return {Code::kResourceExhausted, "user " + std::to_string(host_user_.uid) +
                                          " has sent files whose file system does not let the daemon close them"};
  }
  auto session = users_->TakeSession(host_user_);
  if (!session.ok()) return session.status();
  auto descriptors = users_->TakeDescriptors(host_user_, kDescriptors);
  if (!descriptors.ok()) return descriptors.status();
  session_ = std::move(session).value();
  descriptors_ = std::move(descriptors).value();
  return Status::Ok();
}

void TrainerSession::ArmQuiet() {
  const TimePoint quiet_until = net::Clock::Of(context_).Now() + limits_.quiet_max;
  quiet_.At(std::min(quiet_until, idle_until_), [self = shared_from_this()] {
    if (!self->AsksForNothing()) return;
    self->Refuse(Status(Code::kTimeout, "the client was silent for too long and has not asked to join"));
  });
}

// A process of another pid namespace cannot be watched; then only the end of the socket is detected.
void TrainerSession::WatchProcess() {
  if (pid_ == 0) return;
  // Calls by syscall number, because glibc 2.36 declares pidfd_open without C linkage.
  net::UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid_), 0)));
  if (!fd.valid()) return;
  asio::error_code error;
  process_.assign(fd.get(), error);
  if (error) return;
  (void)fd.Release();
  process_.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](asio::error_code waited) {
    if (waited || self->state_ == State::kOver) return;
    // Packets that the trainer sent before it died still count.
    if (self->IsStranger() || self->ReadAll(kLastPacketsMax)) self->TrainerGone();
  });
}

void TrainerSession::ArmRead() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](asio::error_code error) {
    if (!error) self->ReadTurn();
  });
}

void TrainerSession::ReadTurn() {
  const auto limiter = limiter_.lock();
  if (!IsStranger() || limiter == nullptr) return ReadOn(PacketsATurn());
  quiet_.Cancel();  // it has sent something, and waits for us
  limiter->Queue(host_user_.uid, [self = shared_from_this()] { self->ReadOn(1); });
}

// The sessions of a user share a turn, so that one with many does not keep the others' waiting.
int TrainerSession::PacketsATurn() const {
  if (!host_user_.is_limited) return kPacketsATurn;
  const std::uint64_t sessions = std::max<std::uint64_t>(users_->sessions().used(host_user_), 1);
  return static_cast<int>(std::max<std::uint64_t>(kPacketsATurn / sessions, 1));
}

void TrainerSession::ReadOn(int packets_max) {
  if (state_ == State::kOver || !ReadAll(packets_max)) return;
  if (AsksForNothing()) ArmQuiet();
  ArmRead();
}

void TrainerSession::ReadPending() {
  const auto self = shared_from_this();  // the session may end meanwhile
  if (state_ != State::kOver && open()) (void)ReadAll(kLastPacketsMax);
}

// Returns false when the session is over.
bool TrainerSession::ReadAll(int packets_max) {
  const CloseGuard guard;
  std::array<std::byte, kReceiveBytes> buffer;
  for (int i = 0; i < packets_max && state_ != State::kOver; ++i) {
    ReceivedPacket packet = ReceivePacket(socket_.native_handle(), buffer);
    if (packet.outcome == ReadOutcome::kWouldBlock) return true;
    if (packet.outcome == ReadOutcome::kClosed) {
      TrainerGone();
      return false;
    }
    const Status status = packet.outcome == ReadOutcome::kBroken ? packet.fault : OnPacket(packet);
    Discard(packet);
    if (!status.ok() && state_ != State::kOver) {
      Refuse(status);
      return false;
    }
  }
  return state_ != State::kOver;
}

void TrainerSession::Discard(ReceivedPacket& packet) {
  if (reclaimer_ == nullptr) return;
  if (packet.fd.valid()) reclaimer_->Close(std::move(packet.fd));
  if (packet.foreign.valid()) reclaimer_->foreign().Close(std::move(packet.foreign), host_user_.uid);
}

bool TrainerSession::IsBarred() const {
  return reclaimer_ != nullptr && reclaimer_->foreign().HasTooMany(host_user_.uid);
}

void TrainerSession::Refuse(const Status& why) {
  auto ended = MakePacket<abi::Ended>(abi::PacketType::kEnded);
  ended.code = why.code();
  SetText(ended.text, why.text());
  SendStruct(ended);
  TrainerGone();
}

// ---- from the owner

// A trainer that has not read the previous text gets no more.
void TrainerSession::JoinProgress(Code code, const std::string& text) {
  if (state_ != State::kJoining || !queue_.empty()) return;
  auto packet = MakePacket<abi::JoinProgress>(abi::PacketType::kJoinProgress);
  packet.code = code;
  SetText(packet.text, text);
  SendStruct(packet);
}

void TrainerSession::JoinRefused(const Status& why) {
  if (state_ != State::kJoining) return;
  state_ = State::kGreeted;
  ArmQuiet();
  auto packet = MakePacket<abi::JoinReply>(abi::PacketType::kJoinReply);
  packet.code = why.code();
  SetText(packet.text, why.text());
  SendStruct(packet);
}

void TrainerSession::Joined(const JoinOutcome& joined) {
  if (state_ != State::kJoining) return;
  state_ = State::kMember;
  peer_ = joined.peer;
  auto packet = MakePacket<abi::JoinReply>(abi::PacketType::kJoinReply);
  packet.rank = joined.rank;
  packet.world_size = joined.world_size;
  packet.peer_id = joined.peer.value;
  packet.epoch = joined.epoch.value;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t region_bytes_max = std::min(limits_.region_bytes_max, memory_->budget().share_max());
  packet.regions_mib_max = region_bytes_max >> 20 < kMost ? static_cast<std::uint32_t>(region_bytes_max >> 20) : 0;
  SendStruct(packet);
}

void TrainerSession::HoldForState(PeerId self, const std::vector<PeerId>& members) {
  if (state_ != State::kJoining) return;
  auto packet = MakePacket<abi::StateHeld>(abi::PacketType::kStateHeld);
  packet.peer_id = self.value;
  for (const PeerId member : members) {
    if (packet.member_count < abi::kWorldSizeMax) packet.members[packet.member_count++] = member.value;
  }
  SendStruct(packet);
}

void TrainerSession::NameNewcomer(PeerId newcomer, bool asks) {
  abi::NewcomerTable& table = Page().newcomers;
  for (auto& entry : table.peers) {
    if (entry.load(std::memory_order_relaxed) == newcomer.value) entry.store(0, std::memory_order_relaxed);
  }
  if (!asks) return;
  const std::uint64_t count = table.count.load(std::memory_order_relaxed);
  const auto is_free = [](const auto& entry) { return entry.load(std::memory_order_relaxed) == 0; };
  const auto free = std::find_if(std::begin(table.peers), std::end(table.peers), is_free);
  // agreement::Askers names no more than there are entries; a trainer that writes to its page harms itself only.
  auto& entry = free != std::end(table.peers) ? *free : table.peers[count % abi::kNewcomersMax];
  entry.store(newcomer.value, std::memory_order_relaxed);
  table.count.store(count + 1, std::memory_order_release);
}

abi::SessionPage& TrainerSession::Page() {
  RINGWAY_CHECK(page_ != nullptr);
  return *reinterpret_cast<abi::SessionPage*>(page_->data());
}

abi::Slot& TrainerSession::SlotAt(std::uint64_t token) {
  RINGWAY_CHECK(token < abi::kSlotCount);
  return Page().slots[token];
}

void TrainerSession::NameMembers(Epoch epoch, std::span<const control::PeerInfo> members) {
  abi::MemberList list{};
  list.epoch = epoch.value;
  for (const control::PeerInfo& member : members.first(std::min<std::size_t>(members.size(), abi::kWorldSizeMax))) {
    abi::MemberEntry& entry = list.members[list.world_size++];
    entry.peer_id = member.peer_id();
    SetText(entry.name, member.name());
    SetText(entry.site, member.site());
  }
  abi::WriteMembers(Page().members, list);
}

void TrainerSession::Complete(const buffers::Complete& complete) {
  abi::Slot& slot = SlotAt(complete.token);
  slot.outcome = complete.outcome;
  slot.outcome.world_size = static_cast<std::uint32_t>(complete.contributors.size());
  const std::size_t named = std::min<std::size_t>(complete.contributors.size(), abi::kWorldSizeMax);
  for (std::size_t i = 0; i < named; ++i) slot.contributors[i] = complete.contributors[i].value;
  SetText(slot.text, complete.text);
  slots_[complete.token] = {};
  slot.state.store(abi::SlotState::kDone, std::memory_order_release);
  doorbell_due_ = true;
}

void TrainerSession::Flush() {
  if (!std::exchange(doorbell_due_, false) || state_ == State::kOver) return;
  // If there is no room, packets are unread or queued: the trainer wakes up for those.
  if (!queue_.empty()) return;
  const auto doorbell = MakePacket<abi::Doorbell>(abi::PacketType::kDoorbell);
  (void)SendPacket(socket_.native_handle(), std::as_bytes(std::span(&doorbell, 1)));
}

void TrainerSession::End(Code code, const std::string& text) {
  requests_ = nullptr;
  if (state_ == State::kOver) return;
  Flush();
  if (state_ == State::kLeaving && (code == Code::kLeft || code == Code::kShuttingDown)) {
    SendStruct(MakePacket<abi::LeaveReply>(abi::PacketType::kLeaveReply));
  } else {
    auto ended = MakePacket<abi::Ended>(abi::PacketType::kEnded);
    ended.code = code;
    SetText(ended.text, text);
    SendStruct(ended);
  }
  GoOver();
}

// ---- the end

void TrainerSession::TrainerGone() {
  if (state_ == State::kOver) return;
  bool inputs_whole = true;
  for (std::uint32_t slot = 0; slot < abi::kSlotCount; ++slot) {
    if (!slots_[slot].in_use) continue;
    RaiseStaged(slot);
    inputs_whole = inputs_whole && slots_[slot].staged_bytes == slots_[slot].input_bytes;
  }
  RequestSink* requests = requests_;
  GoOver();
  if (requests != nullptr) requests->OnTrainerGone(inputs_whole);
}

void TrainerSession::GoOver() {
  const auto self = shared_from_this();
  state_ = State::kOver;
  CloseSocket();
  sink_->OnSessionOver(self);
}

void TrainerSession::CloseSocket() {
  const CloseGuard guard;
  if (socket_.is_open()) {
    // Closing with unread packets would reset the connection, and the trainer would lose our last packet.
    std::array<std::byte, kReceiveBytes> buffer;
    (void)::shutdown(socket_.native_handle(), SHUT_RDWR);
    for (int i = 0; i < kLastPacketsMax && !IsBarred(); ++i) {
      auto packet = ReceivePacket(socket_.native_handle(), buffer);
      if (packet.outcome == ReadOutcome::kWouldBlock || packet.outcome == ReadOutcome::kClosed) break;
      Discard(packet);
    }
  }
  asio::error_code ignored;
  quiet_.Cancel();
  turn_.Cancel();
  if (std::exchange(waits_for_turn_, false)) users_->ReturnJoin(host_user_);
  socket_.close(ignored);
  process_.close(ignored);
  descriptors_.Reset();
  queue_.clear();
}

// ---- sending

// Replies that the trainer does not read are queued up to a bound; beyond it the session ends.
void TrainerSession::Send(std::span<const std::byte> bytes) {
  if (!socket_.is_open()) return;
  if (queue_.empty() && SendPacket(socket_.native_handle(), bytes) != SendOutcome::kWouldBlock) return;
  if (queue_bytes_ + bytes.size() > kQueueBytesMax) {
    (void)::shutdown(socket_.native_handle(), SHUT_RDWR);
    return;
  }
  const bool armed = !queue_.empty();
  queue_.emplace_back(bytes.begin(), bytes.end());
  queue_bytes_ += bytes.size();
  if (!armed) SendQueued();
}

void TrainerSession::SendQueued() {
  while (!queue_.empty() && socket_.is_open()) {
    if (SendPacket(socket_.native_handle(), queue_.front()) == SendOutcome::kWouldBlock) {
      socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                         [self = shared_from_this()](asio::error_code error) {
                           if (!error) self->SendQueued();
                         });
      return;
    }
    queue_bytes_ -= queue_.front().size();
    queue_.pop_front();
  }
}

Status TrainerSession::OnStatus(std::span<const std::byte> bytes) {
  const auto packet = PacketAs<abi::Status>(bytes);
  if (!packet.ok()) return packet.status();
  if (!queue_.empty()) return AskedTooEarly();
  return Answer(sink_->StatusJson());
}

Status TrainerSession::OnTrace(std::span<const std::byte> bytes) {
  const auto packet = PacketAs<abi::Trace>(bytes);
  if (!packet.ok()) return packet.status();
  const Result<std::string> group = GetText(packet.value().group, "the group's name");
  if (!group.ok()) return group.status();
  if (group.value().empty()) return Status(Code::kInvalidArgument, "a request for a trace names no group");
  if (!queue_.empty()) return AskedTooEarly();
  return Answer(sink_->FlightImage(group.value(), packet.value().last));
}

Status TrainerSession::Answer(const std::string& text) {
  constexpr std::size_t kTextMax = abi::kPacketBytesMax - sizeof(abi::StatusReply);
  std::size_t sent = 0;
  do {
    const std::size_t part = std::min(kTextMax, text.size() - sent);
    auto reply = MakePacket<abi::StatusReply>(abi::PacketType::kStatusReply);
    reply.remaining_bytes = text.size() - sent - part;
    std::vector<std::byte> answer(sizeof reply + part);
    std::memcpy(answer.data(), &reply, sizeof reply);
    std::memcpy(answer.data() + sizeof reply, text.data() + sent, part);
    Send(answer);
    sent += part;
  } while (sent < text.size());
  return Status::Ok();
}

}  // namespace ringway::local
