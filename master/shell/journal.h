// The store of a single master: a write-ahead journal in one SQLite file.
//
// Write returns when the change is on disk (WAL, fsynced). The file belongs to one process, which leads as long as it
// lives: a second master on it is refused, and a dead one leaves no lock behind.
//
//   JOURNAL      the database; every record has a hash, so that a flipped bit is an error, not another group
//   JOURNAL-wal  SQLite's write-ahead log, while a master runs or after it was killed: part of the journal
//   JOURNAL.id   the mark (journal_mark.h): which journal it is, and how many changes it holds
//
//   at the start                                                           the journal is
//   neither a file nor a mark                                              new
//   a mark, and the file is missing, empty, another one, or lacks changes  refused
//   a hash or SQLite finds it damaged                                      refused
//   JournalOptions::start_new                                              new; what there was is set aside
//
// Threads: one. Write blocks on the disk. Errors: kIo with the reason and what to do; a failed Write has written
// nothing, and may be retried (a full disk). Files that were deleted, replaced or truncated under this process fail
// Write and Check. A mark that cannot be written fails Check only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "master/leadership/store.h"
#include "master/shell/journal_files.h"
#include "master/shell/journal_mark.h"
#include "proto/result.h"

struct sqlite3;

namespace ringway {

struct JournalOptions {
  bool start_new = false;
  // Tests inject faults with others.
  const char* vfs = nullptr;  // SQLite's file system; null: the default
  Status (*write_mark)(const std::string& journal, const JournalMark& mark) = WriteMark;
};

class Journal final : public Store {
 public:
  ~Journal() override;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Creates the file, mode 0600, if there is none, and starts a new term, higher than all before; it is on disk when
  // this returns. kIo if the file is in use, cannot be written, is damaged, or is not a journal of this version.
  static Result<std::unique_ptr<Journal>> Open(const std::string& path, const JournalOptions& options = {});

  bool is_new() const { return is_new_; }
  std::uint32_t term() const { return state_.term; }
  std::size_t groups() const { return state_.groups; }
  // Leads at once, with the groups as they were when the file was opened.
  void Start(StoreSink* sink) override;
  // Atomic. Returns the outcome.
  std::optional<Status> Write(const std::vector<record::Group>& groups) override;
  // Returns Ok if the files are still there and the mark is written; retries to write a mark that failed.
  Status Check() override;
  std::string Place() const override;

 private:
  // The row that vouches for the others.
  struct State {
    std::uint64_t id = 0;
    std::uint32_t term = 0;
    std::uint64_t changes = 0;
    std::uint64_t groups = 0;
    std::uint64_t Hash() const;
  };

  Journal(std::string path, const JournalOptions& options)
      : path_(std::move(path)), write_mark_(options.write_mark), files_(path_) {}
  Status Prepare(bool may_be_new);
  Status Create();
  Status Convert();
  Status SetVersion();
  Status BeginState(std::uint32_t term);
  Status Load(const std::optional<JournalMark>& mark);
  Status LoadState();
  Status LoadGroups();
  // Commits one transaction, which is counted; then writes the mark.
  Status Commit(State next, const std::vector<record::Group>& groups);
  Status Put(const record::Group& group);
  Status PutState(const State& state);
  // Returns Ok if the files still begin as SQLite's do.
  Status CheckBeginnings();
  void PutMark();
  Status CountGroups(State* state);
  std::int64_t Number(const char* sql);  // of a query's first row; -1: none
  Status Exec(const char* sql);
  Status Failure(const std::string& doing) const;
  Status Damaged() const;

  const std::string path_;
  decltype(JournalOptions::write_mark) const write_mark_;
  sqlite3* db_ = nullptr;
  bool is_new_ = false;
  State state_;
  std::vector<record::Group> groups_;
  JournalFiles files_;
  Status mark_;  // of its last write
};

}  // namespace ringway
