#include "master/shell/journal_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "master/shell/journal_mark.h"

namespace ringway {
namespace {

std::string LogPath(const std::string& journal) { return journal + "-wal"; }

std::array<std::string, 3> FilesOf(const std::string& journal) {
  return {journal, LogPath(journal), MarkPath(journal)};
}

bool AnyExists(const std::string& journal) {
  const auto files = FilesOf(journal);
  struct stat found {};
  return std::any_of(files.begin(), files.end(), [&](const auto& file) { return ::lstat(file.c_str(), &found) == 0; });
}

std::string OldName(const std::string& journal, int number) {
  return journal + ".old" + (number == 0 ? "" : "." + std::to_string(number));
}

// SQLite locks bytes from 1 GiB on.
bool IsInUse(const std::string& journal) {
  const int fd = ::open(journal.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool in_use = ::fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  ::close(fd);
  return in_use;
}

}  // namespace

void JournalFiles::Remember() {
  for (const std::string& path : FilesOf(journal_)) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) continue;
    Known& known = known_.try_emplace(path, Known{.device = found.st_dev, .inode = found.st_ino}).first->second;
    if (known.Is(found)) known.bytes = std::max(known.bytes, found.st_size);
  }
}

Status JournalFiles::Check() const {
  for (const auto& [path, known] : known_) {
    struct stat found {};
    const bool exists = ::stat(path.c_str(), &found) == 0;
    if (exists && known.Is(found) && found.st_size >= known.bytes && !known.is_cut) continue;
    const char* what = !exists            ? " was deleted or moved away"
                       : !known.Is(found) ? " was replaced by another file"
                                          : " was truncated";
    return {Code::kIo, path + what +
                           " while this master uses it, and no group changes without its journal: put the "
                           "file back, or restart the master with --new-journal and then the daemons"};
  }
  return Status::Ok();
}

Status SetAside(const std::string& journal) {
  if (IsInUse(journal)) {
    return {Code::kIo, "the journal " + journal +
                           " is in use by another ringway-master: stop that one or give another " + "--journal"};
  }
  if (!AnyExists(journal)) return Status::Ok();
  int number = 0;
  while (number < kOldJournalsMax && AnyExists(OldName(journal, number))) ++number;
  if (number == kOldJournalsMax) {
    return {Code::kIo, "cannot set the journal " + journal + " aside: all names from " + OldName(journal, 0) + " to " +
                           OldName(journal, number - 1) +
                           " are taken; move those away, and give --new-journal for one start only"};
  }
  const auto from = FilesOf(journal);
  const auto to = FilesOf(OldName(journal, number));
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (std::rename(from[i].c_str(), to[i].c_str()) == 0 || errno == ENOENT) continue;
    return {Code::kIo, "cannot rename " + from[i] + " to " + to[i] + ": " + std::generic_category().message(errno)};
  }
  return Status::Ok();
}

bool HoldsBytes(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && found.st_size > 0;
}

}  // namespace ringway
