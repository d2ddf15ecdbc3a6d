#include "client/src/link.h"

#include <algorithm>
#include <new>
#include <thread>
#include <utility>

namespace ringway::internal {
namespace {

constexpr int kMemberLooks = 1000;  // a millisecond apart

}  // namespace

Result<std::shared_ptr<Link>> Link::Connect(const std::string& socket_path, const Deadline& deadline) {
  auto socket = PacketSocket::Connect(socket_path, deadline);
  if (!socket.ok()) return socket.status();
  auto page = SharedMemory::Create(sizeof(abi::SessionPage));
  if (!page.ok()) return page.status();
  auto* const layout = new (page->data()) abi::SessionPage{};
  layout->magic = abi::kMagic;
  layout->version = abi::kVersion;
  auto link = std::make_shared<Link>();
  link->socket = std::move(socket.value());
  link->page_ = std::move(page.value());
  link->slots = Slots(layout->slots);
  return link;
}

Status Link::Join(const JoinOptions& options, std::uint64_t gone, const OnHeld& on_held, const Deadline& deadline) {
  auto membership = Shake(&socket, page_, options, gone, on_held, deadline);
  if (!membership.ok()) return membership.status();
  membership_ = membership.value();
  page_.CloseDescriptor();
  return {};
}

Status Link::SendProgress(std::uint32_t slot, bool is_last) {
  auto packet = MakePacket<abi::Progress>(abi::PacketType::kProgress);
  packet.slot = slot;
  // If the socket is full, earlier packets wake the daemon, which reads staged_bytes.
  const Status error = socket.Send(packet, Deadline(is_last ? kSendPatience : Milliseconds(0)));
  return is_last || error.code() != Code::kTimeout ? error : Status();
}

std::vector<std::uint64_t> Link::Newcomers() const {
  const abi::NewcomerTable& table = reinterpret_cast<abi::SessionPage*>(page_.data())->newcomers;
  std::vector<std::uint64_t> newcomers;
  if (table.count.load(std::memory_order_acquire) == 0) return newcomers;
  for (const auto& peer : table.peers) {
    if (const std::uint64_t newcomer = peer.load(std::memory_order_relaxed); newcomer != 0)
      newcomers.push_back(newcomer);
  }
  return newcomers;
}

Result<abi::MemberList> Link::ReadMembers() const {
  abi::MemberList list;
  bool is_whole = abi::ReadMembers(members(), &list);
  // The daemon may be preempted in the middle of a write.
  for (int i = 0; i < kMemberLooks && !is_whole; ++i) {
    std::this_thread::sleep_for(Milliseconds(1));
    is_whole = abi::ReadMembers(members(), &list);
  }
  list.world_size = std::min(list.world_size, abi::kWorldSizeMax);
  if (is_whole) return list;
  return Status(Code::kDaemonLost,
                "the daemon ended while it named the members; wait for an operation, which says more");
}

}  // namespace ringway::internal
