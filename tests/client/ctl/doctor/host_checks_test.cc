#include "client/ctl/doctor/host_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/client/ctl/doctor/healthy.h"

namespace ringway::ctl {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr char kSlowStart[] = "/proc/sys/net/ipv4/tcp_slow_start_after_idle";
constexpr char kReceive[] = "/proc/sys/net/ipv4/tcp_rmem";
constexpr char kAvailable[] = "/proc/sys/net/ipv4/tcp_available_congestion_control";
constexpr char kAllowed[] = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

TEST(SysctlCheckTest, SettingsAreThoseOfTheFile) {
  const Findings findings = CheckSysctls(Healthy());
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].what, "net.ipv4.tcp_slow_start_after_idle = 0");
  EXPECT_EQ(findings[1].what, "net.ipv4.tcp_rmem = 4096 9 67108864");
}

TEST(SysctlCheckTest, SingleValueIsToBeTheSame) {
  Facts facts = Healthy();
  SetFile(&facts, kSlowStart, "1\n");
  EXPECT_EQ(Worst(facts, "sysctl").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "sysctl").remedy, HasSubstr("sysctl -w net.ipv4.tcp_slow_start_after_idle='0'"));
}

TEST(SysctlCheckTest, LargestOfSeveralCounts) {
  for (const char* value : {"4096 131072 67108863", "67108864", "", "a b c", "4096 131072 -1", "1 2 3 67108864",
                            "4096 131072 99999999999999999999999999"}) {
    Facts facts = Healthy();
    SetFile(&facts, kReceive, value);
    EXPECT_EQ(Worst(facts, "sysctl").level, Level::kWarn) << value;
  }
  Facts facts = Healthy();
  SetFile(&facts, kReceive, "1 2 67108865");
  EXPECT_EQ(Worst(facts, "sysctl").level, Level::kOk);
}

TEST(SysctlCheckTest, WhatCannotBeReadIsSkipped) {
  Facts facts = Healthy();
  SetFile(&facts, kSlowStart, std::nullopt);
  EXPECT_EQ(Worst(facts, "sysctl").level, Level::kSkip);
}

TEST(CongestionCheckTest, MissingBbrWarnsAndMissingChoiceFails) {
  Facts facts = Healthy();
  SetFile(&facts, kAvailable, "reno\tcubic\n");
  SetFile(&facts, kAllowed, "reno cubic\n");
  EXPECT_EQ(Worst(facts, "congestion").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "congestion").remedy, HasSubstr("modprobe tcp_bbr"));
  facts.host.congestion = "bbr";
  EXPECT_EQ(Worst(facts, "congestion").level, Level::kFail);
  SetFile(&facts, kAvailable, "reno cubic bbr2 bbr\n");
  EXPECT_EQ(Worst(facts, "congestion").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "congestion").remedy, HasSubstr("tcp_allowed_congestion_control='reno cubic bbr'"));
  facts.host.congestion = "cubic";
  EXPECT_EQ(Worst(facts, "congestion").level, Level::kOk);
  SetFile(&facts, kAvailable, std::nullopt);
  EXPECT_EQ(Worst(facts, "congestion").level, Level::kSkip);
}

TEST(DescriptorCheckTest, FewWarnAndVeryFewFail) {
  Facts facts = Healthy();
  Json& descriptors = facts.daemon.status["daemon"]["descriptors"];
  descriptors["limit"] = 1385U;
  EXPECT_EQ(Worst(facts, "descriptors").level, Level::kWarn);
  descriptors["limit"] = 255U;
  EXPECT_EQ(Worst(facts, "descriptors").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "descriptors").remedy, HasSubstr("LimitNOFILE"));
}

TEST(DescriptorCheckTest, WarnsWhereLanesHaveAllTheyMay) {
  Facts facts = Healthy();
  facts.daemon.status["daemon"]["descriptors"]["lanes"] = 30000U;
  EXPECT_EQ(Worst(facts, "descriptors").level, Level::kWarn);
}

TEST(DescriptorCheckTest, WithoutDaemonTheLimitIsThatOfThisShell) {
  Facts facts = Healthy();
  facts.daemon = {};
  EXPECT_EQ(Worst(facts, "descriptors").level, Level::kSkip);
  facts.host.descriptors = 100;
  EXPECT_EQ(Worst(facts, "descriptors").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "descriptors").what, HasSubstr("started from here"));
}

TEST(MemoryCheckTest, BudgetHasToFitIntoHostAndCgroup) {
  const auto level = [](auto&& change) {
    Facts facts = Healthy();  // 8 GiB of 16
    change(&facts);
    return Worst(facts, "memory").level;
  };
  EXPECT_EQ(level([](Facts* facts) { SetMemory(facts, 7, 7); }), Level::kFail);
  EXPECT_EQ(level([](Facts* facts) { SetCgroup(facts, std::to_string(7 * kGib)); }), Level::kFail);
  EXPECT_EQ(level([](Facts* facts) { SetCgroup(facts, std::to_string(9 * kGib)); }), Level::kWarn);
  EXPECT_EQ(level([](Facts* facts) { SetCgroup(facts, std::to_string(10 * kGib)); }), Level::kOk);
  EXPECT_EQ(level([](Facts* facts) { SetMemory(facts, 16, 7); }), Level::kWarn);
}

TEST(MemoryCheckTest, LowestLimitOfTheCgroupsAboveCounts) {
  Facts facts = Healthy();
  SetCgroup(&facts, "max");
  SetFile(&facts, "/sys/fs/cgroup/system.slice/memory.max", "5242880\n");
  SetFile(&facts, "/sys/fs/cgroup/memory.max", "9437184\n");
  EXPECT_THAT(Worst(facts, "memory").what, HasSubstr("its cgroup has 5 MiB"));
}

TEST(MemoryCheckTest, PidOfAnotherProgramIsNotTheDaemon) {
  Facts facts = Healthy();
  SetCgroup(&facts, "1000");
  SetFile(&facts, "/proc/77/comm", "bash\n");
  EXPECT_EQ(Worst(facts, "memory").level, Level::kOk);
}

TEST(MemoryCheckTest, WhatTheDaemonHasAlreadyCountsAsRoom) {
  Facts facts = Healthy();
  SetMemory(&facts, 16, 3);
  facts.daemon.status["daemon"]["memory"]["regions"] = 3 * kGib;
  EXPECT_EQ(Worst(facts, "memory").level, Level::kWarn);
  facts.daemon.status["daemon"]["memory"]["results"] = 2 * kGib;
  EXPECT_EQ(Worst(facts, "memory").level, Level::kOk);
}

TEST(MemoryCheckTest, ExtremeBudgetsOverflowNothing) {
  Facts facts = Healthy();
  facts.daemon.status["daemon"]["memory"] = {{"max", ~std::uint64_t{0}}, {"regions", ~std::uint64_t{0}}};
  SetCgroup(&facts, "99999999999999");
  EXPECT_EQ(Worst(facts, "memory").level, Level::kFail);
}

TEST(MemoryCheckTest, ConfigFileSaysTheBudgetOfADaemonThatDoesNotRun) {
  Facts facts = Healthy();
  facts.daemon = {};
  EXPECT_EQ(Worst(facts, "memory").level, Level::kSkip);
  facts.host.memory_max = 32 * kGib;
  EXPECT_EQ(Worst(facts, "memory").level, Level::kFail);
}

TEST(MemoryCheckTest, StrangeFilesGiveFewerFactsAndNoHarm) {
  const std::string endless(1 << 20, '0');
  for (const std::string& strange : {std::string(), std::string("\0\0\0", 3), std::string("\n\n\n"),
                                     std::string("MemTotal: kB\nMemAvailable: -1 kB\n"), std::string("0::/../../..\n"),
                                     std::string("0::\n1:name=systemd:/x"), std::string("MemTotal: \xff\xff kB"),
                                     std::string("MemTotal: 99999999999999999999999 kB\n"),
                                     std::string("MemTotal: 18446744073709551615 kB\n"), endless}) {
    Facts facts = Healthy();
    SetCgroup(&facts, strange);
    for (const char* path : {"/proc/meminfo", "/proc/77/cgroup", "/sys/fs/cgroup/memory.max", kAvailable, kReceive}) {
      SetFile(&facts, path, strange);
    }
    EXPECT_EQ(Worst(facts, "memory").level, Level::kOk) << strange.substr(0, 40);
    EXPECT_NE(Worst(facts, "sysctl").level, Level::kOk) << strange.substr(0, 40);
  }
}

class HostFilesTest : public testing::Test {
 protected:
  HostFilesTest() {
    std::string pattern = (fs::temp_directory_path() / "ringway_host_XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) root_ = pattern;
  }
  ~HostFilesTest() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  void Write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path, std::ios::binary) << text;
  }
  std::string root_;
};

TEST_F(HostFilesTest, UnitsCountWhereSystemdRuns) {
  Write("/lib/systemd/system/ringwayd.service", "");
  EXPECT_FALSE(SystemdHasUnits(root_));
  Write("/run/systemd/system/x", "");
  EXPECT_TRUE(SystemdHasUnits(root_));
  fs::remove_all(root_ + "/lib");
  EXPECT_FALSE(SystemdHasUnits(root_));
}

TEST_F(HostFilesTest, FirstBytesOfAFileAreReadAndDirectoriesAreNone) {
  Write("/file", "4\t5\n");
  EXPECT_EQ(ReadKernelFile(root_ + "/file"), "4\t5\n");
  Write("/file", std::string(1 << 20, '0'));
  EXPECT_EQ(ReadKernelFile(root_ + "/file")->size(), 64U << 10);
  EXPECT_EQ(ReadKernelFile(root_ + "/none"), std::nullopt);
  EXPECT_EQ(ReadKernelFile(root_).value_or(""), "");
}

}  // namespace
}  // namespace ringway::ctl
