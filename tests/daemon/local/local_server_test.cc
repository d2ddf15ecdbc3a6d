#include "daemon/local/local_server.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <barrier>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "tests/daemon/local/client_packets.h"
#include "tests/daemon/local/memfd.h"

namespace ringway::local {
namespace {

class NoHost : public SessionSink {
  Status MayJoin(const TrainerSession&, const std::optional<std::string>&) override { return Status::Ok(); }
  void OnJoin(const std::shared_ptr<TrainerSession>&, const JoinOrder&) override {}
  void OnSessionOver(const std::shared_ptr<TrainerSession>&) override {}
  std::string StatusJson() override { return "{}"; }
  std::string FlightImage(const std::string&, std::uint32_t) override { return ""; }
  std::uint64_t Instance() const override { return 1; }
};

class LocalServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/ringway-test-XXXXXX";
    folder_ = ::mkdtemp(folder);
    path_ = folder_ + "/socket";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  net::UniqueFd Connect() const { return SocketAtPath(::connect); }
  // Binds a socket there as systemd, or a daemon that died, would have.
  net::UniqueFd BoundByAnother() const { return SocketAtPath(::bind); }
  template <typename T>
  static void Send(const net::UniqueFd& client, const T& packet, int fd = -1) {
    const std::vector<int> fds = fd < 0 ? std::vector<int>() : std::vector<int>{fd};
    EXPECT_EQ(SendRaw(client.get(), BytesOf(packet), fds), static_cast<ssize_t>(sizeof packet));
  }
  // Runs the server until it has ended this session; its last packet's code.
  Code EndOf(const net::UniqueFd& client) {
    Code code = Code::kOk;
    for (;;) {
      alignas(abi::Ended) char packet[1024];
      const ssize_t got = ::recv(client.get(), packet, sizeof packet, MSG_DONTWAIT);
      if (got == 0) return code;
      if (got == sizeof(abi::Ended)) code = reinterpret_cast<const abi::Ended*>(packet)->code;
      if (got > 0) continue;
      if (context_.run_one_for(std::chrono::seconds(10)) == 0) return Code::kInternal;  // nothing would ever happen
    }
  }
  void RunUntilIdle() {
    while (context_.run_one_for(std::chrono::milliseconds(200)) > 0) continue;
  }
  static bool IsOpen(const net::UniqueFd& client) {
    char packet[1024];
    ssize_t got = 1;
    while (got > 0) got = ::recv(client.get(), packet, sizeof packet, MSG_DONTWAIT);
    return got < 0 && errno == EAGAIN;
  }

  net::UniqueFd SocketAtPath(int (*call)(int, const sockaddr*, socklen_t)) const {
    net::UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(call(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  asio::io_context context_;
  NoHost host_;
  std::string folder_;
  std::string path_;
};

TEST_F(LocalServerTest, FileHasItsModeAndGoesWithTheServer) {
  {
    LocalServer server(context_, &host_);
    ASSERT_TRUE(server.Bind(path_, {.mode = 0600}).ok());
    struct stat info {};
    ASSERT_EQ(::stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(LocalServerTest, PathOfALiveServerIsRefusedWithItsPid) {
  LocalServer first(context_, &host_);
  ASSERT_TRUE(first.Bind(path_, {.mode = 0600}).ok());
  LocalServer second(context_, &host_);
  const Status status = second.Bind(path_, {.mode = 0600});
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.text().find("pid " + std::to_string(::getpid())), std::string::npos) << status.text();
  second.Stop();
  EXPECT_TRUE(std::filesystem::exists(path_)) << "the refused server leaves the other's file alone";
}

TEST_F(LocalServerTest, StaleFileIsReplaced) {
  const net::UniqueFd dead = BoundByAnother();
  LocalServer server(context_, &host_);
  EXPECT_TRUE(server.Bind(path_, {.mode = 0600}).ok());
}

// Else the second would remove the first's socket as a stale one: nobody could reach the first, which would not notice.
TEST_F(LocalServerTest, OfTwoThatStartAtOnceOnAStaleFileOneHasIt) {
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    std::filesystem::remove(path_);
    BoundByAnother().Reset();
    asio::io_context contexts[2];
    LocalServer first(contexts[0], &host_);
    LocalServer second(contexts[1], &host_);
    std::barrier start(2);
    Status outcomes[2];
    const auto bind = [&](LocalServer& server, Status& outcome) {
      start.arrive_and_wait();
      outcome = server.Bind(path_, {.mode = 0600});
    };
    std::thread other([&] { bind(second, outcomes[1]); });
    bind(first, outcomes[0]);
    other.join();
    ASSERT_NE(outcomes[0].ok(), outcomes[1].ok()) << outcomes[0].text() << " / " << outcomes[1].text();
    const Status& refused = outcomes[0].ok() ? outcomes[1] : outcomes[0];
    EXPECT_NE(refused.text().find("in use by another ringwayd"), std::string::npos) << refused.text();
    (outcomes[0].ok() ? second : first).Stop();
    EXPECT_TRUE(std::filesystem::exists(path_));
  }
  EXPECT_FALSE(std::filesystem::exists(path_ + ".lock"));
}

// A daemon that died while it started leaves such a file.
TEST_F(LocalServerTest, LockFileThatNobodyHoldsIsNoHindrance) {
  std::ofstream(path_ + ".lock") << "";
  LocalServer server(context_, &host_);
  EXPECT_TRUE(server.Bind(path_, {.mode = 0600}).ok());
  EXPECT_FALSE(std::filesystem::exists(path_ + ".lock"));
}

TEST_F(LocalServerTest, FileOfASuccessorStays) {
  LocalServer old(context_, &host_);
  ASSERT_TRUE(old.Bind(path_, {.mode = 0600}).ok());
  ASSERT_TRUE(std::filesystem::remove(path_));
  LocalServer successor(context_, &host_);
  ASSERT_TRUE(successor.Bind(path_, {.mode = 0600}).ok());
  old.RemoveFile();
  EXPECT_TRUE(std::filesystem::exists(path_));
  old.Stop();
  EXPECT_TRUE(std::filesystem::exists(path_));
  successor.Stop();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(LocalServerTest, SocketOfAnotherIsTakenIfItLetsInNoMoreUsersThanWasAskedFor) {
  const auto adopted = [this](mode_t made, const SocketFile& asked) {
    std::filesystem::remove(path_);
    net::UniqueFd fd = BoundByAnother();
    EXPECT_EQ(::listen(fd.get(), 1), 0);
    EXPECT_EQ(::chmod(path_.c_str(), made), 0);
    return LocalServer(context_, &host_).Adopt(std::move(fd), path_, asked);
  };
  EXPECT_TRUE(adopted(0666, {}).ok());
  EXPECT_TRUE(adopted(0600, {}).ok());
  EXPECT_TRUE(adopted(0660, {.mode = 0660, .group = ::getegid()}).ok());
  const Status open = adopted(0666, {.mode = 0600});
  EXPECT_EQ(open.code(), Code::kInvalidArgument);
  EXPECT_NE(open.text().find("SocketMode=0600"), std::string::npos) << open.text();
  EXPECT_NE(adopted(0660, {.mode = 0660, .group = ::getegid() + 1}).text().find("SocketGroup="), std::string::npos);
}

TEST_F(LocalServerTest, FileThatIsNoSocketIsLeftAlone) {
  std::ofstream(path_) << "precious";
  {
    LocalServer server(context_, &host_);
    EXPECT_EQ(server.Bind(path_, {.mode = 0600}).code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(std::filesystem::file_size(path_), 8U);
}

TEST_F(LocalServerTest, PathTooLongIsRefused) {
  LocalServer server(context_, &host_);
  EXPECT_EQ(server.Bind(std::string(200, 'x'), {.mode = 0600}).code(), Code::kInvalidArgument);
  EXPECT_EQ(server.Bind("", {.mode = 0600}).code(), Code::kInvalidArgument);
}

// Its users are limited, also this process's.
class CrowdedServerTest : public LocalServerTest {
 protected:
  void Serve(const UserLimits& limits) {
    users_ = std::make_shared<UserShares>(limits);
    server_.emplace(context_, &host_,
                    SessionLimits{.quiet_max = std::chrono::hours(1), .idle_max = std::chrono::hours(1)}, nullptr,
                    users_);
    ASSERT_TRUE(server_->Bind(path_, {.mode = 0600}).ok() && server_->Start().ok());
  }
  std::vector<net::UniqueFd> Crowd(std::size_t count) {
    std::vector<net::UniqueFd> crowd;
    while (crowd.size() < count) {
      crowd.push_back(Connect());
      while (server_->session_count() < crowd.size() && context_.run_one_for(std::chrono::seconds(10)) > 0) continue;
    }
    EXPECT_EQ(server_->session_count(), count);
    return crowd;
  }
  std::shared_ptr<UserShares> users_;
  std::optional<LocalServer> server_;
};

TEST_F(CrowdedServerTest, WhoHasItsShareOfSessionsLearnsSo) {
  Serve({.sessions = 8, .unlimited = {}});
  std::vector<net::UniqueFd> crowd = Crowd(6);
  const net::UniqueFd late = Connect();
  Send(late, HelloPacket());  // read or not, it does not cost the answer
  EXPECT_EQ(EndOf(late), Code::kResourceExhausted);
  EXPECT_TRUE(IsOpen(crowd.front()) && IsOpen(crowd.back()));
  EXPECT_TRUE(users_->TakeSession(users_->UserOf(::geteuid() + 1)).ok()) << "another user finds room";
  crowd.pop_back();
  RunUntilIdle();
  const net::UniqueFd next = Connect();
  RunUntilIdle();
  EXPECT_TRUE(IsOpen(next));
}

TEST_F(CrowdedServerTest, WhoHasItsShareOfDescriptorsLearnsSo) {
  Serve({.descriptors = 8, .unlimited = {}});
  const std::vector<net::UniqueFd> crowd = Crowd(3);
  EXPECT_EQ(EndOf(Connect()), Code::kResourceExhausted);
  EXPECT_EQ(server_->session_count(), 3U) << "it keeps no session";
}

TEST_F(CrowdedServerTest, SessionThatEndsGivesItsSharesBack) {
  Serve({.unlimited = {}});
  { const std::vector<net::UniqueFd> crowd = Crowd(3); }
  RunUntilIdle();
  EXPECT_EQ(users_->sessions().used(), 0U);
  EXPECT_EQ(users_->descriptors().used(), 0U);
}

class QuietClientTest : public LocalServerTest {
 protected:
  void SetUp() override {
    LocalServerTest::SetUp();
    server_.emplace(context_, &host_, SessionLimits{.quiet_max = std::chrono::milliseconds(5)});
    ASSERT_TRUE(server_->Bind(path_, {.mode = 0600}).ok() && server_->Start().ok());
  }
  std::optional<LocalServer> server_;
};

TEST_F(QuietClientTest, WithoutAWordIsEnded) { EXPECT_EQ(EndOf(Connect()), Code::kTimeout); }

TEST_F(QuietClientTest, AfterItsHelloIsEnded) {
  const net::UniqueFd status_client = Connect();
  Send(status_client, HelloPacket());
  EXPECT_EQ(EndOf(status_client), Code::kTimeout);
  const net::UniqueFd trainer = Connect();
  Send(trainer, HelloPacket(), MakeMemfd(sizeof(abi::SessionPage)).get());
  EXPECT_EQ(EndOf(trainer), Code::kTimeout);
}

// Whatever a client says, it holds a session that others cannot have.
TEST_F(QuietClientTest, ThatTalksButNeverAsksToJoinIsEnded) {
  constexpr auto kNever = std::chrono::hours(1);
  const std::string path = path_ + "2";
  LocalServer server(context_, &host_, SessionLimits{.quiet_max = kNever, .idle_max = std::chrono::milliseconds(5)});
  path_ = path;
  ASSERT_TRUE(server.Bind(path_, {.mode = 0600}).ok() && server.Start().ok());
  const net::UniqueFd status_client = Connect();
  Send(status_client, HelloPacket());
  Send(status_client, MakePacket<abi::Status>(abi::PacketType::kStatus));
  EXPECT_EQ(EndOf(status_client), Code::kTimeout);
}

TEST_F(QuietClientTest, ThatWaitsForItsJoinIsNot) {
  const net::UniqueFd trainer = Connect();
  Send(trainer, HelloPacket(), MakeMemfd(sizeof(abi::SessionPage)).get());
  Send(trainer, JoinPacket());
  // Whoever comes after it and is ended has been silent for less long.
  EXPECT_EQ(EndOf(Connect()), Code::kTimeout);
  EXPECT_EQ(EndOf(Connect()), Code::kTimeout);
  EXPECT_TRUE(IsOpen(trainer));
}

}  // namespace
}  // namespace ringway::local
