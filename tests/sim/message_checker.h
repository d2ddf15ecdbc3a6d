// The invariants of sends and recvs: a message is reported once at each end; bytes that are received are those of that
// message; success at the sender means success at the receiver; and two ends that stay get the same outcome.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/ids.h"
#include "proto/result.h"

namespace ringway::sim {

struct MessageKey {
  PeerId from;
  PeerId to;
  std::uint32_t channel = 0;
  std::uint32_t tag = 0;
  std::uint64_t seq = 0;
  friend auto operator<=>(const MessageKey&, const MessageKey&) = default;
};
std::string ToString(const MessageKey& key);

// Returns the bytes that its sender sends. A pure function.
std::vector<std::byte> BytesOf(const MessageKey& key, std::size_t size);

class MessageChecker {
 public:
  // Returns the violation; empty if there is none. `received`: of a recv that succeeded.
  std::string OnReported(const MessageKey& key, PeerId at, Code code, std::span<const std::byte> received);
  std::string WhyBroken(std::span<const PeerId> stayed) const;
  // Counts the messages that were reported at both ends, by outcome.
  std::map<Code, std::uint64_t> Counts() const;

 private:
  struct Ends {
    std::optional<Code> sender;
    std::optional<Code> receiver;
  };
  std::map<MessageKey, Ends> ends_;
};

}  // namespace ringway::sim
