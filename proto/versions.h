// The versions of a contract that a program speaks. A release speaks those of the release before it, too, so that a
// cluster is upgraded one process at a time (PROTOCOL.md, "Two releases side by side").
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace ringway {

struct Versions {
  std::uint32_t oldest = 0, newest = 0;

  constexpr bool Has(std::uint32_t version) const { return oldest <= version && version <= newest; }
};

// Returns the highest version that both speak, or nothing. The ranges may come from anywhere, and be none.
constexpr std::optional<std::uint32_t> AgreeVersion(Versions ours, Versions theirs) {
  const std::uint32_t highest = std::min(ours.newest, theirs.newest);
  if (!ours.Has(highest) || !theirs.Has(highest)) return std::nullopt;
  return highest;
}

// "11", "11 to 12".
inline std::string ToString(Versions versions) {
  const std::string oldest = std::to_string(versions.oldest);
  return versions.oldest == versions.newest ? oldest : oldest + " to " + std::to_string(versions.newest);
}

// The text of a refusal, where `mine` and `other` are "this master" and "the daemon".
inline std::string NoCommonVersion(const std::string& mine, Versions ours, const std::string& other, Versions theirs) {
  return mine + " speaks version " + ToString(ours) + " of the protocol, " + other + " " + ToString(theirs) +
         ": a release works with the one before it and the one after it; upgrade the older of both";
}

}  // namespace ringway
