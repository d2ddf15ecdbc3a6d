// The master's write-ahead journal: its term and the views of every group, in one SQLite file.
//
// Write returns when the change is on disk (WAL, fsynced); only then may any peer hear of it. The file belongs to one
// process: a second master on it is refused, and a dead one leaves no lock behind.
//
// Threads: one. Write blocks on the disk. Errors: kIo with SQLite's reason; a failed Write has written nothing, and may
// be retried (a full disk).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "master/coordination/group_record.pb.h"
#include "proto/result.h"

struct sqlite3;

namespace ringway {

class Journal {
 public:
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Creates the file, mode 0600, if there is none, and starts a new term, higher than all before; it is on disk when
  // this returns. kIo if the file is in use, cannot be written, or is not a journal of this version.
  static Result<std::unique_ptr<Journal>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  std::uint32_t term() const { return term_; }
  // The groups as they were when the file was opened.
  const std::vector<record::Group>& groups() const { return groups_; }
  // Atomic. A group without members is deleted.
  Status Write(const std::vector<record::Group>& groups);

 private:
  explicit Journal(std::string path) : path_(std::move(path)) {}
  Status Prepare();
  Status Load();
  Status BeginTerm();
  Status Put(const record::Group& group);
  Status Exec(const char* sql);
  Status Failure(const std::string& doing) const;

  const std::string path_;
  sqlite3* db_ = nullptr;
  std::uint32_t term_ = 0;
  std::vector<record::Group> groups_;
};

}  // namespace ringway
