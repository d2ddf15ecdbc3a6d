#include "master/shell/journal_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "master/shell/journal_mark.h"

namespace ringway {
namespace {

std::string LogPath(const std::string& journal) { return journal + "-wal"; }

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
  known_.clear();
  for (const std::string& path : {journal_, LogPath(journal_), MarkPath(journal_)}) {
    struct stat found {};
    if (::stat(path.c_str(), &found) == 0) known_.push_back({path, found.st_dev, found.st_ino, found.st_size});
  }
}

Status JournalFiles::Check() const {
  for (const Known& known : known_) {
    struct stat found {};
    const bool exists = ::stat(known.path.c_str(), &found) == 0;
    if (exists && found.st_dev == known.device && found.st_ino == known.inode && found.st_size >= known.bytes) continue;
    const char* what = !exists                       ? " was deleted or moved away"
                       : found.st_ino != known.inode ? " was replaced by another file"
                                                     : " was truncated";
    return {Code::kIo, known.path + what +
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
  const std::string old = journal + ".old";
  const auto files = {std::pair(journal, old), std::pair(LogPath(journal), LogPath(old)),
                      std::pair(MarkPath(journal), MarkPath(old))};
  const auto exists = [](const auto& file) { return ::access(file.first.c_str(), F_OK) == 0; };
  if (std::none_of(files.begin(), files.end(), exists)) return Status::Ok();
  for (const auto& [from, to] : files) (void)std::remove(to.c_str());  // a log of another journal would be replayed
  for (const auto& [from, to] : files) {
    if (std::rename(from.c_str(), to.c_str()) == 0 || errno == ENOENT) continue;
    return {Code::kIo, "cannot rename " + from + " to " + to + ": " + std::generic_category().message(errno)};
  }
  return Status::Ok();
}

bool HoldsBytes(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && found.st_size > 0;
}

}  // namespace ringway
