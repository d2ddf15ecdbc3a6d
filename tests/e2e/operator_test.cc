// An operator takes a running daemon out of service, and changes its limit.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/checks.h"

namespace ringway::e2e {
namespace {

class DrainTest : public testing::Test {
 protected:
  Finished Ctl(const std::vector<std::string>& command, const std::string& master) const {
    std::vector<std::string> argv = {RINGWAY_CTL, "--master", master};
    for (const auto& part : {cluster_.TlsOptionsOf("m"), command}) argv.insert(argv.end(), part.begin(), part.end());
    return RunToEnd(argv);
  }
  Finished Drain(const std::vector<std::string>& rest) const {
    std::vector<std::string> command = {"drain"};
    command.insert(command.end(), rest.begin(), rest.end());
    return Ctl(command, cluster_.master_address());
  }

  Cluster cluster_{{.daemons = 3}};
};

struct Trained {
  Status error;
  OpResult last;
};

// All-reduces one after the other until one fails or is of two ranks.
Trained Train(Session& session) {
  Trained out;
  std::vector<float> data(100'000, 1.0f), sum(data.size());
  for (;;) {
    auto result = session.AllReduce(data.data(), sum.data(), data.size(), DType::kF32, ReduceOp::kSum);
    if (!result.ok()) out.error = result.status();
    if (!result.ok()) return out;
    out.last = std::move(*result);
    EXPECT_EQ(sum.front(), static_cast<float>(out.last.world_size));
    EXPECT_EQ(sum.back(), static_cast<float>(out.last.world_size));
    if (out.last.world_size == 2) return out;
  }
}

TEST_F(DrainTest, ItsTrainersFinishWhatRunsAndLeaveAndTheOthersGoOn) {
  const Sessions ranks = cluster_.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  std::vector<std::future<Trained>> training;
  for (const auto& session : ranks) training.push_back(std::async(std::launch::async, [&] { return Train(*session); }));
  const Finished drained = Drain({"d2"});
  EXPECT_EQ(drained.code, 0) << drained.err;
  EXPECT_NE(drained.out.find("d2 is drained"), std::string::npos) << drained.out;
  for (const std::size_t i : {0, 1}) {
    const Trained stayed = training[i].get();
    EXPECT_TRUE(stayed.error.ok()) << stayed.error.text();
    EXPECT_EQ(stayed.last.world_size, 2u);
  }
  EXPECT_EQ(training[2].get().error.code(), Code::kShuttingDown);
  EXPECT_EQ(cluster_.DaemonStatus(2)["daemon"]["draining"], true);
  const auto refused = Session::Join(cluster_.At(2, "other", 1));
  EXPECT_EQ(refused.status().code(), Code::kShuttingDown);
  EXPECT_NE(refused.status().text().find("out of service"), std::string::npos) << refused.status().text();
  EXPECT_EQ(Drain({"d2"}).code, 0) << "once more is no mistake";
  EXPECT_EQ(Drain({"d2", "--end"}).code, 0);
  EXPECT_TRUE(Session::Join(cluster_.At(2, "other", 1)).ok());
}

TEST_F(DrainTest, MasterThatComesBackKnowsWhoIsDrained) {
  EXPECT_EQ(Drain({"d1"}).code, 0);
  cluster_.master().Kill();
  cluster_.RestartMaster();
  EXPECT_TRUE(Eventually([&] {
    const nlohmann::json status = cluster_.MasterStatus();
    for (const auto& daemon : status["daemons"]) {
      if (daemon["name"] == "d1") return daemon.value("draining", false);
    }
    return false;
  }));
  EXPECT_EQ(Session::Join(cluster_.At(1, "job", 1)).status().code(), Code::kShuttingDown);
}

TEST_F(DrainTest, WhatCannotBeDrainedIsSaid) {
  const Finished nobody = Drain({"nobody"});
  EXPECT_EQ(nobody.code, 2);
  EXPECT_NE(nobody.err.find("no daemon is named nobody"), std::string::npos) << nobody.err;
  cluster_.daemon(2).Freeze();
  EXPECT_TRUE(Eventually([&] {  // a slow master may not answer in so little time
    const Finished silent = Drain({"d2", "--timeout-ms", "300"});
    EXPECT_EQ(silent.code, 2);
    return silent.err.find("d2 has the order, but it has not said that it does so") != std::string::npos;
  }));
  cluster_.daemon(2).Signal(SIGCONT);
  EXPECT_TRUE(Eventually([&] { return cluster_.DaemonStatus(2)["daemon"].value("draining", false); }));
}

// Within the time for which it looks for its daemon.
TEST_F(DrainTest, TrainerOfADrainedDaemonComesBackWhenItIsInServiceAgain) {
  JoinOptions options = cluster_.At(2, "job", 1);
  options.reconnect = std::chrono::seconds(60);
  auto session = Session::Join(options);
  ASSERT_TRUE(session.ok()) << session.status().text();
  EXPECT_EQ(Drain({"d2"}).code, 0);
  EXPECT_EQ(Drain({"d2", "--end"}).code, 0);
  float one = 1, sum = 0;
  EXPECT_EQ((*session)->AllReduce(&one, &sum, 1, DType::kF32, ReduceOp::kSum).status().code(), Code::kRejoined);
  EXPECT_TRUE((*session)->AllReduce(&one, &sum, 1, DType::kF32, ReduceOp::kSum).ok());
}

// Root may give the socket to anybody; others to none but themselves.
TEST(SocketFileTest, BelongsToWhomTheOptionsName) {
  Cluster cluster({.daemons = 0});
  const bool root = ::getuid() == 0;
  const std::string owner = root ? "65534:65533" : std::to_string(::getuid()) + ":" + std::to_string(::getgid());
  const std::size_t daemon = cluster.AddDaemon({"--socket-owner", owner, "--socket-mode", "0660"});
  struct stat file {};
  ASSERT_EQ(::stat(cluster.socket(daemon).c_str(), &file), 0);
  EXPECT_EQ(std::to_string(file.st_uid) + ":" + std::to_string(file.st_gid), owner);
  EXPECT_EQ(file.st_mode & 0777, 0660U);
}

TEST(ReloadTest, UplinkLimitIsReadAgainFromTheFile) {
  if (std::ifstream("/dev/tty")) GTEST_SKIP() << "SIGHUP is the end of a program that has a terminal";
  Cluster cluster({.daemons = 0});
  const std::string path = cluster.directory() / "ringwayd.toml";
  const auto write = [&](const std::string& text) { std::ofstream(path, std::ios::trunc) << text; };
  write("uplink-limit-mbit = 100\n");
  const std::size_t daemon = cluster.AddDaemon({"--config", path});
  const auto limit = [&] { return cluster.DaemonStatus(daemon)["daemon"].value("uplink_limit_mbit", 0); };
  EXPECT_EQ(limit(), 100);
  write("uplink-limit-mbit = 50\n");
  cluster.daemon(daemon).Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return limit() == 50; }));
  write("uplink-limit-mbit = 50\nsite = \"here\"\n");
  cluster.daemon(daemon).Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return cluster.daemon(daemon).Logged("reload_left_out", "options") == "site"; }));
  write("uplink-limit-mbit = \"fast\"\n");
  cluster.daemon(daemon).Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return !cluster.daemon(daemon).Logged("reload_failed", "error").empty(); }));
  EXPECT_EQ(limit(), 50);
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);  // whose reader would wait for ever
  cluster.daemon(daemon).Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return cluster.daemon(daemon).Err().find("is no file") != std::string::npos; }));
  EXPECT_EQ(limit(), 50);
  std::filesystem::remove(path);
  write("");
  cluster.daemon(daemon).Signal(SIGHUP);
  EXPECT_TRUE(Eventually([&] { return limit() == 0; }));
}

TEST(ConfigTest, FileMayBeAPipeThatIsReadOnce) {
  Cluster cluster({.daemons = 0});
  const std::string path = cluster.directory() / "pipe.toml";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << "uplink-limit-mbit = 100\n"; });
  const std::size_t daemon = cluster.AddDaemon({"--config", path});
  writer.join();
  EXPECT_EQ(cluster.DaemonStatus(daemon)["daemon"].value("uplink_limit_mbit", 0), 100);
}

}  // namespace
}  // namespace ringway::e2e
