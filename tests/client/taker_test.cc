#include "client/src/state/taker.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace ringway::internal {
namespace {

// A daemon's socket that nobody answers on.
class SilentDaemon {
 public:
  SilentDaemon() {
    EXPECT_NE(::mkdtemp(directory_), nullptr);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path().c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
  }
  ~SilentDaemon() {
    ::close(socket_);
    ::unlink(path().c_str());
    ::rmdir(directory_);
  }
  SilentDaemon(const SilentDaemon&) = delete;
  SilentDaemon& operator=(const SilentDaemon&) = delete;
  std::string path() const { return std::string(directory_) + "/socket"; }

 private:
  char directory_[32] = "/tmp/ringway_taker_XXXXXX";
  const int socket_ = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
};

TEST(TakerTest, MembersThatNeverAnswerHoldANewcomerNoLongerThanTheLimit) {
  const SilentDaemon daemon;
  std::vector<std::byte> content(1000);
  auto state = StateBytes::Make({{.name = "words", .data = content.data(), .bytes = content.size()}});
  ASSERT_TRUE(state.ok());
  std::string said;
  JoinOptions options;
  options.socket_path = daemon.path();
  options.group = "job";
  options.on_waiting = [&](const Status& why) { said = why.text(); };
  Taker taker(&state.value(), options, std::chrono::milliseconds(1));
  taker.Take({.peer_id = 2, .members = {1, 3}});
  EXPECT_NE(said.find("too slowly"), std::string::npos) << said;
  EXPECT_TRUE(taker.taken().error.ok());
}

TEST(TakerTest, LimitLeavesTimeForAStateThatTravelsAtAMebibyteASecond) {
  EXPECT_EQ(Taker::LimitFor(0), std::chrono::minutes(10));
  EXPECT_EQ(Taker::LimitFor(std::size_t{1} << 40), std::chrono::minutes(10) + std::chrono::seconds(1 << 20));
}

}  // namespace
}  // namespace ringway::internal
