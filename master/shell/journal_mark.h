// The mark beside a journal, JOURNAL.id, records which journal it is, and how many changes it holds at least. It
// distinguishes a new journal from one that was deleted, truncated, restored from an older backup or bereft of its
// write-ahead log.
//
// The mark is written after the change that it counts, so it may lag behind the journal by one change, never run ahead.
// Two slots are written in turn, so a torn write loses neither the previous mark nor the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proto/result.h"

namespace ringway {

struct JournalMark {
  std::uint64_t id = 0;
  std::uint64_t changes = 0;
};

std::string MarkPath(const std::string& journal);

// Returns nothing if there is no mark. kIo if it cannot be read or is damaged.
Result<std::optional<JournalMark>> ReadMark(const std::string& journal);

// Durable when it returns. Creates the file, mode 0600.
Status WriteMark(const std::string& journal, const JournalMark& mark);

}  // namespace ringway
