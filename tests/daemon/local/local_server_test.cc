#include "daemon/local/local_server.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ringway::local {
namespace {

class NoHost : public SessionHost {
  void OnJoin(const std::shared_ptr<TrainerSession>&, const JoinOrder&) override {}
  void OnSessionOver(const std::shared_ptr<TrainerSession>&) override {}
  std::string StatusJson() override { return "{}"; }
};

class LocalServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/ringway-test-XXXXXX";
    folder_ = ::mkdtemp(folder);
    path_ = folder_ + "/socket";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  asio::io_context context_;
  NoHost host_;
  std::string folder_;
  std::string path_;
};

TEST_F(LocalServerTest, FileHasItsModeAndGoesWithTheServer) {
  {
    LocalServer server(context_, &host_);
    ASSERT_TRUE(server.Bind(path_, 0600).ok());
    struct stat info {};
    ASSERT_EQ(::stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(LocalServerTest, PathOfALiveServerIsRefusedWithItsPid) {
  LocalServer first(context_, &host_);
  ASSERT_TRUE(first.Bind(path_, 0600).ok());
  LocalServer second(context_, &host_);
  const Status status = second.Bind(path_, 0600);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.text().find("pid " + std::to_string(::getpid())), std::string::npos) << status.text();
  second.Stop();
  EXPECT_TRUE(std::filesystem::exists(path_)) << "the refused server leaves the other's file alone";
}

TEST_F(LocalServerTest, StaleFileIsReplaced) {
  const net::UniqueFd dead(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  LocalServer server(context_, &host_);
  EXPECT_TRUE(server.Bind(path_, 0600).ok());
}

TEST_F(LocalServerTest, FileThatIsNoSocketIsLeftAlone) {
  std::ofstream(path_) << "precious";
  {
    LocalServer server(context_, &host_);
    EXPECT_EQ(server.Bind(path_, 0600).code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(std::filesystem::file_size(path_), 8U);
}

TEST_F(LocalServerTest, PathTooLongIsRefused) {
  LocalServer server(context_, &host_);
  EXPECT_EQ(server.Bind(std::string(200, 'x'), 0600).code(), Code::kInvalidArgument);
  EXPECT_EQ(server.Bind("", 0600).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ringway::local
