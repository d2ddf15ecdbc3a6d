#include "client/ctl/doctor/host_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/ctl/doctor/healthy.h"

namespace ringway::ctl {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

TEST(SysctlCheckTest, SingleValueIsToBeTheSame) {
  Facts facts = Healthy();
  facts.host.sysctls[0].value = "1";
  EXPECT_EQ(Worst(facts, "sysctl").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "sysctl").remedy, HasSubstr("sysctl -w net.ipv4.tcp_slow_start_after_idle='0'"));
}

TEST(SysctlCheckTest, LargestOfSeveralCounts) {
  for (const char* value : {"4096 131072 67108863", "67108864", "", "a b c", "4096 131072 -1", "1 2 3 67108864",
                            "4096 131072 99999999999999999999999999"}) {
    Facts facts = Healthy();
    facts.host.sysctls[1].value = value;
    EXPECT_EQ(Worst(facts, "sysctl").level, Level::kWarn) << value;
  }
  Facts facts = Healthy();
  facts.host.sysctls[1].value = "1 2 67108865";
  EXPECT_EQ(Worst(facts, "sysctl").level, Level::kOk);
}

TEST(SysctlCheckTest, WhatCannotBeReadOrIsOfAnotherNetworkIsSkipped) {
  Facts facts = Healthy();
  facts.host.sysctls[0].value.reset();
  EXPECT_EQ(Worst(facts, "sysctl").level, Level::kSkip);
  facts.host.sysctls[1].value = "1 2 3";
  facts.host.other_network = true;
  facts.daemon->pid = 77;
  EXPECT_EQ(Worst(facts, "sysctl").level, Level::kSkip);
  EXPECT_THAT(Worst(facts, "sysctl").what, HasSubstr("nsenter -t 77 -n"));
}

TEST(CongestionCheckTest, MissingBbrWarnsAndMissingChoiceFails) {
  Facts facts = Healthy();
  facts.host.congestion = {.wanted = "", .available = "reno cubic", .allowed = "reno cubic"};
  EXPECT_EQ(Worst(facts, "congestion").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "congestion").remedy, HasSubstr("modprobe tcp_bbr"));
  facts.host.congestion.wanted = "bbr";
  EXPECT_EQ(Worst(facts, "congestion").level, Level::kFail);
  facts.host.congestion.available = "reno cubic bbr2 bbr";
  EXPECT_EQ(Worst(facts, "congestion").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "congestion").remedy, HasSubstr("tcp_allowed_congestion_control='reno cubic bbr'"));
  facts.host.congestion.wanted = "cubic";
  EXPECT_EQ(Worst(facts, "congestion").level, Level::kOk);
  facts.host.congestion = {};
  EXPECT_EQ(Worst(facts, "congestion").level, Level::kSkip);
}

TEST(DescriptorCheckTest, FewWarnAndVeryFewFail) {
  Facts facts = Healthy();
  facts.daemon->descriptors = 1385;
  EXPECT_EQ(Worst(facts, "descriptors").level, Level::kWarn);
  facts.daemon->descriptors = 255;
  EXPECT_EQ(Worst(facts, "descriptors").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "descriptors").remedy, HasSubstr("LimitNOFILE"));
}

TEST(DescriptorCheckTest, WarnsWhereLanesHaveAllTheyMay) {
  Facts facts = Healthy();
  facts.daemon->lanes = facts.daemon->lanes_max;
  EXPECT_EQ(Worst(facts, "descriptors").level, Level::kWarn);
}

TEST(DescriptorCheckTest, WithoutDaemonTheLimitIsThatOfThisShell) {
  Facts facts = Healthy();
  facts.daemon.reset();
  EXPECT_EQ(Worst(facts, "descriptors").level, Level::kSkip);
  facts.host.descriptors = 100;
  EXPECT_EQ(Worst(facts, "descriptors").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "descriptors").what, HasSubstr("started from here"));
}

TEST(MemoryCheckTest, BudgetHasToFitIntoHostCgroupAndAddressSpace) {
  const auto level = [](auto&& change) {
    Facts facts = Healthy();  // 8 GiB of 16
    change(facts.host);
    return Worst(facts, "memory").level;
  };
  EXPECT_EQ(level([](HostFacts& host) { host.memory_bytes = 7 * kGib; }), Level::kFail);
  EXPECT_EQ(level([](HostFacts& host) { host.cgroup_max = 7 * kGib; }), Level::kFail);
  EXPECT_EQ(level([](HostFacts& host) { host.cgroup_max = 9 * kGib; }), Level::kWarn);
  EXPECT_EQ(level([](HostFacts& host) { host.cgroup_max = 10 * kGib; }), Level::kOk);
  EXPECT_EQ(level([](HostFacts& host) { host.address_space = kGib; }), Level::kFail);
  EXPECT_EQ(level([](HostFacts& host) { host.memory_available = 7 * kGib; }), Level::kWarn);
}

TEST(MemoryCheckTest, WhatTheDaemonHasAlreadyCountsAsRoom) {
  Facts facts = Healthy();
  facts.host.memory_available = 3 * kGib;
  facts.daemon->memory_used = 5 * kGib;
  EXPECT_EQ(Worst(facts, "memory").level, Level::kOk);
}

TEST(MemoryCheckTest, ExtremeBudgetsOverflowNothing) {
  Facts facts = Healthy();
  facts.daemon->memory_max = ~std::uint64_t{0};
  facts.daemon->memory_used = ~std::uint64_t{0};
  facts.host.cgroup_max = ~std::uint64_t{0} - 1;
  EXPECT_EQ(Worst(facts, "memory").level, Level::kFail);
}

TEST(MemoryCheckTest, ConfigFileSaysTheBudgetOfADaemonThatDoesNotRun) {
  Facts facts = Healthy();
  facts.daemon.reset();
  EXPECT_EQ(Worst(facts, "memory").level, Level::kSkip);
  facts.host.memory_max = 32 * kGib;
  EXPECT_EQ(Worst(facts, "memory").level, Level::kFail);
}

TEST(JournalCheckTest, StateThatTheMasterTellsComesFirst) {
  Facts facts = Healthy();
  facts.master->journal = "none";
  EXPECT_EQ(Worst(facts, "journal").level, Level::kWarn);
  facts.master->journal = "database or disk is full";
  EXPECT_EQ(Worst(facts, "journal").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "journal").what, HasSubstr("disk is full"));
}

TEST(JournalCheckTest, DiskHasToTakeWritesSoonAndToHaveRoom) {
  const auto level = [](auto&& change) {
    Facts facts = Healthy();
    change(*facts.journal);
    return Worst(facts, "journal").level;
  };
  EXPECT_EQ(level([](JournalFacts& journal) { journal.probe = {Code::kIo, "read-only"}; }), Level::kFail);
  EXPECT_EQ(level([](JournalFacts& journal) { journal.hidden = true; }), Level::kSkip);
  EXPECT_EQ(level([](JournalFacts& journal) { journal.free_bytes = 1 << 20; }), Level::kFail);
  EXPECT_EQ(level([](JournalFacts& journal) { journal.free_bytes = 100 << 20; }), Level::kWarn);
  EXPECT_EQ(level([](JournalFacts& journal) { journal.free_bytes.reset(); }), Level::kOk);
  EXPECT_EQ(level([](JournalFacts& journal) { journal.in_memory = true; }), Level::kWarn);
  EXPECT_EQ(level([](JournalFacts& journal) { journal.sync_us = 5'000'000; }), Level::kWarn);
  EXPECT_EQ(level([](JournalFacts& journal) { journal.path = ""; }), Level::kSkip);
}

}  // namespace
}  // namespace ringway::ctl
