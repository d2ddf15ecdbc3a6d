#include "master/shell/journal.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>
#include <span>
#include <system_error>
#include <utility>

#include "master/shell/journal_mark.h"
#include "proto/hash.h"

namespace ringway {
namespace {

constexpr int kApplicationId = 0x52574a31;  // SQLite's application id: "RWJ1"
constexpr int kVersion = 2;                 // 1: without hashes and the mark; converted when it is opened

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

std::string Remedy(const std::string& path) {
  return "restore " + path + ", " + path + "-wal and " + MarkPath(path) +
         " together from a backup of the last state, or give --new-journal to begin without the groups and then "
         "restart "
         "the daemons";
}

// Before the file is opened. A journal that is known to have been there is not new because it is missing.
Status CheckPresence(const std::string& path, bool has_mark) {
  if (HoldsBytes(path)) return Status::Ok();
  const bool has_log = HoldsBytes(path + "-wal");
  if (!has_mark && !has_log) return Status::Ok();
  return {Code::kIo, "the journal " + path + " is missing or empty, but " +
                         (has_mark ? MarkPath(path) : path + "-wal") + " shows that there was one: " + Remedy(path)};
}

std::uint64_t HashOf(const std::string& bytes) { return Hash64(std::as_bytes(std::span(bytes))); }

}  // namespace

std::uint64_t Journal::State::Hash() const {
  const std::uint64_t fields[] = {id, term, changes, groups};
  return Hash64(std::as_bytes(std::span(fields)));
}

Journal::~Journal() { sqlite3_close(db_); }

Result<std::unique_ptr<Journal>> Journal::Open(const std::string& path, const JournalOptions& options) {
  if (options.start_new) {
    if (Status status = SetAside(path); !status.ok()) return status;
  }
  const Result<std::optional<JournalMark>> mark = ReadMark(path);
  if (!mark.ok()) return mark.status();
  if (Status status = CheckPresence(path, mark.value().has_value()); !status.ok()) return status;
  if (Status status = CreatePrivate(path); !status.ok()) return status;
  std::unique_ptr<Journal> journal(new Journal(path, options));
  if (sqlite3_open_v2(path.c_str(), &journal->db_, SQLITE_OPEN_READWRITE, options.vfs) != SQLITE_OK) {
    return journal->Failure("open");
  }
  if (Status status = journal->Prepare(!mark.value()); !status.ok()) return status;
  if (Status status = journal->Load(mark.value()); !status.ok()) return status;
  State next = journal->state_;
  ++next.term;
  if (Status status = journal->Commit(next, {}); !status.ok()) return status;
  if (!journal->mark_.ok()) return journal->mark_;
  return journal;
}

Status Journal::Failure(const std::string& doing) const {
  const int code = sqlite3_errcode(db_);
  if (code == SQLITE_BUSY) {
    return {Code::kIo, "the journal " + path_ + " is in use by another ringway-master: stop that one or give another " +
                           "--journal"};
  }
  if (code == SQLITE_NOTADB) return {Code::kIo, path_ + " is not a journal: move it away or give another --journal"};
  if (code == SQLITE_CORRUPT) return {Code::kIo, "the journal " + path_ + " is damaged: " + Remedy(path_)};
  return {Code::kIo, "cannot " + doing + " the journal " + path_ + ": " + sqlite3_errmsg(db_)};
}

Status Journal::Exec(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return Failure("write");
  return Status::Ok();
}

std::int64_t Journal::Number(const char* sql) {
  Statement statement(db_, sql);
  return statement.Step() == SQLITE_ROW ? statement.Number(0) : -1;
}

// Takes the exclusive lock and keeps it; with it WAL needs no shared memory.
Status Journal::Prepare(bool may_be_new) {
  for (const char* sql : {"PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL",
                          "BEGIN IMMEDIATE"}) {
    if (Status status = Exec(sql); !status.ok()) return status;
  }
  const std::int64_t application = Number("PRAGMA application_id");
  const std::int64_t version = Number("PRAGMA user_version");
  const std::int64_t tables = Number("SELECT count(*) FROM sqlite_master");
  if (tables < 0) return Failure("read");
  Status status;
  if (application == 0 && version == 0 && tables == 0) {
    is_new_ = true;
    status = may_be_new ? Create()
                        : Status(Code::kIo, "the journal " + path_ + " holds nothing, but " + MarkPath(path_) +
                                                " shows that it did: " + Remedy(path_));
  } else if (application != kApplicationId || version < 1 || version > kVersion) {
    status = {Code::kIo, path_ + " is not a journal of this release (version " + std::to_string(version) + ", wanted " +
                             std::to_string(kVersion) + "): give another --journal"};
  } else if (version == 1) {
    status = Convert();
  }
  return status.ok() ? Exec("COMMIT") : status;
}

Status Journal::SetVersion() {
  return Exec(("PRAGMA application_id = " + std::to_string(kApplicationId) +
               "; PRAGMA user_version = " + std::to_string(kVersion))
                  .c_str());
}

// Random, so that no other journal has it.
Status Journal::BeginState(std::uint32_t term) {
  std::random_device device;
  state_ = {.id = std::uint64_t{device()} << 32 | device(), .term = term};
  return Exec(
      "CREATE TABLE state (id INTEGER NOT NULL, term INTEGER NOT NULL, changes INTEGER NOT NULL, "
      "groups INTEGER NOT NULL, hash INTEGER NOT NULL);"
      "INSERT INTO state VALUES (0, 0, 0, 0, 0)");
}

Status Journal::Create() {
  Status status = SetVersion();
  if (status.ok()) {
    status = Exec(
        "CREATE TABLE groups (name BLOB PRIMARY KEY, record BLOB NOT NULL, hash INTEGER NOT NULL DEFAULT 0) "
        "WITHOUT ROWID");
  }
  if (status.ok()) status = BeginState(0);
  return status.ok() ? PutState(state_) : status;
}

// Converts a journal of version 1.
Status Journal::Convert() {
  const std::int64_t term = Number("SELECT term FROM term");
  if (term < 0 || term >= std::numeric_limits<std::uint32_t>::max()) {
    return {Code::kIo, "the journal " + path_ + " holds an impossible term: " + Remedy(path_)};
  }
  std::vector<record::Group> groups;
  {
    Statement rows(db_, "SELECT record FROM groups ORDER BY name");
    int step = rows.Step();
    for (; step == SQLITE_ROW; step = rows.Step()) {
      if (!groups.emplace_back().ParseFromString(rows.Bytes(0))) return Damaged();
    }
    if (step != SQLITE_DONE) return Failure("read");
  }
  Status status = SetVersion();
  if (status.ok())
    status = Exec(
        "ALTER TABLE groups ADD COLUMN hash INTEGER NOT NULL DEFAULT 0; DELETE FROM groups; "
        "DROP TABLE term");
  if (status.ok()) status = BeginState(static_cast<std::uint32_t>(term));
  for (const record::Group& group : groups) {
    if (status.ok()) status = Put(group);
  }
  if (status.ok()) status = CountGroups(&state_);
  return status.ok() ? PutState(state_) : status;
}

Status Journal::Damaged() const { return {Code::kIo, "the journal " + path_ + " is damaged: " + Remedy(path_)}; }

Status Journal::Load(const std::optional<JournalMark>& mark) {
  {
    Statement check(db_, "PRAGMA quick_check(1)");
    if (check.Step() != SQLITE_ROW) return Failure("read");
    if (check.Bytes(0) != "ok") return Damaged();
  }
  if (Status status = LoadState(); !status.ok()) return status;
  if (mark && mark->id != state_.id) {
    return {Code::kIo,
            "the journal " + path_ + " is not the one that " + MarkPath(path_) + " belongs to: " + Remedy(path_)};
  }
  if (mark && state_.changes < mark->changes) {
    return {Code::kIo, "the journal " + path_ + " lacks the last " + std::to_string(mark->changes - state_.changes) +
                           " changes, as if " + path_ +
                           "-wal had been lost or an older copy restored: " + Remedy(path_)};
  }
  return LoadGroups();
}

Status Journal::LoadState() {
  Statement row(db_, "SELECT id, term, changes, groups, hash FROM state");
  const int step = row.Step();
  if (step != SQLITE_ROW) return step == SQLITE_DONE ? Damaged() : Failure("read");
  const auto number = [&](int column) { return static_cast<std::uint64_t>(row.Number(column)); };
  state_ = {.id = number(0), .term = static_cast<std::uint32_t>(number(1)), .changes = number(2), .groups = number(3)};
  const bool is_right = state_.Hash() == number(4) && number(1) < std::numeric_limits<std::uint32_t>::max();
  return is_right && row.Step() == SQLITE_DONE ? Status::Ok() : Damaged();
}

Status Journal::LoadGroups() {
  Statement rows(db_, "SELECT name, record, hash FROM groups ORDER BY name");
  int step = rows.Step();
  for (; step == SQLITE_ROW; step = rows.Step()) {
    const std::string bytes = rows.Bytes(1);
    const bool is_right = HashOf(bytes) == static_cast<std::uint64_t>(rows.Number(2));
    record::Group& group = groups_.emplace_back();
    if (!is_right || !group.ParseFromString(bytes) || group.name() != rows.Bytes(0)) return Damaged();
  }
  if (step != SQLITE_DONE) return Failure("read");
  return groups_.size() == state_.groups ? Status::Ok() : Damaged();
}

Status Journal::PutState(const State& state) {
  Statement update(db_, "UPDATE state SET id = ?, term = ?, changes = ?, groups = ?, hash = ?");
  int column = 0;
  for (const std::uint64_t field : {state.id, std::uint64_t{state.term}, state.changes, state.groups, state.Hash()}) {
    update.Bind(++column, static_cast<std::int64_t>(field));
  }
  return update.Step() == SQLITE_DONE ? Status::Ok() : Failure("write");
}

Status Journal::Put(const record::Group& group) {
  const bool remove = group.members().empty();
  Statement change(db_, remove ? "DELETE FROM groups WHERE name = ?" : "REPLACE INTO groups VALUES (?, ?, ?)");
  change.Bind(1, group.name());
  if (!remove) {
    const std::string bytes = group.SerializeAsString();
    change.Bind(2, bytes);
    change.Bind(3, static_cast<std::int64_t>(HashOf(bytes)));
  }
  return change.Step() == SQLITE_DONE ? Status::Ok() : Failure("write");
}

Status Journal::CountGroups(State* state) {
  const std::int64_t groups = Number("SELECT count(*) FROM groups");
  if (groups < 0) return Failure("read");
  state->groups = static_cast<std::uint64_t>(groups);
  return Status::Ok();
}

Status Journal::Commit(State next, const std::vector<record::Group>& groups) {
  ++next.changes;
  Status status = Exec("BEGIN IMMEDIATE");
  for (const record::Group& group : groups) {
    if (status.ok()) status = Put(group);
  }
  if (status.ok()) status = CountGroups(&next);
  if (status.ok()) status = PutState(next);
  if (status.ok()) status = Exec("COMMIT");
  if (!status.ok()) {
    // SQLite may have rolled back already.
    if (sqlite3_get_autocommit(db_) == 0) (void)Exec("ROLLBACK");
    return status;
  }
  if (status = CheckBeginnings(); !status.ok()) return status;
  state_ = next;
  PutMark();
  files_.Remember();
  return Status::Ok();
}

// A file that somebody empties in the middle of a write has its old size again once SQLite writes on, but zeros in
// front. Read through SQLite's own descriptors: closing another one of a file would end this process's locks on it.
Status Journal::CheckBeginnings() {
  constexpr int kBytes = 4;  // of both files' magic numbers
  bool is_whole = true;
  for (const auto& [which, path] :
       {std::pair(SQLITE_FCNTL_FILE_POINTER, path_), std::pair(SQLITE_FCNTL_JOURNAL_POINTER, path_ + "-wal")}) {
    sqlite3_file* file = nullptr;
    if (sqlite3_file_control(db_, "main", which, static_cast<void*>(&file)) != SQLITE_OK) continue;
    if (file == nullptr || file->pMethods == nullptr) continue;
    std::array<char, kBytes> magic{};
    if (const int code = file->pMethods->xRead(file, magic.data(), kBytes, 0);
        code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ) {
      return Failure("read");
    }
    if (magic != std::array<char, kBytes>{}) continue;
    is_whole = false;
    files_.Condemn(path);
  }
  return is_whole ? Status::Ok() : files_.Check();
}

void Journal::Start(StoreSink* sink) { sink->OnLead({.term = state_.term, .groups = std::exchange(groups_, {})}); }

std::string Journal::Place() const {
  std::error_code ignored;
  return std::filesystem::absolute(path_, ignored).string();
}

std::optional<Status> Journal::Write(const std::vector<record::Group>& groups) {
  if (Status status = files_.Check(); !status.ok()) return status;
  Status status = Commit(state_, groups);
  if (status.ok()) return status;
  return Status(status.code(), status.text() + "; no group changes until it can be written");
}

void Journal::PutMark() {
  mark_ = write_mark_(path_, {.id = state_.id, .changes = state_.changes});
  if (mark_.ok()) return;
  mark_ = {mark_.code(), mark_.text() +
                             "; changes of groups are written, but the next start would not notice if the "
                             "last ones were lost"};
}

Status Journal::Check() {
  if (Status status = files_.Check(); !status.ok()) return status;
  if (!mark_.ok()) PutMark();
  return mark_;
}

}  // namespace ringway
