// SQLite's file system with faults: what is written is on the disk only once it was synced, and the disk may be full,
// fail, lie about a sync, or lose its power in the middle of a write.
//
// One at a time, one thread. Creating and deleting files is durable at once. Only for databases in exclusive WAL mode,
// which need no shared memory.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ringway {

std::string FileContents(const std::string& path);

class FaultyVfs {
 public:
  static constexpr const char* kName = "ringway-faulty";

  FaultyVfs();
  ~FaultyVfs();
  FaultyVfs(const FaultyVfs&) = delete;
  FaultyVfs& operator=(const FaultyVfs&) = delete;

  enum class Call : std::uint8_t { kWrite, kSync };
  // The call after `later` more of its kind fails, once, with this code of SQLite's.
  void Fail(Call call, std::uint64_t later, int code) {
    failure_ = {.armed = true, .call = call, .left = later, .code = code};
  }
  bool failed() const { return !failure_.armed; }
  void Forgive() { failure_ = {}; }
  // Somebody empties the file of the call after `later` more of its kind, right before it.
  void Empty(Call call, std::uint64_t later) { Fail(call, later, kEmptied); }
  // Syncs succeed and do nothing.
  void Lie() { lies_ = true; }
  // After `writes` more writes nothing reaches the disk, and every call fails.
  void DieAfter(std::uint64_t writes) { lives_ = writes; }
  bool dead() const { return lives_ == 0; }
  // Writes that were not synced.
  std::size_t pending() const { return pending_.size(); }
  // Leaves on the disk what was synced, the first `kept` other writes, and half of the next. REQUIRES: dead().
  void LosePower(std::size_t kept) const;

 private:
  static constexpr int kEmptied = -1;  // no code of SQLite's
  struct Write {
    std::string path;
    std::uint64_t offset = 0;
    std::string bytes;
    bool truncates = false;  // to the offset
  };
  struct Failure {
    bool armed = false;
    Call call = Call::kWrite;
    std::uint64_t left = 0;
    int code = 0;
  };
  struct File;
  friend struct FileCalls;

  int Open(const char* name, sqlite3_file* file, int flags, int* out_flags);
  int Delete(const char* name, int sync);
  // The code of a fault of a call on the file that is due; SQLITE_OK: none.
  int Strike(Call call, const std::string& path);
  static void Apply(const Write& write, std::string* disk);

  sqlite3_vfs* const real_;
  sqlite3_vfs vfs_{};
  std::map<std::string, std::string> synced_;  // by path
  std::vector<Write> pending_;
  Failure failure_;
  bool lies_ = false;
  std::uint64_t lives_ = ~std::uint64_t{0};
};

}  // namespace ringway
