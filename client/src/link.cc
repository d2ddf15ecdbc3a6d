#include "client/src/link.h"

#include <new>
#include <utility>

namespace ringway::internal {

Expected<std::shared_ptr<Link>> Link::Connect(const std::string& socket_path, const Deadline& deadline) {
  auto socket = PacketSocket::Connect(socket_path, deadline);
  if (!socket.ok()) return socket.error();
  auto page = SharedMemory::Create(sizeof(abi::SessionPage));
  if (!page.ok()) return page.error();
  auto* const layout = new (page->data()) abi::SessionPage{};
  layout->magic = abi::kMagic;
  layout->version = abi::kVersion;
  auto link = std::make_shared<Link>();
  link->socket = std::move(socket.value());
  link->page_ = std::move(page.value());
  return link;
}

Error Link::Join(const JoinOptions& options, std::uint64_t gone, const Deadline& deadline) {
  auto membership = Shake(&socket, page_, options, gone, deadline);
  if (!membership.ok()) return membership.error();
  membership_ = membership.value();
  page_.CloseDescriptor();
  return {};
}

}  // namespace ringway::internal
