// A trainer without the library: a raw connection to a daemon's local socket that says what a test wants, with a page
// and two regions of its own to lie about.
//
// Threads: one. Errors are test failures, except that the daemon may end the session at any time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/stream/unique_fd.h"
#include "tests/daemon/local/client_packets.h"

namespace ringway::e2e {

inline constexpr std::uint64_t kHostileRegionBytes = 64 * 1024;

class HostileTrainer {
 public:
  // Connects and says nothing.
  explicit HostileTrainer(const std::string& socket_path);
  ~HostileTrainer();
  HostileTrainer(const HostileTrainer&) = delete;
  HostileTrainer& operator=(const HostileTrainer&) = delete;

  // The only member of `group`, with regions 0 and 1 registered.
  void BecomeMember(const std::string& group);

  // Returns false once the daemon has closed; waits for room.
  bool SendBytes(std::span<const std::byte> bytes, const std::vector<int>& fds = {});
  template <typename T>
  bool Send(const T& packet, const std::vector<int>& fds = {}) {
    return SendBytes(local::BytesOf(packet), fds);
  }

  // Throws away what comes until the connection ends. The code of the last Ended, if there was one.
  std::optional<Code> WaitForEnd();
  // Returns whether a packet of this type comes before the connection ends; those before it are thrown away.
  [[nodiscard]] bool WaitFor(abi::PacketType type) { return Receive(type).has_value(); }
  // Returns the slot's code if it is done within the patience.
  std::optional<Code> WaitForSlot(std::uint32_t slot);

  // The next packet as it came; empty at the end.
  std::vector<std::byte> ReceiveAny();

  // Shared with the daemon. REQUIRES: a member.
  abi::SessionPage& page() { return *page_; }
  int region_fd(std::uint32_t region) const { return regions_[region].get(); }

 private:
  // The next packet of this type as it came; nothing at the end.
  std::optional<std::vector<std::byte>> Receive(abi::PacketType type);

  net::UniqueFd socket_;
  net::UniqueFd regions_[2];
  abi::SessionPage* page_ = nullptr;
};

}  // namespace ringway::e2e
