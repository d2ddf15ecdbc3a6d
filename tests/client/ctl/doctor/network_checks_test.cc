#include "client/ctl/doctor/network_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(CertificateCheckTest, FileThatThisUserMayNotReadIsSkippedAndOneOfTheProgramsFails) {
  Facts facts = Healthy();
  facts.certificates[0].denied = "uid 998";
  EXPECT_EQ(Worst(facts, "certificates").level, Level::kFail);
  EXPECT_THAT(Worst(facts, "certificates").remedy, HasSubstr("chmod 640 a.key"));
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
  const std::pair<DialFacts::Outcome, const char*> remedies[] = {{DialFacts::Outcome::kRefused, "systemctl start"},
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
  EXPECT_THAT(Worst(facts, "ports").remedy, HasSubstr("systemctl start ringway-master"));
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

}  // namespace
}  // namespace ringway::ctl
