#include "daemon/local/local_server.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "proto/stream/address.h"

namespace ringway::local {
namespace {

constexpr int kBacklog = 256;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
constexpr int kLockTries = 500;
constexpr auto kLockPause = std::chrono::milliseconds(10);

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Status(Code::kInvalidArgument, "socket path '" + path + "' is empty or longer than " +
                                              std::to_string(sizeof address.sun_path - 1) + " characters");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

int ConnectOrBind(int (*call)(int, const sockaddr*, socklen_t), int fd, const sockaddr_un& address) {
  return call(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

net::UniqueFd OpenSocket() {
  return net::UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Creates missing directories, searchable by all users; the socket's mode restricts who may connect.
Status MakeDirectoryOf(const std::string& path) {
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (directory.empty() || std::filesystem::exists(directory, error)) return Status::Ok();
  std::filesystem::create_directories(directory, error);
  if (error) return {Code::kIo, "cannot make the socket's directory " + directory.string() + ": " + error.message()};
  constexpr auto kEnter = std::filesystem::perms(0755);
  std::filesystem::permissions(directory, kEnter, error);
  return Status::Ok();
}

// The file itself, whatever its name comes to mean; not valid if `path` is no socket, or a link to one.
net::UniqueFd OpenSocketFile(const std::string& path) {
  net::UniqueFd file(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (file.valid() && ::fstat(file.get(), &info) == 0 && S_ISSOCK(info.st_mode)) return file;
  return {};
}

// chmod, for a file that is open for its name alone.
int ChangeMode(const net::UniqueFd& file, mode_t mode) {
  return ::chmod(("/proc/self/fd/" + std::to_string(file.get())).c_str(), mode);
}

bool IsSameFile(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

// The right to bind a path, of one process at a time: from looking at the file there until the new one listens.
// Otherwise two daemons that start at once could both find a stale file, and the second would remove the first's
// socket, or one that is bound and does not listen yet.
//
// A lock on PATH.lock, which is of this user alone, so that no other one can hold it, and is removed in the end; a lock
// on a file that is no longer there counts for nothing.
class PathLock {
 public:
  static Result<PathLock> Take(const std::string& path) {
    PathLock lock(path + ".lock");
    for (int tries = 0; tries < kLockTries; ++tries) {
      lock.fd_.Reset(::open(lock.name_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
      if (!lock.fd_.valid()) return net::ErrnoStatus("cannot open " + lock.name_ + " to lock the socket's path", errno);
      const bool is_locked = ::flock(lock.fd_.get(), LOCK_EX | LOCK_NB) == 0;
      if (is_locked && lock.IsThere()) return lock;
      lock.fd_.Reset();  // it is another's, or of a file that is gone
      if (!is_locked) std::this_thread::sleep_for(kLockPause);
    }
    return Status(Code::kIo, "another process has locked " + lock.name_ +
                                 " for too long: is a ringwayd that starts there stopped? End it, or choose another "
                                 "--socket");
  }
  ~PathLock() {
    if (fd_.valid() && IsThere()) (void)::unlink(name_.c_str());
  }
  PathLock(PathLock&&) = default;
  PathLock& operator=(PathLock&&) = delete;

 private:
  explicit PathLock(std::string name) : name_(std::move(name)) {}
  bool IsThere() const {
    struct stat ours {};
    struct stat there {};
    return ::fstat(fd_.get(), &ours) == 0 && ::lstat(name_.c_str(), &there) == 0 && IsSameFile(ours, there);
  }

  std::string name_;
  net::UniqueFd fd_;  // has the lock
};

// Removes the file at `path` if it is a socket without a listener.
Status RemoveStale(const std::string& path, const sockaddr_un& address) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return net::ErrnoStatus("cannot examine " + path, errno);
  if (!S_ISSOCK(info.st_mode)) {
    return {Code::kInvalidArgument, path + " exists and is no socket; choose another --socket or remove it"};
  }
  const net::UniqueFd probe = OpenSocket();
  if (!probe.valid()) return net::ErrnoStatus("cannot open a socket", errno);
  if (ConnectOrBind(::connect, probe.get(), address) == 0 || errno == EAGAIN) {
    ucred owner{};
    socklen_t length = sizeof owner;
    (void)::getsockopt(probe.get(), SOL_SOCKET, SO_PEERCRED, &owner, &length);
    return {Code::kInvalidArgument, "socket path " + path + " is in use by another ringwayd (pid " +
                                        std::to_string(owner.pid) + "); stop it or choose another --socket"};
  }
  if (errno != ECONNREFUSED) return net::ErrnoStatus("cannot examine " + path, errno);
  if (::unlink(path.c_str()) != 0) return net::ErrnoStatus("cannot replace the stale socket " + path, errno);
  return Status::Ok();
}

// The unit's SocketMode=, SocketUser= and SocketGroup= hold, so they must be as strict as the daemon's own options.
Status CheckAdopted(const std::string& path, const SocketFile& file) {
  struct stat made {};
  if (::stat(path.c_str(), &made) != 0) return net::ErrnoStatus("cannot look at the socket " + path, errno);
  const auto octal = [](mode_t mode) {
    std::array<char, 8> digits{};
    (void)std::snprintf(digits.data(), digits.size(), "0%03o", mode & 0777u);
    return std::string(digits.data());
  };
  constexpr mode_t kMayConnect = 0222;
  if ((made.st_mode & kMayConnect & ~file.mode) != 0) {
    return {Code::kInvalidArgument, "systemd has opened the socket with mode " + octal(made.st_mode) +
                                        " and --socket-mode is " + octal(file.mode) +
                                        ": give its unit SocketMode=" + octal(file.mode)};
  }
  const bool is_owners = file.owner == SocketFile().owner || file.owner == made.st_uid;
  if (!is_owners || (file.group != SocketFile().group && file.group != made.st_gid)) {
    return {
        Code::kInvalidArgument,
        "the socket that systemd has opened is not that of --socket-owner: give its unit SocketUser= and SocketGroup="};
  }
  return Status::Ok();
}

}  // namespace

LocalServer::LocalServer(asio::io_context& context, SessionSink* sink, const SessionLimits& limits,
                         std::shared_ptr<MemoryBudget> memory, std::shared_ptr<UserShares> users)
    : context_(context),
      sink_(sink),
      limits_(limits),
      memory_(std::move(memory)),
      users_(users != nullptr ? std::move(users) : std::make_shared<UserShares>(UserLimits())),
      limiter_(std::make_shared<PreAuthLimiter>(context)),
      acceptor_(context),
      retry_(context) {}

LocalServer::~LocalServer() { Stop(); }

Status LocalServer::Bind(const std::string& path, const SocketFile& file) {
  const auto address = AddressOf(path);
  if (!address.ok()) return address.status();
  if (Status made = MakeDirectoryOf(path); !made.ok()) return made;
  const auto lock = PathLock::Take(path);
  if (!lock.ok()) return lock.status();
  net::UniqueFd fd = OpenSocket();
  if (!fd.valid()) return net::ErrnoStatus("cannot open a socket", errno);
  // Before bind, so that the file is created with this mode and others can never connect.
  (void)::fchmod(fd.get(), file.mode);
  if (ConnectOrBind(::bind, fd.get(), address.value()) != 0) {
    if (errno != EADDRINUSE) return net::ErrnoStatus("cannot create the socket " + path, errno);
    if (Status status = RemoveStale(path, address.value()); !status.ok()) return status;
    if (ConnectOrBind(::bind, fd.get(), address.value()) != 0) {
      return net::ErrnoStatus("cannot create the socket " + path, errno);
    }
  }
  file_ = OpenSocketFile(path);
  if (!file_.valid()) {
    return {Code::kIo, "another process has replaced the socket " + path +
                           ": choose a --socket in a directory that only this user may write to"};
  }
  path_ = path;
  if (ChangeMode(file_, file.mode) != 0) return net::ErrnoStatus("cannot set the mode of " + path, errno);
  const bool is_given =
      file.owner != SocketFile().owner || file.group != SocketFile().group;  // else chown may be barred
  if (is_given && ::fchownat(file_.get(), "", file.owner, file.group, AT_EMPTY_PATH) != 0) {
    return net::ErrnoStatus("cannot give the socket " + path + " to its owner and group", errno);
  }
  if (::listen(fd.get(), kBacklog) != 0) return net::ErrnoStatus("cannot listen on " + path, errno);
  bound_ = std::move(fd);
  return Status::Ok();
}

Status LocalServer::Adopt(net::UniqueFd fd, const std::string& path, const SocketFile& file) {
  const auto wanted = AddressOf(path);
  if (!wanted.ok()) return wanted.status();
  sockaddr_un address{};
  socklen_t length = sizeof address;
  int type = 0;
  int listens = 0;
  socklen_t bytes = sizeof type;
  const bool known = ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
                     ::getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 &&
                     ::getsockopt(fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0;
  if (!known || address.sun_family != AF_UNIX || type != SOCK_SEQPACKET || listens == 0) {
    return {Code::kInvalidArgument,
            "the socket that systemd has opened is no listening Unix socket of sequenced packets: "
            "its unit is to have ListenSequentialPacket="};
  }
  if (std::strcmp(address.sun_path, wanted.value().sun_path) != 0) {
    return {Code::kInvalidArgument, "systemd listens on " + std::string(address.sun_path) + " and --socket is " + path +
                                        ": they have to be the same"};
  }
  if (Status status = CheckAdopted(path, file); !status.ok()) return status;
  (void)::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
  bound_ = std::move(fd);
  return Status::Ok();
}

Status LocalServer::Start() {
  asio::error_code error;
  acceptor_.assign(bound_.get(), error);
  if (error) return {Code::kIo, "cannot watch the local socket: " + error.message()};
  (void)bound_.Release();
  ArmAccept();
  return Status::Ok();
}

void LocalServer::Stop() {
  asio::error_code ignored;
  retry_.Cancel();
  RemoveFile();  // first: once nothing listens, a successor may replace it
  acceptor_.close(ignored);
  bound_.Reset();
  file_.Reset();
}

void LocalServer::RemoveFile() const {
  struct stat ours {};
  struct stat there {};
  if (!file_.valid() || ::fstat(file_.get(), &ours) != 0 || ::lstat(path_.c_str(), &there) != 0) return;
  if (IsSameFile(ours, there)) (void)::unlink(path_.c_str());
}

void LocalServer::ArmAccept() {
  acceptor_.async_wait(asio::posix::stream_descriptor::wait_read, [this](asio::error_code error) {
    if (error) return;
    limiter_->Queue(std::nullopt, [this] {
      if (acceptor_.is_open()) AcceptOne();
    });
  });
}

void LocalServer::AcceptOne() {
  net::UniqueFd fd(::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid()) {
    if (errno == EINTR || errno == ECONNABORTED || errno == EAGAIN || errno == EWOULDBLOCK) return ArmAccept();
    return retry_.After(kAcceptPause, [this] { ArmAccept(); });
  }
  ArmAccept();
  (void)std::make_shared<TrainerSession>(context_, sink_, limits_, reclaimer_, memory_, limiter_, users_)
      ->Start(std::move(fd));
}

}  // namespace ringway::local
