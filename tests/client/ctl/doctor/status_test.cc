#include "client/ctl/doctor/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/client/ctl/doctor/healthy.h"

namespace ringway::ctl {
namespace {

using testing::HasSubstr;

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

// Facts of a host of which no more is known than these statuses.
Facts FactsOf(const std::string& master, const std::string& daemon) {
  Facts facts;
  facts.version = "0.5.0";
  facts.protocol_min = facts.protocol_max = 5;
  facts.master.place = facts.daemon.place = "there";
  ReadStatus(master, "master", &facts.master, &facts.certificates);
  ReadStatus(daemon, "daemon", &facts.daemon, &facts.certificates);
  return facts;
}

std::vector<std::string> WhatOf(const Facts& facts, const std::string& check) {
  std::vector<std::string> what;
  for (const Finding& finding : Diagnose(facts)) {
    if (finding.check == check) what.push_back(finding.what);
  }
  return what;
}

TEST(StatusTest, MasterStatusIsRead) {
  const Facts facts = FactsOf(kMaster, "");
  ASSERT_TRUE(facts.master.outcome.ok());
  EXPECT_EQ(WhatOf(facts, "master"), (std::vector<std::string>{"the master at there answers",
                                                               "peer x is not in group g yet: b cannot reach it"}));
  EXPECT_EQ(WhatOf(facts, "versions"), std::vector<std::string>{"all 0.5.0"});
  EXPECT_EQ(WhatOf(facts, "journal"), std::vector<std::string>{"the master writes /j.db"});
  EXPECT_EQ(WhatOf(facts, "certificates"),
            std::vector<std::string>{"running ringway-master: master m until 2027-01-01 (40 days)"});
}

TEST(StatusTest, DaemonStatusIsRead) {
  const Facts facts = FactsOf("", kDaemon);
  ASSERT_TRUE(facts.daemon.outcome.ok());
  EXPECT_EQ(WhatOf(facts, "daemon"), std::vector<std::string>{"daemon a runs, connected to the master at 10.0.0.9:1"});
  EXPECT_EQ(WhatOf(facts, "ports"),
            (std::vector<std::string>{"no lane to a newcomer of group g stands", "links to 1 peers stand"}));
  EXPECT_THAT(WhatOf(facts, "descriptors").at(0), HasSubstr("the daemon may open 1024 files"));
  EXPECT_THAT(WhatOf(facts, "memory").at(0), HasSubstr("--memory-max is 0 MiB"));
  EXPECT_THAT(WhatOf(facts, "certificates").at(0), HasSubstr("nothing is encrypted"));
}

TEST(StatusTest, OlderReleaseSaysLess) {
  const Facts facts = FactsOf(R"({"master": {"journal": "ok"}})", "");
  EXPECT_TRUE(facts.master.outcome.ok());
  EXPECT_EQ(Worst(facts, "versions").level, Level::kWarn);
  EXPECT_EQ(Worst(facts, "clock").level, Level::kSkip);
  EXPECT_TRUE(facts.certificates.empty());
}

TEST(StatusTest, WhatIsNoStatusIsAProtocolError) {
  for (const char* text :
       {"", "null", "[]", "{", "7", R"("master")", R"({"master": 7})", R"({"daemon": []})", "\xff"}) {
    const Facts facts = FactsOf(text, text);
    EXPECT_EQ(facts.master.outcome.code(), Code::kProtocol) << text;
    EXPECT_EQ(facts.daemon.outcome.code(), Code::kProtocol) << text;
    EXPECT_FALSE(facts.master.answers() || facts.daemon.answers()) << text;
    EXPECT_EQ(Worst(facts, "master").level, Level::kFail) << text;
  }
}

// Who copies or compares such a value runs out of stack.
TEST(StatusTest, DeepStatusIsAProtocolError) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  const std::string text = R"({"groups": )" + deep + R"(, "master": {}, "daemon": {}})";
  const Facts facts = FactsOf(text, text);
  EXPECT_EQ(facts.master.outcome.code(), Code::kProtocol);
  EXPECT_EQ(facts.daemon.outcome.code(), Code::kProtocol);
  EXPECT_EQ(Worst(facts, "master").level, Level::kFail);
}

// Each value of the statuses becomes one of another type.
TEST(StatusTest, NoTypeIsTakenForGranted) {
  for (const std::string status : {kMaster, kDaemon}) {
    for (std::size_t at = status.find(": "); at != std::string::npos; at = status.find(": ", at + 1)) {
      for (const char* odd : {"null, \"\": ", "-1, \"\": ", "1e300, \"\": ", "[[]], \"\": ", "{\"a\": {}}, \"\": ",
                              "\"\", \"\": ", "18446744073709551615, \"\": "}) {
        std::string broken = status;
        broken.insert(at + 2, odd);
        EXPECT_FALSE(Diagnose(FactsOf(broken, broken)).empty());
      }
    }
  }
}

TEST(StatusTest, FindingsOfAHostileStatusAreCountedNotListed) {
  Json master = Json::parse(kMaster), daemon = Json::parse(kDaemon);
  const Json pending = {{"name", "x"}, {"state", "pending"}, {"why", "w"}};
  for (int i = 0; i < 5000; ++i) {
    master["groups"][0]["peers"].push_back(pending);
    daemon["groups"][0]["pairs"].push_back({{"name", "p"}, {"lanes_up", 0}});
  }
  for (int i = 0; i < 9; ++i) master["groups"].push_back(master["groups"][0]);
  const Facts facts = FactsOf(master.dump(), daemon.dump());
  EXPECT_EQ(WhatOf(facts, "master").size(), 65U);
  EXPECT_EQ(WhatOf(facts, "master").back(), std::to_string(10 * 4094 - 63) + " more peers are not in their groups yet");
  EXPECT_EQ(WhatOf(facts, "ports").size(), 66U);
  EXPECT_THAT(WhatOf(facts, "ports").at(64), HasSubstr("more peers stands"));
}

TEST(StatusTest, LongListsAreCut) {
  Json list = Json::array();
  for (int i = 0; i < 5000; ++i) list.push_back(Json::object());
  const Json object = {{"list", list}};
  EXPECT_EQ(ObjectsAt(object, "list").size(), 4096U);
}

}  // namespace
}  // namespace ringway::ctl
