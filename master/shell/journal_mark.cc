#include "master/shell/journal_mark.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <system_error>

#include "proto/hash.h"

namespace ringway {
namespace {

constexpr std::uint64_t kMagic = 0x3130'4452'4e4c'4a52;  // "RJLNRD01"
constexpr off_t kSlotBytes = 4096;                       // apart, so that one torn write cannot hit both

struct Slot {
  std::uint64_t magic = kMagic;
  std::uint64_t id = 0;
  std::uint64_t changes = 0;
  std::uint64_t hash = 0;
  std::uint64_t Hash() const { return Hash64(std::as_bytes(std::span(this, 1)).first(offsetof(Slot, hash))); }
};

class File {
 public:
  File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

Status Failure(const std::string& doing, const std::string& path) {
  return {Code::kIo,
          "cannot " + doing + " " + path + ", the journal's mark: " + std::generic_category().message(errno)};
}

Status SyncDirectoryOf(const std::string& path) {
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  const File file(directory.empty() ? "." : directory.string(), O_RDONLY | O_DIRECTORY);
  if (file.fd() < 0 || ::fsync(file.fd()) != 0) return Failure("create", path);
  return Status::Ok();
}

}  // namespace

std::string MarkPath(const std::string& journal) { return journal + ".id"; }

Result<std::optional<JournalMark>> ReadMark(const std::string& journal) {
  const std::string path = MarkPath(journal);
  const File file(path, O_RDONLY);
  if (file.fd() < 0) {
    if (errno == ENOENT) return std::optional<JournalMark>();
    return Failure("open", path);
  }
  std::optional<JournalMark> newest;
  for (const off_t offset : {off_t{0}, kSlotBytes}) {
    Slot slot;
    const ssize_t bytes = ::pread(file.fd(), &slot, sizeof(slot), offset);
    if (bytes < 0) return Failure("read", path);
    if (bytes != sizeof(slot) || slot.magic != kMagic || slot.hash != slot.Hash()) continue;
    if (!newest || newest->changes < slot.changes) newest = {slot.id, slot.changes};
  }
  if (newest) return newest;
  return Status(Code::kIo,
                path + ", the journal's mark, is damaged, so nothing tells whether " + journal +
                    " is complete: restore both from a backup, or remove the mark if the journal is known to "
                    "be the latest");
}

Status WriteMark(const std::string& journal, const JournalMark& mark) {
  const std::string path = MarkPath(journal);
  struct stat before {};
  const bool is_new = ::stat(path.c_str(), &before) != 0;
  const File file(path, O_WRONLY | O_CREAT);
  if (file.fd() < 0) return Failure("open", path);
  Slot slot{.id = mark.id, .changes = mark.changes};
  slot.hash = slot.Hash();
  const off_t offset = mark.changes % 2 == 0 ? 0 : kSlotBytes;
  if (::pwrite(file.fd(), &slot, sizeof(slot), offset) != sizeof(slot) || ::fdatasync(file.fd()) != 0)
    return Failure("write", path);
  return is_new ? SyncDirectoryOf(path) : Status::Ok();
}

}  // namespace ringway
