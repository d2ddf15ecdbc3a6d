#include "client/src/state/state_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "client/src/state/hashing.h"

namespace ringway::internal {
namespace {

constexpr std::array<char, 8> kMagic = {'R', 'I', 'N', 'G', 'W', 'A', 'Y', '2'};

struct Head {
  std::array<char, 8> magic = kMagic;
  std::uint64_t revision = 0;
  std::uint64_t bytes = 0;
  std::uint64_t layout = 0;
};
static_assert(sizeof(Head) == 32 && std::endian::native == std::endian::little);

constexpr std::size_t kHeadBytes = sizeof(Head) + sizeof(Hash);

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

Status Failed(const std::string& what, const std::string& path) {
  return Status(Code::kIo, "the state file: " + what + " " + path + ": " + std::strerror(errno));
}

Status WriteAll(int fd, const void* data, std::size_t bytes, const std::string& path) {
  const auto* at = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(fd, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Failed("cannot write", path);
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
  return {};
}

// Returns the number of bytes read, less than asked for at the end of the file; nullopt after a failure.
std::optional<std::size_t> ReadAll(int fd, void* data, std::size_t bytes) {
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t read = ::read(fd, static_cast<std::byte*>(data) + got, bytes - got);
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return std::nullopt;
    if (read == 0) break;
    got += static_cast<std::size_t>(read);
  }
  return got;
}

bool IsStillAt(int fd, const std::string& path) {
  struct stat ours {};
  struct stat theirs {};
  if (::fstat(fd, &ours) != 0 || ::stat(path.c_str(), &theirs) != 0) return false;
  return ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

// The hash comes first in the file, so it is written last.
Status WriteState(int fd, Head head, StateBytes* state, const std::string& path) {
  Hasher hasher;
  hasher.Add(&head, sizeof(head));
  std::array<std::byte, kHeadBytes> first{};
  if (Status error = WriteAll(fd, first.data(), first.size(), path); !error.ok()) return error;
  const auto content = std::make_unique_for_overwrite<std::byte[]>(kStatePieceBytes);
  for (std::size_t piece = 0; piece < state->piece_count(); ++piece) {
    if (Status error = state->Read(piece, 0, state->bytes_of(piece), content.get()); !error.ok()) return error;
    hasher.Add(content.get(), state->bytes_of(piece));
    if (Status error = WriteAll(fd, content.get(), state->bytes_of(piece), path); !error.ok()) return error;
  }
  const Hash hash = hasher.Result();
  std::memcpy(first.data(), &head, sizeof(head));
  std::memcpy(first.data() + sizeof(head), &hash, sizeof(hash));
  if (::lseek(fd, 0, SEEK_SET) != 0) return Failed("cannot write", path);
  if (Status error = WriteAll(fd, first.data(), first.size(), path); !error.ok()) return error;
  if (::fsync(fd) != 0) return Failed("cannot write", path);
  return {};
}

}  // namespace

std::string StateFile::directory() const {
  const std::size_t slash = path_.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path_.substr(0, slash);
}

Status StateFile::Save(std::uint64_t revision, StateBytes* state) const {
  {
    const Descriptor file(::open(new_path_.c_str(), O_CREAT | O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
    if (file.get() < 0) return Failed("cannot create", new_path_);
    // Two processes with one path fail, instead of mixing their states.
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 || !IsStillAt(file.get(), new_path_)) {
      return Status(Code::kIo, "the state file: another process writes " + path_ + " too: each rank has its own");
    }
    Status error = ::ftruncate(file.get(), 0) == 0 ? Status() : Failed("cannot write", new_path_);
    const Head head{.revision = revision, .bytes = state->bytes(), .layout = state->layout()};
    if (error.ok()) error = WriteState(file.get(), head, state, new_path_);
    if (error.ok() && ::rename(new_path_.c_str(), path_.c_str()) != 0) error = Failed("cannot replace", path_);
    if (!error.ok()) {
      ::unlink(new_path_.c_str());
      return error;
    }
  }
  const Descriptor directory_file(::open(directory().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory_file.get() < 0 || ::fsync(directory_file.get()) != 0) return Failed("cannot write", directory());
  return {};
}

Result<std::optional<std::uint64_t>> StateFile::Load(StateBytes* state) const {
  if (Status error = CheckRoom(state->bytes()); !error.ok()) return error;
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // whatever it is
  if (file.get() < 0) {
    if (errno == ENOENT) return std::optional<std::uint64_t>();
    return Failed("cannot open", path_);
  }
  const auto refuse = [this](const std::string& why) { return Status(Code::kInvalidArgument, path_ + " " + why); };
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return refuse("is not a file: name another");
  Head head;
  Hash wanted;
  const auto head_read = ReadAll(file.get(), &head, sizeof(head));
  const auto hash_read = ReadAll(file.get(), &wanted, sizeof(wanted));
  if (!head_read || !hash_read) return Failed("cannot read", path_);
  if (*hash_read != sizeof(wanted) || head.magic != kMagic) {
    return refuse("is not a state file: name another, or move it away");
  }
  const bool is_this_model = head.layout == state->layout() || head.layout == state->layout_undescribed();
  if (head.bytes != state->bytes() || !is_this_model) {
    return refuse("has a state of " + std::to_string(head.bytes) + " bytes, and the tensors, of " +
                  std::to_string(state->bytes()) +
                  " bytes, have other names, sizes, dtypes or shapes: it is another model's");
  }
  Hasher hasher;
  hasher.Add(&head, sizeof(head));
  Pieces pieces;
  bool is_whole = head.revision <= kRevisionMax;
  for (std::size_t piece = 0; is_whole && piece < state->piece_count(); ++piece) {
    const std::size_t bytes = state->bytes_of(piece);
    pieces[piece] = std::make_unique_for_overwrite<std::byte[]>(bytes);
    const auto read = ReadAll(file.get(), pieces[piece].get(), bytes);
    if (!read) return Failed("cannot read", path_);
    is_whole = *read == bytes;
    hasher.Add(pieces[piece].get(), *read);
  }
  std::byte more{};
  is_whole = is_whole && ReadAll(file.get(), &more, 1) == 0;
  if (!is_whole || hasher.Result() != wanted) {
    return refuse("is damaged: move it away, and this rank takes the others' state, or begins anew");
  }
  if (Status error = state->Write(pieces); !error.ok()) return error;
  return std::optional<std::uint64_t>(head.revision);
}

// Before the first save: there is a directory, with room for two states, as one is written while the other is there.
Status StateFile::CheckRoom(std::size_t bytes) const {
  struct stat status {};
  if (::stat(directory().c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return Status(Code::kInvalidArgument, "there is no directory " + directory() + " for the state file: create it");
  }
  struct statvfs room {};
  if (::statvfs(directory().c_str(), &room) != 0) return Failed("cannot look at", directory());
  std::uint64_t there = 0;
  for (const std::string& path : {path_, new_path_}) {
    if (::stat(path.c_str(), &status) == 0) there += static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
  }
  const std::uint64_t needed = 2 * (bytes + kHeadBytes);
  const std::uint64_t free = static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize;
  if (needed <= free + there) return {};
  return Status(Code::kResourceExhausted, directory() + " has " + std::to_string(free) +
                                              " bytes left, and the state file needs " +
                                              std::to_string(needed - there) + ": make room");
}

}  // namespace ringway::internal
