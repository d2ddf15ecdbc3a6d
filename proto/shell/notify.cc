#include "proto/shell/notify.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

namespace ringway::shell {
namespace {

bool Notify(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path == nullptr || (path[0] != '/' && path[0] != '@') || std::strlen(path) >= sizeof address.sun_path)
    return false;
  std::strcpy(address.sun_path, path);
  if (path[0] == '@') address.sun_path[0] = '\0';  // the abstract namespace
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  const bool sent =
      ::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), length) >= 0;
  ::close(fd);
  return sent;
}

constexpr int kFirstSocket = 3;
constexpr std::uint64_t kSocketsMax = 64;
constexpr std::uint64_t kWatchdogMax = 24ULL * 3600 * 1'000'000;
constexpr int kBeats = 4;  // in the watchdog's time

// Returns a number from the environment; 0 if there is none.
std::uint64_t Number(const char* name) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets one
  std::uint64_t number = 0;
  if (text == nullptr) return 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), number);
  return error == std::errc() && *end == '\0' ? number : 0;
}

// Variables that a parent was given are not for its children.
bool IsForUs(const char* name) { return Number(name) == static_cast<std::uint64_t>(::getpid()); }

}  // namespace

bool NotifyReady() { return Notify("READY=1"); }
bool NotifyStopping() { return Notify("STOPPING=1"); }
bool NotifyAlive() { return Notify("WATCHDOG=1"); }

Duration WatchdogTime() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here sets one
  if (std::getenv("WATCHDOG_PID") != nullptr && !IsForUs("WATCHDOG_PID")) return Duration();
  return Duration(std::min(Number("WATCHDOG_USEC"), kWatchdogMax));
}

Heart::Heart(asio::io_context& loop, std::function<void()> beat)
    : pause_(WatchdogTime() / kBeats), beat_(std::move(beat)), timer_(loop) {}

void Heart::Start() {
  if (pause_ == Duration()) return;
  beat_();
  timer_.After(pause_, [this] { Start(); });
}

bool HasTerminal() { return net::UniqueFd(::open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC)).valid(); }

std::vector<net::UniqueFd> TakeSockets() {
  std::vector<net::UniqueFd> sockets;
  if (!IsForUs("LISTEN_PID")) return sockets;
  const std::uint64_t count = std::min(Number("LISTEN_FDS"), kSocketsMax);
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(name);  // NOLINT: one thread yet
  for (std::uint64_t i = 0; i < count; ++i) {
    net::UniqueFd& fd = sockets.emplace_back(kFirstSocket + static_cast<int>(i));
    (void)::fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
  }
  return sockets;
}

}  // namespace ringway::shell
