// What a master must not forget: its term and the views of every group, in one SQLite file.
//
// Write returns when the change is on the disk (WAL, fsynced): only then may anybody hear of it. The file belongs to
// one process: a second master on it is refused, and a dead one leaves no lock behind.
//
// Threads: one. A Write blocks for as long as the disk takes. Errors: kIo with SQLite's reason; after a failed Write
// nothing of it is in the file, and the next may succeed (a disk that was full).
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

  // Creates the file, mode 0600, if there is none, and begins a term: one above that of every life before, on the disk
  // when this returns. kIo if the file is in use, cannot be written, or is no journal of this version.
  static Result<std::unique_ptr<Journal>> Open(const std::string& path);

  const std::string& path() const { return path_; }
  std::uint32_t term() const { return term_; }
  // The groups as the last life left them.
  const std::vector<record::Group>& groups() const { return groups_; }
  // All of them or none. A group without members is removed.
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
