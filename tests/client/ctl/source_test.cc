#include "client/ctl/watch/source.h"

#include <gmock/gmock.h>

#include "tests/client/ctl/watch_status.h"

namespace ringway::ctl {
namespace {

using testing::HasSubstr;

TEST(CheckLeadsTest, OnlyTheMasterThatLeadsAnswersForTheGroups) {
  const std::vector<Endpoint> asked = {{.host = "10.0.0.1", .port = 7400}, {.host = "10.0.0.2", .port = 7400}};
  json status = HealthyStatus();
  EXPECT_TRUE(CheckLeads(status, asked).ok()) << "of an older release, which has no role";
  EXPECT_TRUE(CheckLeads({{"daemon", {{"name", "a"}}}}, asked).ok());
  EXPECT_TRUE(CheckLeads(json(), asked).ok());
  json& master = status["master"];
  master["role"] = "leader";
  EXPECT_TRUE(CheckLeads(status, asked).ok());
  master["role"] = "standby";
  master["leader"] = "10.0.0.3:7400";
  EXPECT_EQ(CheckLeads(status, asked).code(), Code::kMasterUnreachable);
  EXPECT_THAT(CheckLeads(status, asked).text(), HasSubstr("the one at 10.0.0.3:7400 leads: name it in --master"));
  for (const char* none : {"", "10.0.0.2:7400"}) {
    master["leader"] = none;
    EXPECT_THAT(CheckLeads(status, asked).text(), HasSubstr("no master leads now")) << none;
  }
}

}  // namespace
}  // namespace ringway::ctl
