// The image of a daemon's flight recorder: what its file holds while it runs and after it has died, what it dumps, and
// what `ringwayctl trace` gets of it. Little-endian; parts follow each other without gaps.
//
//   part      how many             what
//   Header    1                    who wrote it, and how many of the others there are
//   Name      Header::names_max    the peers that records speak of; a place with peer 0 is free
//   Record    Header::records_max  while it runs, number n at n mod records_max; in a dump, the oldest first. A place
//                                  with number 0 is free, or was being written when the process died
//
// A record is an event of one operation (or message) at one of the daemon's peers, but two kinds that sum up: kIn and
// kOut have one record for all segments of a chunk, in one step, from or to one peer; kWork has one for all slices of
// sums and copies that followed each other. Such a record is updated in place. If another one has taken its place in
// the writer's index, or it was overwritten, a further record of the same chunk follows, so what is summed up has to be
// added up over records. So a larger buffer takes no more records, unless more chunks are in flight than the index has
// places for: in a wide group, or with many operations at once. What a record cannot say is in which order the segments
// of a chunk came.
//
// One writer: it sets `number` to 0, fills in the rest, then stores the number (release). All times are microseconds of
// the host's monotonic clock.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringway::flight {

inline constexpr std::uint64_t kMagic = 0x31'54'48'47'49'4C'46'52;  // "RFLIGHT1" in memory
inline constexpr std::uint32_t kVersion = 1;

// What a reader takes at most.
inline constexpr std::uint32_t kNamesMax = 4096;
inline constexpr std::uint32_t kRecordsMax = 1 << 20;

struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t record_bytes;  // sizeof(Record)
  std::uint32_t names_max;
  std::uint32_t records_max;
  std::uint64_t instance;   // random number of the daemon's process
  std::int64_t started_us;  // when it began to write
  std::uint64_t left_out;   // records that would have passed the filter of a trace, and had no room
  std::uint32_t pid;
  std::uint32_t reserved;
  char utc[24];     // the moment of started_us, by the host's wall clock; NUL-terminated, as all texts
  char daemon[64];  // its name
  char site[64];
};

struct Name {
  std::uint64_t peer;
  char group[128];
  char name[64];
};

enum class Kind : std::uint8_t {
  kSubmitted = 1,  // by the trainer here; bytes of its input; detail: OpKind
  kReadyOut,       // READY to `other`
  kReadyIn,        // READY from `other`: its trainer has submitted it, too
  kInputs,         // whose inputs are in is agreed
  kOut,            // a chunk to `other`, summed up
  kIn,             // a chunk from `other`, summed up
  kWork,           // sums and copies that no segment brought along, of any operation of the peer
  kDoneOut,        // DONE to `other`: the whole verified result is here
  kDoneIn,         // DONE from `other`
  kWaits,          // it has waited for long, for `other` (0: for data or a view); took_us: so far
  kReported,       // to the trainer; took_us: since it was submitted; detail: Code
  kView,           // the view is in force here; segments: its world size
  kAbort,          // the view is aborted, as `other` is lost; 0: another member said so. A record for each
  kStuck,          // operation_stuck
};
inline constexpr std::uint8_t kKindMax = 14;

// Flags. A kIn says how its segments were taken, in one or more ways.
inline constexpr std::uint8_t kSummed = 1;  // into the output
inline constexpr std::uint8_t kCopied = 2;  // into the output
inline constexpr std::uint8_t kHeld = 4;    // in reserved memory: too early, before the submission here
// Any kind.
inline constexpr std::uint8_t kMessage = 8;  // a send or a recv, not an operation: `other` is its other end
inline constexpr std::uint8_t kSends = 16;   // of a message: it is sent from here

struct Record {
  std::uint64_t number;    // from 1 on
  std::int64_t at_us;      // kIn, kOut: of the first segment's header
  std::uint64_t self;      // peer id here
  std::uint64_t other;     // peer id; 0: none
  std::uint64_t epoch;     // 0: not known
  std::uint64_t seq;       // of the operation, in its channel; of a message, in its stream; 0 in its kWaits
  std::uint64_t bytes;     // kIn, kOut: payload
  std::uint32_t took_us;   // kIn, kOut, kWork: until the last segment or slice was done with
  std::uint32_t work_us;   // kIn: of that, sums and copies of segments over 64 KiB, and what they made go on
  std::uint32_t gap_us;    // kIn, kOut: the longest time between two segments
  std::uint32_t segments;  // kIn, kOut, kWork: or slices
  std::uint32_t channel;
  std::uint32_t tag;    // of a message
  std::uint16_t step;   // kIn, kOut: of the schedule
  std::uint16_t chunk;  // likewise
  std::uint16_t detail;
  Kind kind;
  std::uint8_t flags;
};

static_assert(sizeof(Header) == 208 && sizeof(Name) == 200 && sizeof(Record) == 88);

constexpr std::uint64_t ImageBytes(std::uint32_t names, std::uint32_t records) {
  return sizeof(Header) + std::uint64_t{names} * sizeof(Name) + std::uint64_t{records} * sizeof(Record);
}

}  // namespace ringway::flight
