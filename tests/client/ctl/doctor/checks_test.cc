#include "client/ctl/doctor/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/ctl/doctor/healthy.h"

namespace ringway::ctl {
namespace {

using testing::HasSubstr;
using tls::CredentialFault;

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

TEST(DoctorTest, HealthyHostHasNothingThatHurts) {
  for (const Finding& finding : Diagnose(Healthy())) {
    EXPECT_EQ(finding.level, Level::kOk) << finding.check << ": " << finding.what;
    EXPECT_EQ(finding.remedy, "");
  }
}

TEST(DoctorTest, EmptyFactsOnlySkip) {
  for (const Finding& finding : Diagnose(Facts())) EXPECT_EQ(finding.level, Level::kSkip) << finding.what;
}

TEST(CertificateCheckTest, RefusedFilesFailWithTheRemedyOfTheirFault) {
  const std::pair<CredentialFault, const char*> remedies[] = {{CredentialFault::kFiles, "ringwayctl certs issue"},
                                                              {CredentialFault::kKeyExposed, "chmod o= a.key"},
                                                              {CredentialFault::kReplaceable, "chmod o-w"},
                                                              {CredentialFault::kKeyOfAnother, "certs issue"},
                                                              {CredentialFault::kNoIdentity, "certs issue"},
                                                              {CredentialFault::kOtherRole, "--tls-cert"},
                                                              {CredentialFault::kAuthority, "ca.pem of the authority"},
                                                              {CredentialFault::kExpired, "systemctl reload ringwayd"},
                                                              {CredentialFault::kNotYetValid, "timedatectl"}};
  for (const auto& [fault, remedy] : remedies) {
    Facts facts = Healthy();
    facts.certificates[0].outcome = {Code::kInvalidArgument, "a.pem is odd"};
    facts.certificates[0].fault = fault;
    const Finding finding = Worst(facts, "certificates");
    EXPECT_EQ(finding.level, Level::kFail);
    EXPECT_THAT(finding.what, HasSubstr("ringwayd: a.pem is odd"));
    EXPECT_THAT(finding.remedy, HasSubstr(remedy));
  }
}

TEST(CertificateCheckTest, FileThatThisUserMayNotReadIsSkippedAndOneOfTheProgramsFails) {
  Facts facts = Healthy();
  facts.certificates[0].denied = "uid 998";
  facts.certificates[0].denied_group = 997;
  EXPECT_EQ(Worst(facts, "certificates").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "certificates").remedy, HasSubstr("chgrp 997 a.key; chmod 640 a.key"));
  facts.certificates[0].outcome = {Code::kInvalidArgument, "cannot read a.key"};
  facts.certificates[0].hidden = "a.key";
  EXPECT_EQ(Worst(facts, "certificates").level, Level::kSkip);
  EXPECT_THAT(Worst(facts, "certificates").what, HasSubstr("run as root"));
}

TEST(CertificateCheckTest, WarnsBeforeTheEndAndFailsBehindIt) {
  Facts facts = Healthy();
  facts.certificates[0].days_left = 30;
  EXPECT_EQ(Worst(facts, "certificates").level, Level::kOk);
  facts.certificates[0].days_left = 29;
  EXPECT_EQ(Worst(facts, "certificates").level, Level::kWarn);
  facts.certificates[0].days_left = -1;
  EXPECT_EQ(Worst(facts, "certificates").level, Level::kFail);
}

TEST(CertificateCheckTest, RunningProgramThatDidNotReadItsNewFilesIsToReload) {
  Facts facts = Healthy();
  facts.certificates.push_back(facts.certificates[0]);
  facts.certificates[1].running = true;
  facts.certificates[1].days_left = 2;
  EXPECT_THAT(Worst(facts, "certificates").what, HasSubstr("running ringwayd: daemon a until"));
  EXPECT_THAT(Worst(facts, "certificates").remedy, HasSubstr("systemctl reload ringwayd (its files"));
  facts.certificates[0].days_left = 1;
  EXPECT_THAT(Worst(facts, "certificates").remedy, HasSubstr("certs issue NAME --role daemon"));
}

TEST(CertificateCheckTest, NewOneIsForWhomTheOldOneIs) {
  Facts facts = Healthy();
  facts.certificates[0].whose = "ringwayctl";
  facts.certificates[0].days_left = 3;
  EXPECT_THAT(Worst(facts, "certificates").remedy,
              HasSubstr("issue NAME --role operator --dir DIR --out NEW; copy NEW/* here"));
  facts.certificates[0].old = Identity{.role = ProcessRole::kDaemon, .name = "b"};
  EXPECT_THAT(Worst(facts, "certificates").remedy,
              HasSubstr("issue b --role daemon --dir DIR --out NEW; copy NEW/* over a.pem"));
  facts.certificates[0].fault = CredentialFault::kOtherRole;
  facts.certificates[0].outcome = {Code::kInvalidArgument, "a.pem is of a daemon"};
  EXPECT_THAT(Worst(facts, "certificates").remedy, HasSubstr("issue b --role operator"));
}

TEST(CertificateCheckTest, NoneIsFineWithinTheHostOnly) {
  Facts facts = Healthy();
  facts.certificates[0].identity = "";
  EXPECT_EQ(Worst(facts, "certificates").level, Level::kOk);
  facts.certificates[0].insecure = true;
  EXPECT_EQ(Worst(facts, "certificates").level, Level::kWarn);
}

TEST(ConfigCheckTest, FileThatCannotBeReadOrThatTheProgramRefusesFails) {
  Facts facts = Healthy();
  facts.configs[0].accepted = {Code::kInvalidArgument, "ringwayd: --lanes: 0 is too few"};
  EXPECT_EQ(Worst(facts, "config").level, Level::kFail);
  EXPECT_EQ(Worst(facts, "config").what, "ringwayd: --lanes: 0 is too few");
  facts.configs[0].accepted.reset();
  EXPECT_EQ(Worst(facts, "config").level, Level::kSkip);
  facts.configs[0].outcome = {Code::kInvalidArgument, "there is no x.toml"};
  EXPECT_EQ(Worst(facts, "config").level, Level::kFail);
}

TEST(ConfigCheckTest, FileThatThisUserMayNotReadIsSkipped) {
  Facts facts = Healthy();
  facts.configs[0].outcome = {Code::kInvalidArgument, "cannot read it"};
  facts.configs[0].hidden = true;
  EXPECT_EQ(Worst(facts, "config").level, Level::kSkip);
  EXPECT_EQ(Worst(facts, "config").what, "this user may not read /etc/ringway/ringwayd.toml: run as root");
}

TEST(MasterCheckTest, WithoutAnswerFailsWhereItIsExpected) {
  Facts facts = Healthy();
  facts.master->outcome = {Code::kMasterUnreachable, "no master at 10.0.0.1:7400"};
  EXPECT_EQ(Worst(facts, "master").level, Level::kFail);
  EXPECT_EQ(Worst(facts, "clock").level, Level::kSkip);
  facts.master->expected = false;
  EXPECT_EQ(Worst(facts, "master").level, Level::kWarn);
}

TEST(MasterCheckTest, WhoRefusesOurCertificateIsNotToBeStarted) {
  Facts facts = Healthy();
  for (const Code code : {Code::kIo, Code::kProtocol}) {
    facts.master->outcome = {code, "master at 10.0.0.1:7400: it refuses: unknown ca"};
    EXPECT_EQ(Worst(facts, "master").level, Level::kFail);
    EXPECT_THAT(Worst(facts, "master").remedy, HasSubstr("ringwayctl certs show"));
  }
}

TEST(MasterCheckTest, WhoHasNoCertificateDoesNotBlameTheMaster) {
  Facts facts = Healthy();
  facts.master->outcome = {Code::kInvalidArgument, "no certificate"};
  facts.master->locked_out = true;
  EXPECT_EQ(Worst(facts, "master").level, Level::kSkip);
}

TEST(MasterCheckTest, PendingPeersAreNamedWithTheirReason) {
  Facts facts = Healthy();
  facts.master->pending = {{.group = "g", .name = "c", .why = "peer b cannot reach it"}};
  EXPECT_EQ(Worst(facts, "master").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "master").what, HasSubstr("peer c is not in group g yet: peer b cannot reach it"));
}

TEST(DaemonCheckTest, WithoutAnswerOrMasterFails) {
  Facts facts = Healthy();
  facts.daemon->master_connected = false;
  EXPECT_THAT(Worst(facts, "daemon").what, HasSubstr("no connection to its master at 10.0.0.1:7400"));
  EXPECT_EQ(Worst(facts, "daemon").level, Level::kFail);
  facts.daemon->outcome = {Code::kDaemonUnreachable, "no daemon there"};
  EXPECT_EQ(Worst(facts, "daemon").what, "no daemon there");
  EXPECT_EQ(Worst(facts, "daemon").level, Level::kFail);
  facts.daemon->expected = false;
  EXPECT_EQ(Worst(facts, "daemon").level, Level::kWarn);
}

TEST(DaemonCheckTest, SocketThatThisUserMayNotUseIsNotToBeStarted) {
  Facts facts = Healthy();
  facts.daemon->denied = true;
  facts.daemon->outcome = {Code::kIo, "no permission to connect"};
  EXPECT_EQ(Worst(facts, "daemon").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "daemon").what, HasSubstr("may not connect to /run/ringway/ringwayd.sock"));
  EXPECT_THAT(Worst(facts, "daemon").remedy, HasSubstr("--socket-mode"));
}

TEST(RemedyTest, UnitsAreNamedOnlyWhereTheyAre) {
  Facts facts = Healthy();
  facts.daemon->outcome = {Code::kDaemonUnreachable, "no daemon there"};
  facts.daemon->descriptors = 100;
  facts.daemon->memory_max = 99 * kGib;
  facts.host.cgroup_max = facts.host.address_space = kGib;
  facts.certificates[0].days_left = 3;
  facts.master->clock_ahead_s = 99;
  const auto commands = [&facts] {
    int count = 0;
    for (const Finding& finding : Diagnose(facts)) {
      for (const char* command : {"systemctl", "journalctl", "timedatectl", "in the unit"}) {
        if (finding.remedy.find(command) != std::string::npos) ++count;
      }
    }
    return count;
  };
  EXPECT_EQ(commands(), 8);
  facts.host.units.clear();
  facts.host.systemd = false;
  EXPECT_EQ(commands(), 0);
  EXPECT_THAT(Worst(facts, "daemon").remedy, HasSubstr("start ringwayd; it says on standard error"));
  EXPECT_THAT(Worst(facts, "certificates").remedy, HasSubstr("send SIGHUP to reload ringwayd"));
}

TEST(RemedyTest, UserWhoMayNotIsToldToBeRoot) {
  Facts facts = Healthy();
  facts.host.sysctls[0].value = "1";
  EXPECT_THAT(Worst(facts, "sysctl").remedy, testing::StartsWith("sysctl -w"));
  facts.host.root = false;
  EXPECT_THAT(Worst(facts, "sysctl").remedy, testing::StartsWith("as root: sysctl -w"));
}

TEST(DaemonCheckTest, DaemonOfAnotherReleaseIsNotToBeStarted) {
  Facts facts = Healthy();
  facts.daemon->outcome = {Code::kVersionMismatch, "it speaks version 4"};
  EXPECT_EQ(Worst(facts, "daemon").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "daemon").remedy, HasSubstr("the same release"));
}

TEST(DaemonCheckTest, WarnsWhereTheMasterIsAnother) {
  Facts facts = Healthy();
  facts.master->daemons[0].connected = false;
  EXPECT_EQ(Worst(facts, "daemon").level, Level::kWarn);
}

TEST(VersionCheckTest, OtherReleaseWarnsAndOtherProtocolFails) {
  Facts facts = Healthy();
  facts.master->version = "1.2.4";
  facts.master->protocol = ProtocolRange{.min = 6, .max = 7};
  EXPECT_EQ(Worst(facts, "versions").level, Level::kWarn);
  facts.master->protocol = ProtocolRange{.min = 7, .max = 7};
  EXPECT_EQ(Worst(facts, "versions").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "versions").what, HasSubstr("ringway-master 1.2.4 speaks protocol 7"));
  facts.master->protocol.reset();
  EXPECT_EQ(Worst(facts, "versions").level, Level::kWarn);
}

TEST(ClockCheckTest, WarnsFromTenSecondsAndFailsFromTenMinutes) {
  for (const std::int64_t sign : {-1, 1}) {
    Facts facts = Healthy();
    facts.master->clock_ahead_s = sign * 9;
    EXPECT_EQ(Worst(facts, "clock").level, Level::kOk);
    facts.master->clock_ahead_s = sign * 10;
    EXPECT_EQ(Worst(facts, "clock").level, Level::kWarn);
    facts.master->clock_ahead_s = sign * 600;
    EXPECT_EQ(Worst(facts, "clock").level, Level::kFail);
    EXPECT_THAT(Worst(facts, "clock").what, HasSubstr(sign < 0 ? "600 s behind" : "600 s ahead of"));
  }
}

TEST(ClockCheckTest, ExtremeTimeIsNoFaultOfOurs) {
  Facts facts = Healthy();
  facts.master->clock_ahead_s = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(Worst(facts, "clock").level, Level::kFail);
}

TEST(PortCheckTest, EachWayToFailHasItsRemedy) {
  const std::pair<DialFacts::Outcome, const char*> remedies[] = {{DialFacts::Outcome::kRefused, "start ringwayd there"},
                                                                 {DialFacts::Outcome::kTimeout, "firewalls"},
                                                                 {DialFacts::Outcome::kFailed, "routes"}};
  for (const auto& [outcome, remedy] : remedies) {
    Facts facts = Healthy();
    facts.dials[0].outcome = outcome;
    EXPECT_EQ(Worst(facts, "ports").level, Level::kFail);
    EXPECT_THAT(Worst(facts, "ports").remedy, HasSubstr(remedy));
    EXPECT_EQ(Worst(facts, "mtu").level, Level::kSkip);
  }
}

TEST(PortCheckTest, MasterIsNotToBeMendedAsADaemon) {
  Facts facts = Healthy();
  facts.dials[0].who = kTheMaster;
  facts.dials[0].outcome = DialFacts::Outcome::kRefused;
  EXPECT_THAT(Worst(facts, "ports").remedy, HasSubstr("start ringway-master there"));
  facts.dials[0].outcome = DialFacts::Outcome::kTimeout;
  EXPECT_THAT(Worst(facts, "ports").remedy, HasSubstr("--master"));
}

TEST(PortCheckTest, WhoCannotBeDialledButDialsIsFine) {
  Facts facts = Healthy();
  facts.dials[0].outcome = DialFacts::Outcome::kTimeout;
  facts.daemon->members = {{.name = "b", .address = facts.dials[0].address, .connected = true}};
  EXPECT_EQ(Worst(facts, "ports").level, Level::kOk) << Worst(facts, "ports").what;
  facts.daemon->members[0].address = "10.0.0.9:7401";
  EXPECT_EQ(Worst(facts, "ports").level, Level::kFail);
}

TEST(PortCheckTest, LinksProveTheWayBackAndOtherwiseItIsLeftOpen) {
  Facts facts = Healthy();
  facts.daemon->pairs[0].lanes_up = 0;
  EXPECT_EQ(Worst(facts, "ports").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "ports").what, HasSubstr("no lane to b of group g"));
  facts.daemon->pairs.clear();
  EXPECT_EQ(Worst(facts, "ports").level, Level::kSkip);
  EXPECT_THAT(Worst(facts, "ports").what, HasSubstr("run ringwayctl doctor there"));
}

TEST(PortCheckTest, SaysHowManyWereNotDialled) {
  Facts facts = Healthy();
  facts.dials_left_out = 3;
  EXPECT_THAT(Worst(facts, "ports").what, HasSubstr("3 more daemons"));
}

TEST(MtuCheckTest, BlackHoleFailsAndUnmeasuredIsSkipped) {
  Facts facts = Healthy();
  facts.dials[0].full_arrives = false;
  EXPECT_EQ(Worst(facts, "mtu").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "mtu").remedy, HasSubstr("tcp_mtu_probing"));
  facts.dials[0].full_arrives.reset();
  EXPECT_EQ(Worst(facts, "mtu").level, Level::kSkip);
  facts.dials[0].within_host = true;
  EXPECT_EQ(Worst(facts, "mtu").what, "no path to another host is known");
}

TEST(MtuCheckTest, MasterThatIsReachedAndSilentMayBeBehindABlackHole) {
  Facts facts = Healthy();
  facts.master->outcome = {Code::kTimeout, "no answer in time"};
  EXPECT_EQ(Worst(facts, "mtu").level, Level::kWarn);
  facts.master->within_host = true;
  EXPECT_EQ(Worst(facts, "mtu").level, Level::kOk);
}

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

TEST(JournalCheckTest, OneThatAMasterLeftIsLookedAtAsWell) {
  Facts facts = Healthy();
  facts.master->outcome = {Code::kMasterUnreachable, "no master there"};
  facts.journal->left = true;
  EXPECT_EQ(Worst(facts, "journal").level, Level::kOk);
  EXPECT_THAT(Worst(facts, "journal").what, HasSubstr("(of a master that does not answer)"));
  facts.journal->free_bytes = 1 << 20;
  EXPECT_EQ(Worst(facts, "journal").level, Level::kFail);
}

}  // namespace
}  // namespace ringway::ctl
