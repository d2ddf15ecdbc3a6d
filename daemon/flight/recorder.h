// The daemon's flight recorder: its newest events, in memory that outlives it where that is a file's
// (proto/flight/layout.h has the layout).
//
//   Add, AddPart --> place number mod records --> overwritten by a later one
//
// Neither locks nor allocates nor reads the clock. Bounded by the memory; what is old is overwritten.
//
// Ownership: the memory is the caller's and outlives it. Threads: one, the only writer of the memory. Image allocates,
// and takes as long as copying what passes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "proto/flight/layout.h"
#include "proto/ids.h"

namespace ringway::flight {

// Who records.
struct Origin {
  std::string daemon;
  std::string site = {};
  std::string utc = {};  // now, "2026-11-27T09:30:00Z"
  std::uint64_t instance = 0;
  std::uint32_t pid = 0;
  TimePoint now{};
};

// Which records a dump has.
struct Filter {
  struct Range {  // of a channel, from first to last
    std::uint32_t channel = 0;
    std::uint64_t first = 0, last = 0;
  };
  std::string group;                     // empty: all
  std::uint32_t last = 0;                // operations of each channel of a peer; 0: all that are held
  std::vector<Range> only = {};          // with any: these operations instead; messages by `last`
  std::uint64_t bytes_max = UINT64_MAX;  // of the image; the oldest are left out
};

class Recorder {
 public:
  static constexpr std::uint32_t kNames = 256;
  static constexpr std::uint32_t kRecords = 8 * 1024;  // stay in a core's cache
  static constexpr std::size_t kBytes = ImageBytes(kNames, kRecords);
  // The longest image that is sent: heartbeats to the master wait behind it.
  static constexpr std::uint64_t kTraceBytesMax = 1 << 20;

  // REQUIRES: kBytes zeros, aligned as a Record; the first may be kMagic already.
  Recorder(std::span<std::byte> memory, const Origin& origin);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Records that speak of it have a name, and a group, from now on: those of the kNames peers named last.
  void AddName(PeerId peer, const std::string& group, const std::string& name);
  // Likewise of a peer here, whose name makes room for no other's until EndSelf, unless there are kNames such.
  void AddSelf(PeerId peer, const std::string& group, const std::string& name);
  void EndSelf(PeerId peer);
  // Its number is filled in.
  void Add(const Record& record);
  // One segment of a chunk, or slice of work: took_us and work_us are its own. Summed up with those before it.
  void AddPart(const Record& part);

  // What passes, the oldest first.
  std::string Image(const Filter& filter) const;
  // The memory as it is, which is an image, too: one copy, where time matters.
  std::string Copy() const { return {reinterpret_cast<const char*>(memory_.data()), memory_.size()}; }

 private:
  static constexpr std::size_t kOpenMax = 1024;  // chunks that are summed up at a time

  Record& Place(std::uint64_t number) { return records_[number % records_.size()]; }
  const Record& Place(std::uint64_t number) const { return records_[number % records_.size()]; }
  std::uint64_t OldestNumber() const;
  // The place of its name; kNames: none.
  std::size_t FindName(PeerId peer) const;

  std::span<const std::byte> memory_;
  Header& header_;
  std::span<Name> names_;
  std::span<Record> records_;
  std::uint64_t newest_ = 0;
  struct NameUse {
    bool is_self = false;
    std::uint64_t named = 0;  // the newest has the largest
    friend auto operator<=>(const NameUse&, const NameUse&) = default;
  };
  std::array<NameUse, kNames> uses_{};  // of names_
  std::uint64_t names_added_ = 0;
  struct Open {
    std::uint64_t hash = 0;  // so that another one's record, which is no longer in the cache, is not looked at
    std::uint64_t number = 0;
  };
  std::array<Open, kOpenMax> open_{};  // by the hash of what is summed up
};

}  // namespace ringway::flight
