// Reads the image of a flight recorder (layout.h), whoever wrote it: every byte is checked before it is used.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/flight/layout.h"
#include "proto/result.h"

namespace ringway::flight {

// What an image says, without its empty places.
struct Log {
  struct Peer {
    std::string group;
    std::string name;
  };
  std::string daemon;
  std::string site;
  std::string utc;  // of started_us
  std::uint64_t instance = 0;
  std::uint32_t pid = 0;
  std::int64_t started_us = 0;
  std::optional<std::int64_t>
      started_utc_us;  // since 1970, by the host's wall clock, within a second; nothing: not known
  std::uint64_t left_out = 0;
  std::map<std::uint64_t, Peer> peers;  // by id; of others, too

  // Empty: not known.
  std::string GroupOf(std::uint64_t peer) const {
    const auto found = peers.find(peer);
    return found == peers.end() ? "" : found->second.group;
  }
  std::vector<Record> records;  // the oldest first
  std::uint64_t damaged = 0;    // records that were skipped, as none of this program's
};

// Texts are printable. kProtocol: it is no image, of another version, or shorter than it says.
Result<Log> Read(std::span<const std::byte> image);

// The words of an operation's life: "submitted", "ready in" ...
const char* NameOf(Kind kind);

}  // namespace ringway::flight
