#include "tests/e2e/hostile_trainer.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "tests/daemon/local/memfd.h"
#include "tests/e2e/processes.h"

namespace ringway::e2e {
namespace {

// False, and a failure, if nothing happens within the patience.
bool WaitUntilReady(int socket, short events) {
  constexpr int kPatienceMs = static_cast<int>(std::chrono::milliseconds(kPatience).count());
  pollfd ready{.fd = socket, .events = events, .revents = 0};
  if (::poll(&ready, 1, kPatienceMs) == 1) return true;
  ADD_FAILURE() << "the daemon neither answers nor closes";
  return false;
}

}  // namespace

HostileTrainer::HostileTrainer(const std::string& socket_path)
    : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << socket_path;
}

HostileTrainer::~HostileTrainer() {
  if (page_ != nullptr) ::munmap(page_, sizeof *page_);
}

void HostileTrainer::BecomeMember(const std::string& group) {
  const net::UniqueFd page = local::MakeMemfd(sizeof *page_);
  void* mapped = ::mmap(nullptr, sizeof *page_, PROT_READ | PROT_WRITE, MAP_SHARED, page.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  page_ = static_cast<abi::SessionPage*>(mapped);
  Send(local::HelloPacket(), {page.get()});
  Send(local::JoinPacket(group));
  const auto reply = Receive(abi::PacketType::kJoinReply);
  ASSERT_TRUE(reply.has_value() && reply->size() == sizeof(abi::JoinReply));
  EXPECT_EQ(reinterpret_cast<const abi::JoinReply*>(reply->data())->code, Code::kOk);
  for (const std::uint32_t id : {0U, 1U}) {
    regions_[id] = local::MakeMemfd(kHostileRegionBytes);
    Send(local::RegisterPacket(id, kHostileRegionBytes), {regions_[id].get()});
  }
}

bool HostileTrainer::SendBytes(std::span<const std::byte> bytes, const std::vector<int>& fds) {
  for (;;) {
    if (local::SendRaw(socket_.get(), bytes, fds, MSG_DONTWAIT) >= 0) return true;
    if (errno != EAGAIN || !WaitUntilReady(socket_.get(), POLLOUT)) return false;
  }
}

std::vector<std::byte> HostileTrainer::ReceiveAny() {
  if (!WaitUntilReady(socket_.get(), POLLIN)) return {};
  std::vector<std::byte> packet(abi::kPacketBytesMax);
  const ssize_t got = ::recv(socket_.get(), packet.data(), packet.size(), 0);
  packet.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return packet;
}

std::optional<std::vector<std::byte>> HostileTrainer::Receive(abi::PacketType type) {
  for (;;) {
    std::vector<std::byte> packet = ReceiveAny();
    if (packet.empty()) return std::nullopt;
    abi::PacketHeader header{};
    EXPECT_GE(packet.size(), sizeof header);
    std::memcpy(&header, packet.data(), sizeof header);
    if (header.type == type) return packet;
  }
}

std::optional<Code> HostileTrainer::WaitForEnd() {
  std::optional<Code> code;
  while (const auto packet = Receive(abi::PacketType::kEnded)) {
    const auto ended = local::PacketAs<abi::Ended>(*packet);
    EXPECT_TRUE(ended.ok() && ended.value().text[0] != '\0') << "ended without a word";
    code = ended.ok() ? ended.value().code : Code::kInternal;
  }
  return code;
}

std::optional<Code> HostileTrainer::WaitForSlot(std::uint32_t slot) {
  const abi::Slot& waited = page_->slots[slot];
  if (!Eventually([&] { return waited.state.load(std::memory_order_acquire) == abi::SlotState::kDone; })) {
    return std::nullopt;
  }
  return waited.outcome.code;
}

}  // namespace ringway::e2e
