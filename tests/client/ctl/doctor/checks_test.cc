#include "client/ctl/doctor/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/client/ctl/doctor/healthy.h"

namespace ringway::ctl {
namespace {

using testing::HasSubstr;
using tls::CredentialFault;

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

TEST(CertificateCheckTest, FileThatThisUserMayNotReadIsSkipped) {
  Facts facts = Healthy();
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

TEST(CertificateCheckTest, RunningProgramsIsJudgedAsThatOfItsFiles) {
  Facts facts = Healthy();
  facts.certificates.push_back(facts.certificates[0]);
  facts.certificates[1].running = true;
  facts.certificates[1].days_left = 2;
  EXPECT_THAT(Worst(facts, "certificates").what, HasSubstr("running ringwayd: daemon a until"));
  EXPECT_THAT(Worst(facts, "certificates").remedy, HasSubstr("certs issue NAME --role daemon"));
  EXPECT_THAT(Worst(facts, "certificates").remedy, HasSubstr("systemctl reload ringwayd"));
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
  facts.master.outcome = {Code::kMasterUnreachable, "no master at 10.0.0.1:7400"};
  facts.master.status = {};
  EXPECT_EQ(Worst(facts, "master").level, Level::kFail);
  EXPECT_EQ(Worst(facts, "clock").level, Level::kSkip);
  facts.master.expected = false;
  EXPECT_EQ(Worst(facts, "master").level, Level::kWarn);
}

TEST(MasterCheckTest, WhoRefusesOurCertificateIsNotToBeStarted) {
  Facts facts = Healthy();
  for (const Code code : {Code::kIo, Code::kProtocol}) {
    facts.master.outcome = {code, "master at 10.0.0.1:7400: it refuses: unknown ca"};
    facts.master.status = {};
    EXPECT_EQ(Worst(facts, "master").level, Level::kFail);
    EXPECT_THAT(Worst(facts, "master").remedy, HasSubstr("ringwayctl certs show"));
  }
}

TEST(MasterCheckTest, WhoHasNoCertificateDoesNotBlameTheMaster) {
  Facts facts = Healthy();
  facts.master.outcome = {Code::kInvalidArgument, "no certificate"};
  facts.master.status = {};
  facts.master.locked_out = true;
  EXPECT_EQ(Worst(facts, "master").level, Level::kSkip);
}

TEST(MasterCheckTest, EachOfSeveralIsJudgedAndOneHasToLead) {
  Facts facts = Healthy();
  facts.other_masters = {
      {.place = "10.0.0.2:7400", .outcome = {}, .status = Json::parse(R"({"master": {"role": "standby"}})")},
      {.place = "10.0.0.3:7400", .outcome = {Code::kMasterUnreachable, "no master at 10.0.0.3:7400"}, .status = {}}};
  facts.master.status["master"]["role"] = "leader";
  EXPECT_EQ(Worst(facts, "master").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "master").what, HasSubstr("10.0.0.3:7400"));
  EXPECT_THAT(Worst(facts, "master").remedy, HasSubstr("start ringway-master on its host"));
  facts.master.status["master"]["role"] = "standby";
  facts.master.status["master"]["leader"] = "10.0.0.1:7400";
  EXPECT_EQ(Worst(facts, "master").level, Level::kFail)
      << "what others say of a leader that does not say so itself is past";
  EXPECT_THAT(Worst(facts, "master").what, HasSubstr("no master leads now"));
  facts.other_masters.clear();
  EXPECT_EQ(Worst(facts, "master").level, Level::kOk);
  EXPECT_THAT(Worst(facts, "master").what, HasSubstr("stands by, and the one at 10.0.0.1:7400 leads"));
  facts.master.status["master"]["leader"] = "";
  EXPECT_EQ(Worst(facts, "master").level, Level::kFail);
}

TEST(MasterCheckTest, PendingPeersAreNamedWithTheirReason) {
  Facts facts = Healthy();
  facts.master.status["groups"] =
      Json::parse(R"([{"name": "g", "peers": [{"name": "c", "state": "pending", "why": "peer b cannot reach it"}]}])");
  EXPECT_EQ(Worst(facts, "master").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "master").what, HasSubstr("peer c is not in group g yet: peer b cannot reach it"));
}

TEST(DaemonCheckTest, WithoutAnswerOrMasterFails) {
  Facts facts = Healthy();
  facts.daemon.status["daemon"]["master_connected"] = false;
  EXPECT_THAT(Worst(facts, "daemon").what, HasSubstr("no connection to its master at 10.0.0.1:7400"));
  EXPECT_EQ(Worst(facts, "daemon").level, Level::kFail);
  facts.daemon.outcome = {Code::kDaemonUnreachable, "no daemon there"};
  facts.daemon.status = {};
  EXPECT_EQ(Worst(facts, "daemon").what, "no daemon there");
  EXPECT_EQ(Worst(facts, "daemon").level, Level::kFail);
  facts.daemon.expected = false;
  EXPECT_EQ(Worst(facts, "daemon").level, Level::kWarn);
}

TEST(DaemonCheckTest, SocketThatThisUserMayNotUseIsNotToBeStarted) {
  Facts facts = Healthy();
  facts.daemon.denied = true;
  facts.daemon.outcome = {Code::kIo, "no permission to connect"};
  facts.daemon.status = {};
  EXPECT_EQ(Worst(facts, "daemon").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "daemon").what, HasSubstr("may not connect to /run/ringway/ringwayd.sock"));
  EXPECT_THAT(Worst(facts, "daemon").remedy, HasSubstr("--socket-mode"));
}

TEST(RemedyTest, WithoutThreadsToLookNoProgramIsBlamed) {
  Facts facts = Healthy();
  facts.master.no_thread = facts.daemon.no_thread = true;
  facts.configs[0].no_thread = facts.certificates[0].no_thread = true;
  facts.dials[0].outcome = DialFacts::Outcome::kNoThread;
  facts.master.status = facts.daemon.status = {};
  for (const char* check : {"config", "certificates", "master", "daemon", "ports"}) {
    EXPECT_EQ(Worst(facts, check).level, Level::kFail);
    EXPECT_THAT(Worst(facts, check).remedy, HasSubstr("ulimit -u"));
  }
}

TEST(DaemonCheckTest, UserWhoseShareIsTakenLacksNoThreads) {
  Facts facts = Healthy();
  facts.daemon.outcome = {Code::kResourceExhausted, "user 7 has all its sessions"};
  facts.daemon.status = {};
  EXPECT_EQ(Worst(facts, "daemon").what, "user 7 has all its sessions");
  EXPECT_THAT(Worst(facts, "daemon").remedy, HasSubstr("end trainers"));
}

TEST(RemedyTest, UnitsAreNamedOnlyWhereTheyAre) {
  Facts silent = Healthy();
  silent.daemon.outcome = {Code::kDaemonUnreachable, "no daemon there"};
  silent.daemon.status = {};
  silent.host.descriptors = 100;
  silent.certificates[0].days_left = 3;
  silent.master.clock_ahead_s = 99;
  Facts narrow = Healthy();
  SetCgroup(&narrow, "1000");
  const auto commands = [&] {
    int count = 0;
    for (const Facts& facts : {silent, narrow}) {
      for (const Finding& finding : Diagnose(facts)) {
        for (const char* command : {"systemctl", "journalctl", "timedatectl", "in the unit"}) {
          if (finding.remedy.find(command) != std::string::npos) ++count;
        }
      }
    }
    return count;
  };
  EXPECT_EQ(commands(), 7);
  silent.host.systemd = narrow.host.systemd = false;
  EXPECT_EQ(commands(), 0);
  EXPECT_THAT(Worst(silent, "daemon").remedy, HasSubstr("start ringwayd; it says on standard error"));
  EXPECT_THAT(Worst(silent, "certificates").remedy, HasSubstr("send SIGHUP to reload ringwayd"));
}

TEST(RemedyTest, ProgramThatDoesNotAnswerIsNotToBeStarted) {
  Facts facts = Healthy();
  facts.daemon.outcome = facts.master.outcome = Status(Code::kTimeout, "it did not answer in time");
  facts.daemon.status = facts.master.status = nullptr;
  for (const char* check : {"daemon", "master"}) {
    EXPECT_EQ(Worst(facts, check).level, Level::kFail);
    EXPECT_THAT(Worst(facts, check).remedy, HasSubstr("kill -CONT"));
    EXPECT_THAT(Worst(facts, check).remedy, Not(HasSubstr("start")));
  }
}

TEST(RemedyTest, RemedyForRootSaysSoToOtherUsers) {
  Facts facts = Healthy();
  SetFile(&facts, "/proc/sys/net/ipv4/tcp_slow_start_after_idle", "1\n");
  EXPECT_THAT(Worst(facts, "sysctl").remedy, testing::StartsWith("sysctl -w"));
  facts.host.root = false;
  EXPECT_THAT(Worst(facts, "sysctl").remedy, testing::StartsWith("as root: sysctl -w"));
}

TEST(DaemonCheckTest, DaemonOfAnotherReleaseIsNotToBeStarted) {
  Facts facts = Healthy();
  facts.daemon.outcome = {Code::kVersionMismatch, "it speaks version 4"};
  facts.daemon.status = {};
  EXPECT_EQ(Worst(facts, "daemon").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "daemon").remedy, HasSubstr("the same release"));
}

TEST(VersionCheckTest, OtherReleaseWarnsAndOtherProtocolFails) {
  Facts facts = Healthy();
  Json& master = facts.master.status["master"];
  master["version"] = "1.2.4";
  master["protocol"] = {6U, 7U};
  EXPECT_EQ(Worst(facts, "versions").level, Level::kWarn);
  master["protocol"] = {7U, 7U};
  EXPECT_EQ(Worst(facts, "versions").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "versions").what, HasSubstr("ringway-master 1.2.4 speaks protocol 7"));
  master.erase("protocol");
  EXPECT_EQ(Worst(facts, "versions").level, Level::kWarn);
}

TEST(VersionCheckTest, DaemonAndMasterThatShareNoProtocolFail) {
  Facts facts = Healthy();
  facts.daemon.status["daemon"]["protocol"] = {5U, 5U};
  facts.master.status["master"]["protocol"] = {6U, 6U};
  EXPECT_EQ(Worst(facts, "versions").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "versions").what, HasSubstr("ringway-master 1.2.3 speaks protocol 6, ringwayd 1.2.3 5"));
}

TEST(ClockCheckTest, WarnsFromTenSecondsAndFailsFromTenMinutes) {
  for (const std::int64_t sign : {-1, 1}) {
    Facts facts = Healthy();
    facts.master.clock_ahead_s = sign * 9;
    EXPECT_EQ(Worst(facts, "clock").level, Level::kOk);
    facts.master.clock_ahead_s = sign * 10;
    EXPECT_EQ(Worst(facts, "clock").level, Level::kWarn);
    facts.master.clock_ahead_s = sign * 600;
    EXPECT_EQ(Worst(facts, "clock").level, Level::kFail);
    EXPECT_THAT(Worst(facts, "clock").what, HasSubstr(sign < 0 ? "600 s behind" : "600 s ahead of"));
  }
}

TEST(ClockCheckTest, ExtremeTimeIsNoFaultOfOurs) {
  Facts facts = Healthy();
  facts.master.clock_ahead_s = std::numeric_limits<std::int64_t>::min();
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
  Json& group = facts.daemon.status["groups"][0];
  group["members"] = {{{"peer_id", 2}, {"name", "b"}, {"address", facts.dials[0].address}}};
  EXPECT_EQ(Worst(facts, "ports").level, Level::kOk) << Worst(facts, "ports").what;
  group["members"][0]["address"] = "10.0.0.9:7401";
  EXPECT_EQ(Worst(facts, "ports").level, Level::kFail);
}

TEST(PortCheckTest, LongListsOfOthersAreReadOnce) {
  Facts facts = Healthy();
  facts.dials.assign(64, facts.dials[0]);
  for (DialFacts& dial : facts.dials) dial.outcome = DialFacts::Outcome::kTimeout;
  Json& group = facts.daemon.status["groups"][0];
  group["members"] = Json::array();
  for (int i = 0; i < 4096; ++i) group["members"].push_back({{"name", "x"}, {"address", facts.dials[0].address}});
  group["pairs"] = Json(4096, group["pairs"][0]);
  EXPECT_EQ(Worst(facts, "ports").level, Level::kFail);  // after minutes, if each member met each pair
}

TEST(PortCheckTest, LinksProveTheWayBackAndOtherwiseItIsLeftOpen) {
  Facts facts = Healthy();
  facts.daemon.status["groups"][0]["pairs"][0]["lanes_up"] = 0;
  EXPECT_EQ(Worst(facts, "ports").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "ports").what, HasSubstr("no lane to b of group g"));
  facts.daemon.status["groups"] = Json::array();
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

TEST(JournalCheckTest, StateIsWhatTheMasterTells) {
  Facts facts = Healthy();
  EXPECT_EQ(Worst(facts, "journal").what, "the master writes /j.db");
  facts.master.status["master"]["journal"] = "none";
  EXPECT_EQ(Worst(facts, "journal").level, Level::kWarn);
  facts.master.status["master"]["journal"] = "database or disk is full";
  EXPECT_EQ(Worst(facts, "journal").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "journal").what, HasSubstr("disk is full"));
  EXPECT_THAT(Worst(facts, "journal").remedy, HasSubstr("make room"));
  facts.master.status["master"]["journal_path"] = "etcd://10.0.0.1:2379/ringway/";
  EXPECT_EQ(Worst(facts, "journal").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "journal").what, HasSubstr("etcd://10.0.0.1:2379/ringway/"));
  EXPECT_THAT(Worst(facts, "journal").remedy, HasSubstr("look at etcd"));
  facts.master.status = {};
  EXPECT_EQ(Worst(facts, "journal").level, Level::kSkip);
}

}  // namespace
}  // namespace ringway::ctl
