#include "daemon/local/close_guard.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <future>

#include "daemon/local/packet.h"
#include "tests/daemon/local/client_packets.h"
#include "tests/daemon/local/lingering.h"
#include "tests/daemon/local/memfd.h"

namespace ringway::local {
namespace {

struct Pair {
  net::UniqueFd ours, theirs;
};
Pair MakePair() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
  return {net::UniqueFd(fds[0]), net::UniqueFd(fds[1])};
}

// Returns whether `work`, which gets a lingering socket's last descriptor, ends soon; unguarded it takes an hour.
template <typename Work>
bool Ends(Work work) {
  constexpr std::chrono::seconds kPatience(60);
  Lingering stranger = MakeLingering();
  EXPECT_TRUE(stranger.peer.valid());
  auto done = std::async(std::launch::async, [&work, fd = std::move(stranger.sender)]() mutable {
    const CloseGuard guard;
    work(std::move(fd));
  });
  const bool has_ended = done.wait_for(kPatience) == std::future_status::ready;
  stranger.peer.Reset();  // which lets it go
  return has_ended;
}

TEST(CloseGuardTest, CloseOfALingeringSocketEnds) {
  EXPECT_TRUE(Ends([](net::UniqueFd fd) { fd.Reset(); }));
}

// The kernel drops what the reader has no room for.
TEST(CloseGuardTest, ReadingAPacketWithTooManyDescriptorsEnds) {
  EXPECT_TRUE(Ends([](net::UniqueFd fd) {
    const Pair pair = MakePair();
    const net::UniqueFd memory = MakeMemfd(4096);
    EXPECT_EQ(SendRaw(pair.theirs.get(), BytesOf(HelloPacket()), {memory.get(), fd.get()}),
              static_cast<ssize_t>(sizeof(abi::Hello)));
    fd.Reset();
    std::array<std::byte, 1024> buffer;
    const ReceivedPacket packet = ReceivePacket(pair.ours.get(), buffer);
    EXPECT_EQ(packet.outcome, ReadOutcome::kBroken);
    EXPECT_NE(packet.fault.text().find("more than one descriptor"), std::string::npos) << packet.fault.text();
  }));
}

TEST(CloseGuardTest, ClosingAConnectionWithUnreadDescriptorsEnds) {
  EXPECT_TRUE(Ends([](net::UniqueFd fd) {
    Pair pair = MakePair();
    (void)SendRaw(pair.theirs.get(), BytesOf(HelloPacket()), {fd.get()});
    fd.Reset();
    pair.ours.Reset();
  }));
}

TEST(CloseGuardTest, SocketInAPacketIsClosedAndOtherFilesAreLeftToTheCaller) {
  EXPECT_TRUE(Ends([](net::UniqueFd fd) {
    const Pair pair = MakePair();
    (void)SendRaw(pair.theirs.get(), BytesOf(HelloPacket()), {fd.get()});
    fd.Reset();
    std::array<std::byte, 1024> buffer;
    const ReceivedPacket packet = ReceivePacket(pair.ours.get(), buffer);
    EXPECT_EQ(packet.outcome, ReadOutcome::kBroken);
    EXPECT_FALSE(packet.fd.valid() || packet.foreign.valid());
    const net::UniqueFd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
    (void)SendRaw(pair.theirs.get(), BytesOf(HelloPacket()), {file.get()});
    const ReceivedPacket other = ReceivePacket(pair.ours.get(), buffer);
    EXPECT_NE(other.fault.text().find("no memfd"), std::string::npos) << other.fault.text();
    EXPECT_TRUE(other.foreign.valid());
  }));
}

}  // namespace
}  // namespace ringway::local
