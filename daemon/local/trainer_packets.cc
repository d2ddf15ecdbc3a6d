// The packets of a trainer, one handler each. A Status that is not ok ends the session with its code and text.
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "daemon/local/trainer_session.h"

namespace ringway::local {
namespace {

Status ProtocolError(const char* what) { return {Code::kProtocol, what}; }

// A client may round its session page up to whole memory pages; the rest is never touched. Its memory is the client's.
Status CheckSessionPage(int fd) {
  const auto memory_page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t rounded = (sizeof(abi::SessionPage) + memory_page - 1) / memory_page * memory_page;
  const bool is_rounded = CheckSealedMemfd(fd, rounded).ok();
  const Status status = is_rounded ? Status::Ok() : CheckSealedMemfd(fd, sizeof(abi::SessionPage));
  return status.ok() ? CheckPopulated(fd, sizeof(abi::SessionPage)) : status;
}

// A Submit, and the counts that follow it.
struct SubmitPacket {
  abi::Submit submit;
  std::vector<abi::RankCounts> counts;
};
Result<SubmitPacket> SubmitIn(std::span<const std::byte> bytes) {
  auto submit = PacketAs<abi::Submit>(bytes.first(std::min(bytes.size(), sizeof(abi::Submit))));
  if (!submit.ok()) return submit.status();
  const std::span<const std::byte> rest = bytes.subspan(sizeof(abi::Submit));
  if (rest.size() % sizeof(abi::RankCounts) != 0 || rest.size() > abi::kWorldSizeMax * sizeof(abi::RankCounts))
    return ProtocolError("a packet has the wrong length for its type");
  SubmitPacket packet{.submit = submit.value(), .counts = {}};
  packet.counts.resize(rest.size() / sizeof(abi::RankCounts));
  if (!rest.empty()) std::memcpy(packet.counts.data(), rest.data(), rest.size());
  return packet;
}

struct Mappings {
  std::shared_ptr<const Mapping> input;
  std::shared_ptr<const Mapping> result;
};

}  // namespace

Status TrainerSession::OnPacket(ReceivedPacket& packet) {
  abi::PacketHeader header;
  if (packet.bytes.size() < sizeof header) return ProtocolError("a packet is shorter than its header");
  std::memcpy(&header, packet.bytes.data(), sizeof header);
  if (header.magic != abi::kMagic) return ProtocolError("a packet has no magic: this is no ringway client");
  const bool takes_descriptor =
      header.type == abi::PacketType::kHello || header.type == abi::PacketType::kRegisterRegion;
  if (packet.fd.valid() && !takes_descriptor) return ProtocolError("a packet carries a descriptor where none belongs");
  if (state_ == State::kNew) {
    return header.type == abi::PacketType::kHello ? OnHello(packet) : ProtocolError("the first packet is no hello");
  }
  if (state_ == State::kStatusOnly) {
    if (header.type == abi::PacketType::kTrace) return OnTrace(packet.bytes);
    return header.type == abi::PacketType::kStatus ? OnStatus(packet.bytes)
                                                   : ProtocolError("a status client may only ask for the status");
  }
  switch (header.type) {
    case abi::PacketType::kJoin:
      return OnJoin(packet.bytes);
    case abi::PacketType::kRegisterRegion:
      return OnRegister(packet);
    case abi::PacketType::kUnregisterRegion:
      return OnUnregister(packet.bytes);
    case abi::PacketType::kSubmit:
      return OnSubmit(packet.bytes);
    case abi::PacketType::kProgress:
      return OnProgress(packet.bytes);
    case abi::PacketType::kCancel:
      return OnCancel(packet.bytes);
    case abi::PacketType::kSetDeadline:
      return OnSetDeadline(packet.bytes);
    case abi::PacketType::kStateTaken:
      return OnStateTaken(packet.bytes);
    case abi::PacketType::kLeave:
      return OnLeave(packet.bytes);
    default:
      return ProtocolError("a packet type has no place here");
  }
}

Status TrainerSession::OnHello(const ReceivedPacket& packet) {
  const auto hello = PacketAs<abi::Hello>(packet.bytes);
  if (!hello.ok()) return hello.status();
  auto reply = MakePacket<abi::HelloReply>(abi::PacketType::kHelloReply);
  const Versions theirs{hello.value().version_min, hello.value().version_max};
  const auto version = AgreeVersion(abi::kVersions, theirs);
  reply.version = version.value_or(abi::kVersion);
  reply.daemon_instance = sink_->Instance();
  if (!version) {
    const std::string text = NoCommonVersion("this daemon", abi::kVersions, "the client library", theirs);
    reply.code = Code::kVersionMismatch;
    SetText(reply.text, text);
    SendStruct(reply);
    return {Code::kVersionMismatch, text};
  }
  if (packet.fd.valid()) {
    if (Status status = sink_->MayJoin(*this, std::nullopt); !status.ok()) {
      reply.code = status.code();
      SetText(reply.text, status.text());
      SendStruct(reply);
      return status;
    }
    if (Status status = CheckSessionPage(packet.fd.get()); !status.ok()) return status;
    auto page = Mapping::Map(packet.fd.get(), sizeof(abi::SessionPage), true);
    if (!page.ok()) return page.status();
    page_ = std::move(page).value();
    state_ = State::kGreeted;
  } else {
    state_ = State::kStatusOnly;
  }
  SendStruct(reply);
  return Status::Ok();
}

Status TrainerSession::OnJoin(std::span<const std::byte> bytes) {
  const auto packet = PacketAs<abi::Join>(bytes);
  if (!packet.ok()) return packet.status();
  if (state_ != State::kGreeted) return ProtocolError("a second join on one session");
  const abi::Join& join = packet.value();
  const auto group = GetText(join.group, "the group's name");
  const auto name = GetText(join.name, "the peer's name");
  state_ = State::kJoining;
  for (const Status& status : {group.status(), name.status()}) {
    if (status.code() == Code::kProtocol) return status;
    if (!status.ok()) {
      JoinRefused(status);
      return Status::Ok();
    }
  }
  const char* fault = nullptr;
  if (group.value().empty())
    fault = "the group's name is empty";
  else if (join.wait_world < 1 || join.wait_world > abi::kWorldSizeMax)
    fault = "wait_world is not in 1 .. 64";
  else if (join.min_world < 1 || join.min_world > abi::kWorldSizeMax)
    fault = "min_world is not in 1 .. 64";
  else if (join.fail_on_peer_loss > 1)
    fault = "fail_on_peer_loss is neither 0 nor 1";
  else if (join.takes_state > 1)
    fault = "takes_state is neither 0 nor 1";
  if (fault != nullptr) {
    JoinRefused(Status(Code::kInvalidArgument, fault));
    return Status::Ok();
  }
  op_deadline_ = std::chrono::milliseconds(join.op_deadline_ms);
  takes_state_ = join.takes_state == 1;
  if (const Status may = sink_->MayJoin(*this, group.value()); !may.ok()) {
    JoinRefused(may);
    return Status::Ok();
  }
  JoinInTurn({.group = group.value(),
              .name = name.value(),
              .wait_world = join.wait_world,
              .min_world = join.min_world,
              .fail_on_peer_loss = join.fail_on_peer_loss == 1,
              .hung_ms = join.hung_ms});
  return Status::Ok();
}

void TrainerSession::JoinInTurn(JoinOrder order) {
  const Duration wait = users_->TakeJoin(host_user_, net::Clock::Of(context_).Now());
  if (wait == Duration()) return sink_->OnJoin(shared_from_this(), order);
  JoinProgress(Code::kResourceExhausted, "user " + std::to_string(host_user_.uid) + " joins more often than " +
                                             std::to_string(std::chrono::seconds(1) / UserShares::kJoinPeriod) +
                                             " times a second: this join waits " + SecondsText(wait) + " for its turn");
  waits_for_turn_ = true;
  turn_.After(wait, [self = shared_from_this(), order = std::move(order)] {
    self->waits_for_turn_ = false;
    if (self->state_ == State::kJoining) self->sink_->OnJoin(self, order);
  });
}

Status TrainerSession::OnRegister(ReceivedPacket& packet) {
  const auto order = PacketAs<abi::RegisterRegion>(packet.bytes);
  if (!order.ok()) return order.status();
  if (!packet.fd.valid()) return ProtocolError("a region comes without its descriptor");
  const std::uint32_t id = order.value().region_id;
  const std::uint64_t bytes = order.value().bytes;
  if (state_ != State::kMember && state_ != State::kLeaving) {
    return ProtocolError("a region is registered by a session that is no member");
  }
  if (id >= abi::kRegionCountMax) return ProtocolError("a region id is out of range");
  if (regions_.contains(id)) return ProtocolError("a region id is in use");
  if (Status status = CheckSealedMemfd(packet.fd.get(), bytes); !status.ok()) return status;
  // No reply: an operation on a region without room reports it. Each one tries again to charge a region that is open;
  // the trainer registers a refused one anew.
  auto descriptor = users_->TakeDescriptors(host_user_, 1);
  const Status has_descriptor = descriptor.status();
  Region made(std::move(packet.fd), bytes, reclaimer_, descriptor.ok() ? std::move(descriptor).value() : PoolCharge());
  Region& region = regions_.emplace(id, std::move(made)).first->second;
  if (!has_descriptor.ok()) {
    region.Refuse(has_descriptor);
    return Status::Ok();
  }
  const Status usable = MakeUsable(region);
  if (region.charge() != nullptr) return Status::Ok();
  // The open descriptor keeps its pages alive without a charge, so uncharged bytes are bounded.
  if (UnchargedBytes() > UnchargedMax()) region.Refuse(usable);
  return Status::Ok();
}

std::uint64_t TrainerSession::UnchargedBytes() const {
  std::uint64_t sum = 0;
  for (const auto& [id, region] : regions_) {
    if (region.charge() == nullptr && region.refused().ok()) sum += region.bytes();
  }
  return sum;
}

std::uint64_t TrainerSession::UnchargedMax() const {
  return std::min(limits_.region_bytes_max, memory_->budget().share_max());
}

Status TrainerSession::MakeUsable(Region& region) {
  if (!region.refused().ok()) return region.refused();
  const std::uint64_t bytes = region.bytes();
  if (Status status = CheckPopulated(region.fd(), bytes); !status.ok()) return status;
  if (region.charge() != nullptr) return Status::Ok();
  if (bytes > limits_.region_bytes_max - memory_->used(MemoryUse::kRegions)) {
    return {Code::kResourceExhausted,
            "the regions of this session exceed " + std::to_string(limits_.region_bytes_max) + " bytes together"};
  }
  if (Status status = memory_->Take(MemoryUse::kRegions, bytes); !status.ok()) return status;
  region.SetCharge(std::make_shared<const MemoryCharge>(memory_, MemoryUse::kRegions, bytes));
  return Status::Ok();
}

Status TrainerSession::OnUnregister(std::span<const std::byte> bytes) {
  const auto order = PacketAs<abi::UnregisterRegion>(bytes);
  if (!order.ok()) return order.status();
  const auto found = regions_.find(order.value().region_id);
  if (found == regions_.end()) return ProtocolError("a region that is not registered is unregistered");
  regions_.erase(found);
  return Status::Ok();
}

Status TrainerSession::OnSubmit(std::span<const std::byte> bytes) {
  const auto packet = SubmitIn(bytes);
  if (!packet.ok()) return packet.status();
  if (state_ != State::kMember) return ProtocolError("an operation is submitted by a session that is no member");
  const abi::Submit& submit = packet.value().submit;
  const auto region_bytes = [this](std::uint32_t id) -> std::optional<std::uint64_t> {
    const auto found = regions_.find(id);
    if (found == regions_.end()) return std::nullopt;
    return found->second.bytes();
  };
  const SubmitVerdict verdict = CheckSubmit(submit, packet.value().counts, peer_, region_bytes);
  if (verdict.verdict == Verdict::kProtocolError) return verdict.status;
  if (slots_[submit.slot].in_use) return ProtocolError("a slot is submitted while its operation runs");
  slots_[submit.slot] = {.in_use = true, .input_bytes = verdict.input_bytes, .staged_bytes = verdict.input_bytes};
  buffers::TrainerBuffers::Places places;
  Status status = CheckRefusalsKnown(submit);
  if (status.ok()) status = verdict.status;
  if (status.ok()) status = MapRanges(submit, verdict, places);
  if (status.ok() && submit.staged == 1) {
    const std::uint64_t staged = SlotAt(submit.slot).staged_bytes.load(std::memory_order_acquire);
    slots_[submit.slot].staged_bytes = std::min(staged, verdict.input_bytes);
  }
  places.input_bytes = verdict.input_bytes;
  places.input_ready = slots_[submit.slot].staged_bytes;
  places.output_bytes = verdict.result_bytes;
  if (status.ok()) {
    // On the state channel ranks wait for each other as long as a newcomer replays.
    const bool may_take_long = submit.spec.channel == abi::kStateChannel;
    status = requests_ == nullptr
                 ? Status(Code::kShuttingDown, "the peer has ended")
                 : requests_->Submit({.token = submit.slot,
                                      .spec = verdict.spec,
                                      .descriptor = verdict.descriptor,
                                      .layout = verdict.layout,
                                      .buffers = std::make_shared<buffers::TrainerBuffers>(std::move(places)),
                                      .time_limit = may_take_long ? Duration::zero() : op_deadline_});
  }
  if (!status.ok()) Refuse(submit, status);
  return Status::Ok();
}

Status TrainerSession::CheckRefusalsKnown(const abi::Submit& submit) const {
  const std::uint64_t refusals = submit.spec.kind == OpKind::kUpdateView
                                     ? std::accumulate(refusals_.begin(), refusals_.end(), std::uint64_t{0})
                                     : refusals_.at(submit.spec.channel);
  if (submit.refusals_told == refusals) return Status::Ok();
  return {Code::kResourceExhausted, "one before it on this channel was refused, which its Wait says"};
}

// The trainer must submit it again, as skipping it would leave its sequence one behind the others'.
void TrainerSession::Refuse(const abi::Submit& submit, const Status& why) {
  ++refusals_.at(submit.spec.channel);
  buffers::Complete refused;
  refused.token = submit.slot;
  refused.outcome.code = why.code();
  refused.outcome.refused = 1;
  refused.text = why.text();
  if (why.code() == Code::kResourceExhausted) refused.text += "; nothing was submitted: submit it again, or leave";
  Complete(refused);
  Flush();
}

Status TrainerSession::MapRanges(const abi::Submit& submit, const SubmitVerdict& verdict,
                                 buffers::TrainerBuffers::Places& places) {
  Mappings mappings;
  if (verdict.input_bytes > 0) {
    Region& region = regions_.at(submit.input_region);
    if (Status status = MakeUsable(region); !status.ok()) return status;
    auto input = region.Input();
    if (!input.ok()) return input.status();
    places.input = input.value()->data() + submit.input_offset_bytes;
    mappings.input = input.value();
  }
  if (verdict.result_bytes > 0) {
    Region& region = regions_.at(submit.result_region);
    if (Status status = MakeUsable(region); !status.ok()) return status;
    auto result = region.Output();
    if (!result.ok()) return result.status();
    places.output = result.value()->data() + submit.result_offset_bytes;
    mappings.result = result.value();
  }
  places.keep = std::make_shared<const Mappings>(std::move(mappings));
  return Status::Ok();
}

// The page's counter is hostile: it is clamped and made monotonic.
void TrainerSession::RaiseStaged(std::uint32_t slot) {
  SlotUse& use = slots_[slot];
  const std::uint64_t staged = SlotAt(slot).staged_bytes.load(std::memory_order_acquire);
  const std::uint64_t now = std::min(staged, use.input_bytes);
  if (now <= use.staged_bytes) return;
  use.staged_bytes = now;
  if (requests_ != nullptr) requests_->OnStaged(slot, now);
}

Status TrainerSession::OnProgress(std::span<const std::byte> bytes) {
  const auto packet = PacketAs<abi::Progress>(bytes);
  if (!packet.ok()) return packet.status();
  if (packet.value().slot >= abi::kSlotCount) return ProtocolError("a slot number is out of range");
  if (slots_[packet.value().slot].in_use) RaiseStaged(packet.value().slot);
  return Status::Ok();
}

Status TrainerSession::OnCancel(std::span<const std::byte> bytes) {
  const auto packet = PacketAs<abi::Cancel>(bytes);
  if (!packet.ok()) return packet.status();
  if (packet.value().slot >= abi::kSlotCount) return ProtocolError("a slot number is out of range");
  // The operation may have ended while the packet was in flight.
  if (slots_[packet.value().slot].in_use && requests_ != nullptr) requests_->Cancel(packet.value().slot);
  return Status::Ok();
}

Status TrainerSession::OnSetDeadline(std::span<const std::byte> bytes) {
  const auto packet = PacketAs<abi::SetDeadline>(bytes);
  if (!packet.ok()) return packet.status();
  const std::uint32_t slot = packet.value().slot;
  if (slot >= abi::kSlotCount) return ProtocolError("a slot number is out of range");
  if (slots_[slot].in_use && requests_ != nullptr)
    requests_->SetDeadline(slot, std::chrono::milliseconds(packet.value().after_ms));
  return Status::Ok();
}

Status TrainerSession::OnStateTaken(std::span<const std::byte> bytes) {
  const auto packet = PacketAs<abi::StateTaken>(bytes);
  if (!packet.ok()) return packet.status();
  if (!takes_state_) return ProtocolError("this session takes no state");
  if (requests_ != nullptr) requests_->OnStateTaken(PeerId(packet.value().peer_id));
  return Status::Ok();
}

Status TrainerSession::OnLeave(std::span<const std::byte> bytes) {
  const auto packet = PacketAs<abi::Leave>(bytes);
  if (!packet.ok()) return packet.status();
  switch (state_) {
    case State::kMember:
      state_ = State::kLeaving;
      if (requests_ != nullptr) requests_->Leave();
      return Status::Ok();
    case State::kGreeted:
    case State::kJoining:
      // The trainer is not a member yet; the host withdraws the join request.
      SendStruct(MakePacket<abi::LeaveReply>(abi::PacketType::kLeaveReply));
      TrainerGone();
      return Status::Ok();
    default:
      return ProtocolError("a second leave");
  }
}

}  // namespace ringway::local
