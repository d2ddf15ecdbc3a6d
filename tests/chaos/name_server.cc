// chaos_name_server: answers every question for an IPv4 address with 127.0.0.1, at 127.0.0.1:53 (RFC 1035), and says
// of all other types that there is nothing; until it is killed.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

using Packet = std::vector<std::uint8_t>;

constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kTypeAndClassBytes = 4;
constexpr std::uint8_t kTypeA = 1;
constexpr std::array<std::uint8_t, 16> kLoopback = {0xC0, kHeaderBytes,  // the name that was asked for
                                                    0,    kTypeA,       0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1};

// Returns where the only question of a query ends; 0 if there is none.
std::size_t EndOfQuestion(const Packet& query) {
  if (query.size() < kHeaderBytes || query[4] != 0 || query[5] != 1) return 0;
  std::size_t at = kHeaderBytes;
  while (at < query.size() && query[at] != 0) at += 1 + query[at];
  const std::size_t end = at + 1 + kTypeAndClassBytes;
  return end <= query.size() ? end : 0;
}

Packet AnswerTo(const Packet& query) {
  const std::size_t end = EndOfQuestion(query);
  if (end == 0) return {};
  Packet answer(query.begin(), query.begin() + static_cast<std::ptrdiff_t>(end));
  answer[2] = 0x84;  // an answer, authoritative
  answer[3] = 0;
  std::fill(answer.begin() + 6, answer.begin() + kHeaderBytes, 0);
  if (query[end - kTypeAndClassBytes] != 0 || query[end - kTypeAndClassBytes + 1] != kTypeA) return answer;
  answer[7] = 1;
  answer.insert(answer.end(), kLoopback.begin(), kLoopback.end());
  return answer;
}

}  // namespace

int main() {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(53);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return std::perror("bind"), 1;
  std::fprintf(stderr, "0 info listening address=127.0.0.1:53\n");
  for (;;) {
    Packet query(512);
    sockaddr_storage from{};
    socklen_t from_bytes = sizeof(from);
    const ssize_t bytes =
        ::recvfrom(fd, query.data(), query.size(), 0, reinterpret_cast<sockaddr*>(&from), &from_bytes);
    if (bytes < 0) return std::perror("recvfrom"), 1;
    query.resize(static_cast<std::size_t>(bytes));
    const Packet answer = AnswerTo(query);
    (void)::sendto(fd, answer.data(), answer.size(), 0, reinterpret_cast<const sockaddr*>(&from), from_bytes);
  }
}
