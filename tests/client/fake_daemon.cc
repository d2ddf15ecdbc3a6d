#include "tests/client/fake_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <utility>

namespace ringway::testing {
namespace {

template <typename T>
T Make(abi::PacketType type) {
  T packet{};
  packet.header = {abi::kMagic, type};
  return packet;
}

template <typename T>
T As(const std::byte* bytes) {
  T packet;
  std::memcpy(&packet, bytes, sizeof(packet));
  return packet;
}

template <std::size_t size>
void SetText(char (&to)[size], const std::string& text) {
  std::memset(to, 0, size);
  std::memcpy(to, text.data(), std::min(text.size(), size - 1));
}

}  // namespace

FakeDaemon::FakeDaemon(Behaviour behaviour) : behaviour_(std::move(behaviour)) {
  std::string pattern = (std::filesystem::temp_directory_path() / "ringway-fake-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) std::abort();
  directory_ = pattern;
  path_ = directory_ + "/daemon.sock";
  Listen();
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::thread([this] { Loop(); });
}

void FakeDaemon::Listen() {
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) std::abort();
  if (listen(listener_, 4) != 0) std::abort();
}

FakeDaemon::~FakeDaemon() {
  Run([this] { stopping_ = true; });
  thread_.join();
  Disconnect();
  if (listener_ >= 0) close(listener_);
  close(wake_);
  std::filesystem::remove_all(directory_);
}

FakeDaemon::Seen FakeDaemon::Look() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return seen_;
}

bool FakeDaemon::WaitUntil(const std::function<bool(const Seen&)>& condition) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(30), [&] { return condition(seen_); });
}

void FakeDaemon::Run(std::function<void()> action) {
  std::promise<void> done;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    actions_.emplace_back([&] {
      action();
      done.set_value();
    });
  }
  const std::uint64_t one = 1;
  if (write(wake_, &one, sizeof(one)) != sizeof(one)) std::abort();
  done.get_future().wait();
}

void FakeDaemon::CompleteHeld() {
  Run([this] {
    const auto held = open_;
    for (const auto& [slot, submit] : held) {
      released_.insert(slot);
      CompleteIfWhole(slot);
    }
  });
}

void FakeDaemon::FailHeld(Code code, const std::string& text) {
  Run([&] {
    for (const auto& [slot, submit] : std::exchange(open_, {})) Finish(slot, code, text);
  });
}

void FakeDaemon::SetRefusesRegions(bool refuses) {
  Run([&] { refuses_regions_ = refuses; });
}

void FakeDaemon::SetHolds(bool holds) {
  Run([&] { behaviour_.holds = holds; });
}

void FakeDaemon::SendEnded(Code code, const std::string& text) {
  Run([&] {
    auto ended = Make<abi::Ended>(abi::PacketType::kEnded);
    ended.code = code;
    SetText(ended.text, text);
    Send(ended);
    ++instance_;
    Disconnect();
  });
}

void FakeDaemon::Die() {
  Run([this] {
    ++instance_;
    Disconnect();
  });
}

void FakeDaemon::Drop() {
  Run([this] { Disconnect(); });
}

void FakeDaemon::GoAway() {
  Run([this] {
    unlink(path_.c_str());
    close(std::exchange(listener_, -1));
    Disconnect();
  });
}

void FakeDaemon::ComeBack() {
  Run([this] {
    ++instance_;
    Listen();
  });
}

void FakeDaemon::SetJoin(Code code, bool answers) {
  Run([&] {
    behaviour_.join_code = code;
    behaviour_.answers_join = answers;
  });
}

void FakeDaemon::SetWorld(std::uint64_t epoch, std::uint32_t rank, std::uint32_t world_size) {
  Run([&] {
    epoch_ = epoch;
    rank_ = rank;
    world_size_ = world_size;
  });
}

void FakeDaemon::SetLate(bool late, bool kept) {
  Run([&] {
    is_late_ = late;
    is_kept_ = kept;
  });
}

void FakeDaemon::Loop() {
  while (!stopping_) {
    pollfd inputs[] = {{wake_, POLLIN, 0}, {connection_ < 0 ? listener_ : connection_, POLLIN, 0}};
    if (poll(inputs, 2, -1) < 0) continue;
    // Everything that the client sent before a test asks for something is read before that is done.
    if (inputs[1].revents != 0) {
      connection_ < 0 ? AcceptOne() : ReadOne();
    } else if ((inputs[0].revents & POLLIN) != 0) {
      std::uint64_t count = 0;
      (void)!read(wake_, &count, sizeof(count));
      std::vector<std::function<void()>> actions;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        actions.swap(actions_);
      }
      for (const auto& action : actions) action();
    }
  }
}

void FakeDaemon::AcceptOne() { connection_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC); }

void FakeDaemon::ReadOne() {
  alignas(8) std::byte packet[1024];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{packet, sizeof(packet)};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(connection_, &message, MSG_CMSG_CLOEXEC);
  if (size <= 0) return Disconnect();
  int descriptor = -1;
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
  Handle(packet, descriptor);
  if (descriptor >= 0) close(descriptor);
  changed_.notify_all();
}

void FakeDaemon::Handle(const std::byte* packet, int descriptor) {
  switch (As<abi::PacketHeader>(packet).type) {
    case abi::PacketType::kHello:
      return HandleHello(descriptor);
    case abi::PacketType::kJoin:
      return HandleJoin(As<abi::Join>(packet));
    case abi::PacketType::kRegisterRegion:
      return HandleRegister(As<abi::RegisterRegion>(packet), descriptor);
    case abi::PacketType::kUnregisterRegion: {
      const Mapped gone = std::exchange(regions_[As<abi::UnregisterRegion>(packet).region_id], {});
      munmap(gone.data, gone.bytes);
      const std::lock_guard<std::mutex> lock(mutex_);
      ++seen_.unregistered;
      return;
    }
    case abi::PacketType::kSubmit:
      return HandleSubmit(As<abi::Submit>(packet));
    case abi::PacketType::kProgress:
      return HandleProgress(As<abi::Progress>(packet));
    case abi::PacketType::kCancel: {
      const std::uint32_t slot = As<abi::Cancel>(packet).slot;
      if (open_.erase(slot) == 1) Finish(slot, is_late_ ? Code::kOk : Code::kCancelled, "cancelled by all ranks");
      const std::lock_guard<std::mutex> lock(mutex_);
      seen_.cancels.push_back(slot);
      return;
    }
    case abi::PacketType::kLeave: {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        ++seen_.leaves;
      }
      if (behaviour_.answers_leave) Send(Make<abi::LeaveReply>(abi::PacketType::kLeaveReply));
      return;
    }
    default:
      std::abort();
  }
}

void FakeDaemon::HandleHello(int descriptor) {
  page_ = static_cast<abi::SessionPage*>(
      mmap(nullptr, sizeof(abi::SessionPage), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
  if (page_ == MAP_FAILED) std::abort();
  auto reply = Make<abi::HelloReply>(abi::PacketType::kHelloReply);
  reply.code = behaviour_.hello_code;
  reply.version = behaviour_.version;
  reply.daemon_instance = instance_;
  SetText(reply.text, "hello refused");
  if (behaviour_.answers_hello) Send(reply);
}

void FakeDaemon::HandleJoin(const abi::Join& join) {
  auto reply = Make<abi::JoinReply>(abi::PacketType::kJoinReply);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    seen_.group = join.group;
    ++seen_.joins;
    reply.peer_id = 76 + seen_.joins;
  }
  if (!behaviour_.join_progress.empty()) {
    auto progress = Make<abi::JoinProgress>(abi::PacketType::kJoinProgress);
    progress.code = behaviour_.progress_code;
    SetText(progress.text, behaviour_.join_progress);
    Send(progress);
  }
  if (!behaviour_.answers_join) return;
  abi::MemberList members{.epoch = epoch_, .world_size = world_size_, .reserved = 0, .members = {}};
  for (std::uint32_t rank = 0; rank < world_size_; ++rank) {
    members.members[rank].peer_id = reply.peer_id - rank_ + rank;
    SetText(members.members[rank].name, "trainer" + std::to_string(rank));
    SetText(members.members[rank].site, rank % 2 == 0 ? "eu" : "us");
  }
  abi::WriteMembers(page_->members, members);
  reply.code = behaviour_.join_code;
  reply.world_size = world_size_;
  reply.rank = rank_;
  reply.epoch = epoch_;
  reply.regions_mib_max = behaviour_.regions_mib_max;
  SetText(reply.text, behaviour_.join_text);
  Send(reply);
}

void FakeDaemon::HandleRegister(const abi::RegisterRegion& packet, int descriptor) {
  const int seals = fcntl(descriptor, F_GET_SEALS);
  Mapped mapped;
  mapped.bytes = packet.bytes;
  mapped.is_refused = refuses_regions_;
  mapped.data = static_cast<std::byte*>(mmap(nullptr, packet.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (mapped.data == MAP_FAILED || seals != (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) seen_.seals_were_right = false;
  if (regions_[packet.region_id].data != nullptr) seen_.seals_were_right = false;
  regions_[packet.region_id] = mapped;
  seen_.region_bytes.push_back(packet.bytes);
}

void FakeDaemon::HandleSubmit(const abi::Submit& submit) {
  // Before the client can know of the outcome; so everywhere below.
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    seen_.submits.push_back(submit);
  }
  if (IsRefused(submit)) return Finish(submit.slot, Code::kResourceExhausted, "no room", true);
  open_[submit.slot] = submit;
  released_.erase(submit.slot);
  CompleteIfWhole(submit.slot);
}

bool FakeDaemon::IsRefused(const abi::Submit& submit) const {
  const auto is_refused = [this](std::uint64_t count, std::uint32_t region) {
    return count > 0 && regions_.at(region).is_refused;
  };
  return is_refused(submit.input_count, submit.input_region) || is_refused(submit.result_count, submit.result_region);
}

void FakeDaemon::HandleProgress(const abi::Progress& progress) {
  const std::uint64_t staged = page_->slots[progress.slot].staged_bytes.load(std::memory_order_acquire);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    seen_.progress.push_back(staged);
  }
  CompleteIfWhole(progress.slot);
}

void FakeDaemon::CompleteIfWhole(std::uint32_t slot) {
  const auto found = open_.find(slot);
  if (found == open_.end() || (behaviour_.holds && released_.count(slot) == 0)) return;
  const abi::Submit submit = found->second;
  const std::uint64_t arrived = page_->slots[slot].staged_bytes.load(std::memory_order_acquire);
  if (submit.staged != 0 && arrived != submit.input_count * SizeOf(submit.spec.dtype)) return;
  open_.erase(found);
  Complete(submit);
}

void FakeDaemon::Complete(const abi::Submit& submit) {
  const std::size_t bytes = std::min(submit.input_count, submit.result_count) * SizeOf(submit.spec.dtype);
  if (bytes > 0) {
    const std::byte* const input = regions_.at(submit.input_region).data + submit.input_offset_bytes;
    std::byte* const result = regions_.at(submit.result_region).data + submit.result_offset_bytes;
    for (std::size_t i = 0; i < bytes; ++i) {
      result[i] = static_cast<std::byte>(std::to_integer<unsigned>(input[i]) + behaviour_.increment);
    }
  }
  page_->slots[submit.slot].outcome.algorithm = abi::AlgorithmOf(submit.spec).value_or(kPlansChoice);
  Finish(submit.slot, Code::kOk, "");
}

void FakeDaemon::Finish(std::uint32_t slot, Code code, const std::string& text, bool refused) {
  abi::Slot& done = page_->slots[slot];
  done.outcome.refused = refused ? 1 : 0;
  done.outcome.code = code;
  done.outcome.world_size = world_size_;
  done.outcome.rank = rank_;
  done.outcome.input_kept = is_kept_ ? 1 : 0;
  done.outcome.absent = is_late_ ? std::uint64_t{1} << rank_ : 0;
  done.outcome.epoch = epoch_;
  done.outcome.wire_bytes = 5;
  done.outcome.retries = 1;
  done.outcome.update_waits = 1;
  for (std::uint32_t i = 0; i < world_size_; ++i) done.contributors[i] = 77 + i;
  SetText(done.text, text);
  done.state.store(abi::SlotState::kDone, std::memory_order_release);
  Send(Make<abi::Doorbell>(abi::PacketType::kDoorbell));
}

void FakeDaemon::Disconnect() {
  if (connection_ < 0) return;
  close(std::exchange(connection_, -1));
  for (const auto& [id, mapped] : std::exchange(regions_, {})) {
    if (mapped.data != nullptr) munmap(mapped.data, mapped.bytes);
  }
  if (page_ != nullptr) munmap(std::exchange(page_, nullptr), sizeof(abi::SessionPage));
  open_.clear();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++seen_.disconnects;
  }
  changed_.notify_all();
}

template <typename T>
void FakeDaemon::Send(const T& packet) {
  // A client that is gone is found by the next read.
  (void)!send(connection_, &packet, sizeof(packet), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace ringway::testing
