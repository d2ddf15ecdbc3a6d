#include "master/coordination/names.h"

#include "proto/local_abi.h"
#include "proto/printable.h"

namespace ringway {

Status CheckHello(const control::DaemonHello& hello) {
  if (hello.name().size() > kNameBytesMax || hello.site().size() > kNameBytesMax ||
      hello.address().size() > kNameBytesMax || hello.release().size() > kNameBytesMax) {
    return {Code::kInvalidArgument, "name, site, address and release are 255 bytes at most"};
  }
  if (!IsPrintable(hello.name()) || !IsPrintable(hello.site()) || !IsPrintable(hello.address()) ||
      !IsPrintable(hello.release())) {
    return {Code::kInvalidArgument, "name, site, address or release has control characters: leave them out"};
  }
  return Status::Ok();
}

Status CheckNames(const control::JoinRequest& request) {
  if (request.group().empty() || request.group().size() >= abi::kGroupNameBytes ||
      request.name().size() >= abi::kPeerNameBytes) {
    return {Code::kInvalidArgument, "a group name has 1 to 127 bytes, a peer name at most 63"};
  }
  if (!IsPrintable(request.group()) || !IsPrintable(request.name())) {
    return {Code::kInvalidArgument, "the group's or the peer's name has control characters: leave them out"};
  }
  return Status::Ok();
}

std::string NameOfPeer(const control::PeerInfo& info) {
  return info.name().empty() ? "peer " + std::to_string(info.peer_id()) : info.name();
}

}  // namespace ringway
