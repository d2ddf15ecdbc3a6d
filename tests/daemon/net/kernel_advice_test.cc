#include "daemon/net/kernel_advice.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ringway::net {
namespace {

// A /proc/sys of its own.
class KernelAdviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "proc_sys_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    std::filesystem::create_directories(root_ + "/net/ipv4");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Set(const std::string& name, const std::string& value) {
    std::ofstream(root_ + "/net/ipv4/" + name) << value << '\n';
  }

  std::string root_;
};

TEST_F(KernelAdviceTest, SettingsForLongPathsGiveNone) {
  Set("tcp_slow_start_after_idle", "0");
  Set("tcp_rmem", "4096\t131072\t67108864");
  Set("tcp_wmem", "4096\t65536\t16777216");
  EXPECT_EQ(KernelAdvice(false, root_), std::vector<std::string>());
}

TEST_F(KernelAdviceTest, SlowStartAfterIdleIsOneSentenceWithTheRemedy) {
  Set("tcp_slow_start_after_idle", "1");
  const std::vector<std::string> advice = KernelAdvice(false, root_);
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_NE(advice[0].find("net.ipv4.tcp_slow_start_after_idle is 1"), std::string::npos) << advice[0];
  EXPECT_NE(advice[0].find("lib/sysctl.d of the installation has 60-ringway.conf"), std::string::npos) << advice[0];
  EXPECT_NE(advice[0].find("deploy/sysctl.d/60-ringway.conf"), std::string::npos) << advice[0];
}

TEST_F(KernelAdviceTest, SmallWindowsAreOneSentenceThatNamesThem) {
  Set("tcp_rmem", "4096\t131072\t6291456");
  Set("tcp_wmem", "4096\t16384\t4194304");
  const std::vector<std::string> advice = KernelAdvice(false, root_);
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].find("net.ipv4.tcp_rmem allows 6291456, net.ipv4.tcp_wmem allows 4194304: "), 0u) << advice[0];
  Set("tcp_rmem", "4096\t131072\t67108864");
  EXPECT_EQ(KernelAdvice(false, root_).at(0).find("net.ipv4.tcp_wmem allows 4194304: "), 0u);
}

TEST_F(KernelAdviceTest, ARefusedBbrIsOneSentenceWithTheRemedy) {
  const std::vector<std::string> advice = KernelAdvice(true, root_);
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_NE(advice[0].find("modprobe tcp_bbr), or, if it is loaded, add bbr to"), std::string::npos) << advice[0];
}

TEST_F(KernelAdviceTest, WhatIsNotThereGivesNone) {
  EXPECT_EQ(KernelAdvice(false, root_), std::vector<std::string>());
  Set("tcp_rmem", "");
  Set("tcp_slow_start_after_idle", "?");
  EXPECT_EQ(KernelAdvice(false, root_), std::vector<std::string>());
  EXPECT_EQ(KernelAdvice(false, "/nowhere/at/all"), std::vector<std::string>());
}

}  // namespace
}  // namespace ringway::net
