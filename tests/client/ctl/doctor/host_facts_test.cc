#include "client/ctl/doctor/host_facts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace ringway::ctl {
namespace {

namespace fs = std::filesystem;

constexpr char kConf[] = "# why\n; or\n\n  net.ipv4.tcp_a = 0\nnet.ipv4.tcp_b=1 2\t3\nno setting\n";

class HostFactsTest : public testing::Test {
 protected:
  HostFactsTest() {
    std::string pattern = (fs::temp_directory_path() / "ringway_host_XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) root_ = pattern;
    files_ = {.proc = root_ + "/proc", .cgroup = root_ + "/cgroup", .root = root_};
    Write("proc/77/comm", "ringwayd\n");
  }
  ~HostFactsTest() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  void Write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path, std::ios::binary) << text;
  }
  HostFacts Facts() const { return HostFactsOf(files_, 77, kConf); }

  std::string root_;
  KernelFiles files_;
};

TEST_F(HostFactsTest, WantedSysctlsAreThoseOfTheFile) {
  const auto wanted = WantedSysctls(kConf);
  ASSERT_EQ(wanted.size(), 2U);
  EXPECT_EQ(wanted[0].name, "net.ipv4.tcp_a");
  EXPECT_EQ(wanted[1].wanted, "1 2 3");
}

TEST_F(HostFactsTest, ReadsTheKernelsFiles) {
  Write("proc/sys/net/ipv4/tcp_b", "4\t5\t6\n");
  Write("proc/sys/net/ipv4/tcp_available_congestion_control", "reno bbr\n");
  Write("proc/sys/net/ipv4/tcp_allowed_congestion_control", "reno\n");
  Write("proc/77/limits",
        "Limit  Soft Hard Units\nMax open files   1024   4096  files\nMax address space  unlimited  x\n");
  Write("proc/meminfo", "MemTotal:  16 kB\nMemAvailable:  8 kB\n");
  const HostFacts facts = Facts();
  EXPECT_FALSE(facts.sysctls[0].value.has_value());
  EXPECT_EQ(facts.sysctls[1].value, "4 5 6");
  EXPECT_EQ(facts.congestion.available, "reno bbr");
  EXPECT_EQ(facts.congestion.allowed, "reno");
  EXPECT_TRUE(facts.of_daemon);
  EXPECT_EQ(facts.descriptors, 1024U);
  EXPECT_FALSE(facts.address_space.has_value());
  EXPECT_EQ(facts.memory_bytes, 16U << 10);
  EXPECT_EQ(facts.memory_available, 8U << 10);
}

TEST_F(HostFactsTest, UnitsCountWhereSystemdRuns) {
  EXPECT_EQ(Facts().root, ::geteuid() == 0);
  Write("lib/systemd/system/ringwayd.service", "");
  EXPECT_FALSE(Facts().systemd);
  EXPECT_TRUE(Facts().units.empty());
  Write("run/systemd/system/x", "");
  EXPECT_TRUE(Facts().systemd);
  EXPECT_EQ(Facts().units, std::vector<std::string>{kDaemonProgram});
}

TEST_F(HostFactsTest, LowestLimitOfTheCgroupsAboveCounts) {
  Write("proc/77/cgroup", "0::/system.slice/ringwayd.service\n");
  Write("cgroup/system.slice/ringwayd.service/memory.max", "max\n");
  Write("cgroup/system.slice/memory.max", "5000\n");
  Write("cgroup/memory.max", "9000\n");
  EXPECT_EQ(Facts().cgroup_max, 5000U);
}

TEST_F(HostFactsTest, StrangeFilesGiveFewerFactsAndNoHarm) {
  const std::string endless(1 << 20, '0');
  for (const std::string& strange :
       {std::string(), std::string("\0\0\0", 3), std::string("\n\n\n"),
        std::string("MemTotal: kB\nMemAvailable: -1 kB\n"), std::string("0::/../../..\n"),
        std::string("0::\n1:name=systemd:/x"), std::string("Max open files"), std::string("Max open files \xff\xff"),
        std::string("MemTotal: 99999999999999999999999 kB\n"), std::string("MemTotal: 18446744073709551615 kB\n"),
        endless}) {
    for (const char* path : {"proc/meminfo", "proc/77/limits", "proc/77/cgroup", "proc/sys/net/ipv4/tcp_a",
                             "proc/sys/net/ipv4/tcp_available_congestion_control"}) {
      Write(path, strange);
    }
    const HostFacts facts = Facts();
    EXPECT_FALSE(facts.memory_bytes.has_value()) << strange.substr(0, 40);
    EXPECT_FALSE(facts.cgroup_max.has_value());
    EXPECT_FALSE(facts.of_daemon);
    EXPECT_TRUE(facts.descriptors.has_value()) << "of this process";
  }
}

TEST_F(HostFactsTest, DirectoriesInPlaceOfFilesDoNoHarm) {
  for (const char* path : {"proc/meminfo/x", "proc/77/limits/x", "proc/77/cgroup/x", "proc/sys/net/ipv4/tcp_a/x"}) {
    Write(path, "");
  }
  EXPECT_FALSE(Facts().memory_bytes.has_value());
}

TEST_F(HostFactsTest, PidOfAnotherProgramIsNotTheDaemon) {
  Write("proc/77/comm", "bash\n");
  Write("proc/77/limits", "Max open files   1024   4096  files\n");
  EXPECT_FALSE(Facts().of_daemon);
}

TEST_F(HostFactsTest, ModeOfAFileSaysWhetherTheDaemonsUserMayReadIt) {
  EXPECT_FALSE(UserOf(files_, 77).has_value());
  Write("proc/77/status", "Uid:\t1 2 3 4000001\nGid:\t1 2 3 4000002\nGroups:\t4000003 4000004 \n");
  const std::optional<User> user = UserOf(files_, 77);
  ASSERT_TRUE(user.has_value());
  EXPECT_EQ(user->uid, 4000001U);
  EXPECT_EQ(user->groups, (std::vector<gid_t>{4000003, 4000004, 4000002}));
  Write("key", "");
  const auto readable = [&](const User& who, unsigned mode) {
    fs::permissions(root_ + "/key", fs::perms(mode));
    return MayRead(who, root_ + "/key");
  };
  EXPECT_EQ(readable(*user, 0640), false);
  EXPECT_EQ(readable(*user, 0644), true);
  EXPECT_EQ(readable({.name = "", .uid = ::getuid() + 1, .groups = {::getgid()}}, 0640), true);
  EXPECT_EQ(readable({.name = "", .uid = ::getuid() + 1, .groups = {::getgid()}}, 0604), false);
  EXPECT_EQ(readable({.name = "", .uid = 0, .groups = {}}, 0), true);
  EXPECT_FALSE(MayRead(*user, root_ + "/none").has_value());
  Write("proc/77/status", "Uid:\t-1 x\nGid: 1 2 3 99999999999\n");
  EXPECT_FALSE(UserOf(files_, 77).has_value());
}

TEST_F(HostFactsTest, JournalIsFoundWhereAMasterKeepsIt) {
  EXPECT_EQ(FindJournal({root_ + "/none", root_ + "/proc"}), "");
  Write("state/master-7400.db", "");
  Write("state/master-7400.db-wal", "");
  Write("state/other.db", "");
  EXPECT_EQ(FindJournal({root_ + "/none", root_ + "/proc", root_ + "/state"}), root_ + "/state/master-7400.db");
  EXPECT_EQ(StateDirectories().back(), "/var/lib/ringway");
  if (::geteuid() == 0) return;  // whom no mode stops
  fs::permissions(root_ + "/state", fs::perms::none);
  EXPECT_EQ(FindJournal({root_ + "/state"}), root_ + "/state/");
  EXPECT_TRUE(ProbeJournal(root_ + "/state/", std::chrono::seconds(60)).hidden);
  fs::permissions(root_ + "/state", fs::perms::owner_all);
}

TEST_F(HostFactsTest, JournalProbeLeavesNothingBehind) {
  const JournalFacts facts = ProbeJournal(root_ + "/journal.db", std::chrono::seconds(60));
  EXPECT_TRUE(facts.probe.ok()) << facts.probe.text();
  EXPECT_GT(facts.free_bytes, 0U);
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1) << "proc alone";
}

TEST_F(HostFactsTest, JournalProbeSaysWhereNothingCanBeWritten) {
  EXPECT_EQ(ProbeJournal(root_ + "/nowhere/journal.db", std::chrono::seconds(60)).probe.code(), Code::kIo);
  Write("file", "");
  EXPECT_EQ(ProbeJournal(root_ + "/file/journal.db", std::chrono::seconds(60)).probe.code(), Code::kIo);
}

}  // namespace
}  // namespace ringway::ctl
