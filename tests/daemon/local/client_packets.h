// The packets of a client that tells the truth, for tests to falsify; and a way to send them that no library has: of
// any length, with any number of descriptors.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "daemon/local/packet.h"
#include "proto/local_abi.h"

namespace ringway::local {

inline constexpr std::size_t kRawDescriptorsMax = 8;

// Returns sendmsg's result. `fds`: up to kRawDescriptorsMax, sent along; the caller keeps them.
inline ssize_t SendRaw(int socket, std::span<const std::byte> bytes, const std::vector<int>& fds = {}, int flags = 0) {
  iovec part{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(kRawDescriptorsMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    const std::size_t bytes_of_fds = std::min(fds.size(), kRawDescriptorsMax) * sizeof(int);
    message.msg_control = ancillary;
    message.msg_controllen = CMSG_SPACE(bytes_of_fds);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    *header = {.cmsg_len = CMSG_LEN(bytes_of_fds), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    std::memcpy(CMSG_DATA(header), fds.data(), bytes_of_fds);
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | flags);
}

// The fixed struct of a packet as bytes.
template <typename T>
std::span<const std::byte> BytesOf(const T& packet) {
  return std::as_bytes(std::span(&packet, 1));
}

inline abi::Hello HelloPacket() {
  auto hello = MakePacket<abi::Hello>(abi::PacketType::kHello);
  hello.version_min = hello.version_max = abi::kVersion;
  return hello;
}

// Into a group of one.
inline abi::Join JoinPacket(const std::string& group = "job") {
  auto join = MakePacket<abi::Join>(abi::PacketType::kJoin);
  SetText(join.group, group);
  join.wait_world = join.min_world = 1;
  return join;
}

inline abi::RegisterRegion RegisterPacket(std::uint32_t id, std::uint64_t bytes) {
  auto region = MakePacket<abi::RegisterRegion>(abi::PacketType::kRegisterRegion);
  region.region_id = id;
  region.bytes = bytes;
  return region;
}

// The first 4 KiB of region 0 into region 1.
inline abi::Submit SubmitPacket(std::uint32_t slot) {
  auto submit = MakePacket<abi::Submit>(abi::PacketType::kSubmit);
  submit.slot = slot;
  submit.spec.dtype = DType::kF32;
  submit.input_region = 0;
  submit.result_region = 1;
  submit.spec.count = submit.input_count = submit.result_count = 1024;
  return submit;
}

}  // namespace ringway::local
