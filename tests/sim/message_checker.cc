#include "tests/sim/message_checker.h"

#include <algorithm>

namespace ringway::sim {
namespace {

bool Contains(std::span<const PeerId> peers, PeerId peer) {
  return std::find(peers.begin(), peers.end(), peer) != peers.end();
}

}  // namespace

std::string ToString(const MessageKey& key) {
  return "message " + std::to_string(key.seq) + " from " + ringway::ToString(key.from) + " to " +
         ringway::ToString(key.to) + " on channel " + std::to_string(key.channel) + ", tag " + std::to_string(key.tag);
}

std::vector<std::byte> BytesOf(const MessageKey& key, std::size_t size) {
  std::uint64_t x = key.from.value * 0x9E3779B97F4A7C15U ^ key.to.value * 31 ^ key.seq * 0xD1342543DE82EF95U ^
                    key.channel * 7919U ^ key.tag * 104729U;
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) {
    x = x * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(x >> 56);
  }
  return bytes;
}

std::string MessageChecker::OnReported(const MessageKey& key, PeerId at, Code code,
                                       std::span<const std::byte> received) {
  Ends& ends = ends_[key];
  std::optional<Code>& end = at == key.from ? ends.sender : ends.receiver;
  const std::string who = "peer " + ringway::ToString(at) + ", " + ToString(key) + ": ";
  if (end) return who + "reported twice";
  end = code;
  if (code != Code::kOk) return "";
  if (at == key.from && ends.receiver != Code::kOk) return who + "sent, and not received";
  const std::vector<std::byte> sent = BytesOf(key, received.size());
  if (at == key.to && !std::equal(sent.begin(), sent.end(), received.begin())) return who + "other bytes than sent";
  return "";
}

std::string MessageChecker::WhyBroken(std::span<const PeerId> stayed) const {
  for (const auto& [key, ends] : ends_) {
    if (!Contains(stayed, key.from) || !Contains(stayed, key.to)) continue;
    if (!ends.sender || !ends.receiver) return ToString(key) + ": one end got nothing";
    if (*ends.sender == *ends.receiver) continue;
    return ToString(key) + ": " + NameOf(*ends.sender) + " at the sender, " + NameOf(*ends.receiver) +
           " at the receiver";
  }
  return "";
}

std::map<Code, std::uint64_t> MessageChecker::Counts() const {
  std::map<Code, std::uint64_t> counts;
  for (const auto& [key, ends] : ends_) {
    if (ends.receiver && ends.sender == ends.receiver) ++counts[*ends.receiver];
  }
  return counts;
}

}  // namespace ringway::sim
