#include "master/shell/journal.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

namespace ringway {
namespace {

constexpr int kApplicationId = 0x52574a31;  // SQLite's application id: "RWJ1"
constexpr int kVersion = 1;

// Owns a prepared statement.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) { ok_ = sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr) == SQLITE_OK; }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  bool ok() const { return ok_; }
  void Bind(int index, const std::string& bytes) {
    ok_ = ok_ && sqlite3_bind_blob64(statement_, index, bytes.data(), bytes.size(), SQLITE_TRANSIENT) == SQLITE_OK;
  }
  void Bind(int index, std::int64_t number) { ok_ = ok_ && sqlite3_bind_int64(statement_, index, number) == SQLITE_OK; }
  // SQLITE_ROW, SQLITE_DONE, or an error.
  int Step() { return ok_ ? sqlite3_step(statement_) : SQLITE_ERROR; }
  std::int64_t Number(int column) { return sqlite3_column_int64(statement_, column); }
  std::string Bytes(int column) {
    const void* bytes = sqlite3_column_blob(statement_, column);
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return size == 0 ? std::string() : std::string(static_cast<const char*>(bytes), size);
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  bool ok_ = false;
};

// Creates the file with mode 0600; SQLite would make it readable for all.
Status CreatePrivate(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) {
    return {Code::kIo, "cannot open the journal " + path + ": " + std::generic_category().message(errno) +
                           "; give a --journal in a directory that this user may write"};
  }
  ::close(fd);
  return Status::Ok();
}

}  // namespace

Journal::~Journal() { sqlite3_close(db_); }

Result<std::unique_ptr<Journal>> Journal::Open(const std::string& path) {
  if (Status status = CreatePrivate(path); !status.ok()) return status;
  std::unique_ptr<Journal> journal(new Journal(path));
  if (sqlite3_open_v2(path.c_str(), &journal->db_, SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK) {
    return journal->Failure("open");
  }
  if (Status status = journal->Prepare(); !status.ok()) return status;
  if (Status status = journal->Load(); !status.ok()) return status;
  if (Status status = journal->BeginTerm(); !status.ok()) return status;
  return journal;
}

Status Journal::Failure(const std::string& doing) const {
  const int code = sqlite3_errcode(db_);
  if (code == SQLITE_BUSY) {
    return {Code::kIo, "the journal " + path_ + " is in use by another ringway-master: stop that one or give another " +
                           "--journal"};
  }
  if (code == SQLITE_NOTADB) return {Code::kIo, path_ + " is not a journal: move it away or give another --journal"};
  return {Code::kIo, "cannot " + doing + " the journal " + path_ + ": " + sqlite3_errmsg(db_)};
}

Status Journal::Exec(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return Failure("write");
  return Status::Ok();
}

// Takes the exclusive lock and keeps it; with it WAL needs no shared memory.
Status Journal::Prepare() {
  for (const char* sql : {"PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL",
                          "BEGIN IMMEDIATE"}) {
    if (Status status = Exec(sql); !status.ok()) return status;
  }
  std::int64_t application = 0;
  std::int64_t version = 0;
  {
    Statement read_application(db_, "PRAGMA application_id");
    if (read_application.Step() == SQLITE_ROW) application = read_application.Number(0);
    Statement read_version(db_, "PRAGMA user_version");
    if (read_version.Step() == SQLITE_ROW) version = read_version.Number(0);
  }
  if (application == 0 && version == 0) {
    const std::string header = "PRAGMA application_id = " + std::to_string(kApplicationId) +
                               "; PRAGMA user_version = " + std::to_string(kVersion);
    if (Status status = Exec(header.c_str()); !status.ok()) return status;
    if (Status status = Exec("CREATE TABLE term (term INTEGER NOT NULL);"
                             "INSERT INTO term VALUES (0);"
                             "CREATE TABLE groups (name BLOB PRIMARY KEY, record BLOB NOT NULL) WITHOUT ROWID");
        !status.ok()) {
      return status;
    }
  } else if (application != kApplicationId || version != kVersion) {
    return {Code::kIo, path_ + " is no journal of this release (version " + std::to_string(version) + ", wanted " +
                           std::to_string(kVersion) + "): give another --journal"};
  }
  return Exec("COMMIT");
}

Status Journal::Load() {
  Statement term(db_, "SELECT term FROM term");
  if (term.Step() != SQLITE_ROW) return Failure("read the term of");
  const std::int64_t last = term.Number(0);
  if (last < 0 || last >= std::numeric_limits<std::uint32_t>::max()) {
    return {Code::kIo, "the journal " + path_ + " holds an impossible term: restore it from a backup"};
  }
  term_ = static_cast<std::uint32_t>(last);
  Statement rows(db_, "SELECT record FROM groups ORDER BY name");
  int step = rows.Step();
  for (; step == SQLITE_ROW; step = rows.Step()) {
    if (!groups_.emplace_back().ParseFromString(rows.Bytes(0))) {
      return {Code::kIo, "the journal " + path_ + " holds a group that cannot be read: restore it from a backup"};
    }
  }
  return step == SQLITE_DONE ? Status::Ok() : Failure("read");
}

Status Journal::BeginTerm() {
  Statement update(db_, "UPDATE term SET term = ?");
  update.Bind(1, static_cast<std::int64_t>(term_) + 1);
  if (update.Step() != SQLITE_DONE) return Failure("write");
  ++term_;
  return Status::Ok();
}

Status Journal::Put(const record::Group& group) {
  const bool remove = group.members().empty();
  Statement change(db_, remove ? "DELETE FROM groups WHERE name = ?" : "REPLACE INTO groups VALUES (?, ?)");
  change.Bind(1, group.name());
  if (!remove) change.Bind(2, group.SerializeAsString());
  return change.Step() == SQLITE_DONE ? Status::Ok() : Failure("write");
}

Status Journal::Write(const std::vector<record::Group>& groups) {
  Status status = Exec("BEGIN IMMEDIATE");
  for (const record::Group& group : groups) {
    if (status.ok()) status = Put(group);
  }
  if (status.ok()) status = Exec("COMMIT");
  // SQLite may have rolled back already.
  if (!status.ok() && sqlite3_get_autocommit(db_) == 0) (void)Exec("ROLLBACK");
  return status;
}

}  // namespace ringway
