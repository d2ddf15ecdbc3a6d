#include "client/ctl/doctor/program_facts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ringway::ctl {
namespace {

constexpr char kMaster[] = R"({
  "master": {"version": "0.5.0", "utc": "2026-11-27T09:30:00Z", "protocol": [5, 6], "journal": "ok",
             "journal_path": "/j.db", "security": {"identity": "master m", "until": "2027-01-01", "days_left": 40,
                                                   "insecure": false}},
  "daemons": [{"name": "a", "address": "10.0.0.1:1", "connected": true}, {"name": "b", "connected": false}],
  "groups": [{"name": "g", "peers": [{"name": "x", "state": "pending", "why": "b cannot reach it"},
                                     {"name": "y", "state": "pending", "why": ""},
                                     {"name": "z", "state": "member", "why": "no"}]}]})";

constexpr char kDaemon[] = R"({
  "daemon": {"name": "a", "address": "10.0.0.1:1", "pid": 77, "master": "10.0.0.9:1", "master_connected": true,
             "version": "0.5.0", "protocol": [5, 5], "descriptors": {"limit": 1024, "lanes": 3, "lanes_max": 512},
             "security": {"insecure": true}, "memory": {"max": 100, "regions": 7, "results": 2}},
  "groups": [{"name": "g", "self": 1, "pairs": [{"name": "b", "lanes_up": 11}, {"name": "", "lanes_up": 0}],
              "members": [{"peer_id": 1, "name": "a", "address": "10.0.0.1:1"},
                          {"peer_id": 2, "name": "b", "address": "10.0.0.2:1"}]}]})";

TEST(ProgramFactsTest, MasterStatusIsRead) {
  MasterFacts master;
  std::vector<CertificateFacts> certificates;
  ReadMasterStatus(kMaster, &master, &certificates);
  ASSERT_TRUE(master.outcome.ok());
  EXPECT_EQ(master.version, "0.5.0");
  EXPECT_EQ(master.utc, "2026-11-27T09:30:00Z");
  EXPECT_EQ(master.protocol->max, 6U);
  EXPECT_EQ(master.journal_path, "/j.db");
  ASSERT_EQ(master.daemons.size(), 2U);
  EXPECT_TRUE(master.daemons[0].connected);
  ASSERT_EQ(master.pending.size(), 1U);
  EXPECT_EQ(master.pending[0].why, "b cannot reach it");
  ASSERT_EQ(certificates.size(), 1U);
  EXPECT_TRUE(certificates[0].running);
  EXPECT_EQ(certificates[0].days_left, 40);
}

TEST(ProgramFactsTest, DaemonStatusIsRead) {
  DaemonFacts daemon;
  std::vector<CertificateFacts> certificates;
  ReadDaemonStatus(kDaemon, &daemon, &certificates);
  ASSERT_TRUE(daemon.outcome.ok());
  EXPECT_EQ(daemon.pid, 77);
  EXPECT_TRUE(daemon.master_connected);
  EXPECT_EQ(daemon.memory_max, 100U);
  EXPECT_EQ(daemon.memory_used, 9U);
  EXPECT_EQ(daemon.descriptors, 1024U);
  EXPECT_EQ(daemon.lanes_max, 512U);
  ASSERT_EQ(daemon.pairs.size(), 2U);
  EXPECT_EQ(daemon.pairs[0].lanes_up, 11U);
  EXPECT_EQ(daemon.pairs[1].to, "a newcomer");
  ASSERT_EQ(daemon.members.size(), 1U) << "not itself";
  EXPECT_EQ(daemon.members[0].address, "10.0.0.2:1");
  EXPECT_TRUE(certificates.at(0).insecure);
}

TEST(ProgramFactsTest, OlderReleaseSaysLess) {
  MasterFacts master;
  std::vector<CertificateFacts> certificates;
  ReadMasterStatus(R"({"master": {"journal": "ok"}})", &master, &certificates);
  EXPECT_TRUE(master.outcome.ok());
  EXPECT_FALSE(master.protocol.has_value());
  EXPECT_EQ(master.utc, "");
  EXPECT_TRUE(certificates.empty());
}

TEST(ProgramFactsTest, WhatIsNoStatusIsAProtocolError) {
  for (const char* text :
       {"", "null", "[]", "{", "7", R"("master")", R"({"master": 7})", R"({"daemon": []})", "\xff"}) {
    MasterFacts master;
    DaemonFacts daemon;
    std::vector<CertificateFacts> certificates;
    ReadMasterStatus(text, &master, &certificates);
    ReadDaemonStatus(text, &daemon, &certificates);
    EXPECT_EQ(master.outcome.code(), Code::kProtocol) << text;
    EXPECT_EQ(daemon.outcome.code(), Code::kProtocol) << text;
  }
}

// Each value of the statuses becomes one of another type.
TEST(ProgramFactsTest, NoTypeIsTakenForGranted) {
  for (const std::string status : {kMaster, kDaemon}) {
    for (std::size_t at = status.find(": "); at != std::string::npos; at = status.find(": ", at + 1)) {
      for (const char* odd : {"null, \"\": ", "-1, \"\": ", "1e300, \"\": ", "[[]], \"\": ", "{\"a\": {}}, \"\": ",
                              "\"\", \"\": ", "18446744073709551615, \"\": "}) {
        std::string broken = status;
        broken.insert(at + 2, odd);
        MasterFacts master;
        DaemonFacts daemon;
        std::vector<CertificateFacts> certificates;
        ReadMasterStatus(broken, &master, &certificates);
        ReadDaemonStatus(broken, &daemon, &certificates);
        EXPECT_GE(daemon.pid, 0);
      }
    }
  }
}

}  // namespace
}  // namespace ringway::ctl
