// The files of a journal as others on the host may change them: JOURNAL itself, its write-ahead log JOURNAL-wal, and
// its mark JOURNAL.id.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <map>
#include <string>
#include <utility>

#include "proto/result.h"

namespace ringway {

// Notices that files which this process has open were deleted, replaced or truncated: SQLite would go on writing to
// what no other process can find.
class JournalFiles {
 public:
  explicit JournalFiles(std::string journal) : journal_(std::move(journal)) {}

  // Takes the files that it finds for the first time for the right ones, and learns how much those have grown. To be
  // called after each write. SQLite creates none of them anew, nor removes or shortens one: it holds the lock until the
  // journal is closed, and keeps its log's size.
  void Remember();
  // One that has lost its beginning, whatever its size is now: it was truncated in the middle of a write, which went
  // on.
  void Condemn(const std::string& path) { known_[path].is_cut = true; }
  // kIo if one of them is another file now, shorter than it has been, or condemned.
  Status Check() const;

 private:
  struct Known {
    dev_t device = 0;
    ino_t inode = 0;
    off_t bytes = 0;
    bool is_cut = false;
    bool Is(const struct stat& file) const { return file.st_dev == device && file.st_ino == inode; }
  };
  const std::string journal_;
  std::map<std::string, Known> known_;  // by path
};

inline constexpr int kOldJournalsMax = 100;

// Renames the journal's files to JOURNAL.old, JOURNAL.old-wal and JOURNAL.old.id, or JOURNAL.old.1 and so on: the first
// of kOldJournalsMax names that has no file yet, as what is there may be the only copy of the groups. kIo if another
// process uses the journal, no name is free, or a file cannot be renamed.
Status SetAside(const std::string& journal);

// Returns whether the file exists and is not empty.
bool HoldsBytes(const std::string& path);

}  // namespace ringway
