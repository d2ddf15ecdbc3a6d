// chaos_flooder SOCKET: a local user who connects to a daemon's socket as often as it lets him, until SIGTERM: some of
// his connections say nothing, the others nonsense. As root it becomes nobody first.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>

namespace {

constexpr std::size_t kOpenMax = 400;
constexpr std::size_t kEachTurn = 20;
constexpr useconds_t kPauseUs = 2000;
constexpr uid_t kNobody = 65534;

volatile std::sig_atomic_t ends = 0;

int ConnectTo(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: chaos_flooder SOCKET\n"), 2;
  if (::getuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) return std::perror("setuid"), 1;
  std::signal(SIGTERM, [](int) { ends = 1; });
  std::deque<int> open;
  for (std::size_t turn = 0; ends == 0; ++turn) {
    for (std::size_t i = 0; i < kEachTurn; ++i) {
      const int fd = ConnectTo(argv[1]);
      if (fd < 0) break;
      std::array<char, 96> nonsense{};
      nonsense.fill(static_cast<char>(turn));
      if (i % 3 != 0) (void)::send(fd, nonsense.data(), 1 + i * 4, MSG_NOSIGNAL);
      open.push_back(fd);
    }
    for (; open.size() > kOpenMax; open.pop_front()) ::close(open.front());
    ::usleep(kPauseUs);
  }
  return 0;
}
