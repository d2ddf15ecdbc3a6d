#include "client/ctl/render.h"

#include <gtest/gtest.h>
#include <ringway/types.h>

namespace ringway::ctl {
namespace {

TEST(RenderTest, AdviceOfADaemonIsALineEach) {
  const auto text = Render(R"({"daemon": {"name": "a", "advice": ["do this", "do that"]}, "groups": []})");
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text.value().find("\n  advice: do this\n  advice: do that\n"), std::string::npos) << text.value();
}

TEST(RenderTest, DaemonsWithoutAdviceGetNone) {
  for (const char* const status : {R"({"daemon": {"name": "a"}})", R"({"daemon": {"name": "a", "advice": []}})",
                                   R"({"daemon": {"advice": {"x": 1}}})", R"({"daemon": 3})"}) {
    const auto text = Render(status);
    ASSERT_TRUE(text.ok()) << status;
    EXPECT_EQ(text.value().find("advice"), std::string::npos) << text.value();
  }
}

TEST(RenderTest, MasterThatStandsBySaysWhoLeadsAndNothingOfGroups) {
  const auto shown = [](const std::string& master) {
    return Render(R"({"master": {"term": 3)" + master + R"(}, "groups": []})").value();
  };
  const std::string of_leader = shown(R"(, "role": "standby", "leader": "10.0.0.2:7400")");
  EXPECT_TRUE(of_leader.starts_with("this master stands by; 10.0.0.2:7400 leads\n")) << of_leader;
  for (const char* const leader : {R"("")", "null"}) {
    const std::string of_none = shown(std::string(R"(, "role": "standby", "leader": )") + leader);
    EXPECT_TRUE(of_none.starts_with("this master stands by; none is known to lead\n")) << of_none;
    EXPECT_EQ(of_none.find("no groups"), std::string::npos) << of_none;
  }
  EXPECT_NE(shown(R"(, "role": "leader")").find("no groups\n"), std::string::npos);
}

TEST(RenderTest, TrafficBetweenSitesIsShownWithItsCostWhereThereArePrices) {
  const auto shown = [](const std::string& master, const std::string& cost) {
    const auto text =
        Render(R"({"master": {"term": 1)" + master + R"(}, "daemons": [], "groups": [{"name": "g", "peers": [],
        "cost_hour": )" +
               cost + R"(, "cost_operation": null}],
        "traffic": {"cost_hour": )" +
               cost + R"(, "rest": {"bytes": 0, "cost": 0},
                    "pairs": [{"from": "us", "to": "eu", "bytes": 1500000000, "cost": )" +
               cost + "}]}}");
    return text.ok() ? text.value() : text.status().text();
  };
  const std::string priced = shown(R"(, "currency": "USD")", "0.12");
  EXPECT_NE(priced.find("us         eu       1.500    0.12 USD\n"), std::string::npos) << priced;
  EXPECT_NE(priced.find("  cost of the last hour 0.12 USD, of an operation -\n"), std::string::npos) << priced;
  const std::string unpriced = shown(R"(, "currency": null)", "null");
  EXPECT_NE(unpriced.find("1.500\n"), std::string::npos) << unpriced;
  EXPECT_EQ(unpriced.find("cost"), std::string::npos) << unpriced;
}

TEST(RenderTest, DaemonThatIsDrainedSaysSo) {
  const auto drained = Render(R"({"daemon": {"name": "a", "draining": true}})");
  EXPECT_NE(drained.value().find("out of service"), std::string::npos) << drained.value();
  for (const char* const status : {R"({"daemon": {"draining": false}})", R"({"daemon": {"draining": [1]}})"}) {
    EXPECT_EQ(Render(status).value().find("out of service"), std::string::npos) << status;
  }
}

TEST(RenderTest, LimitsOfADaemonAreALineEach) {
  const auto text = Render(R"({"daemon": {"name": "a", "descriptors": {"limit": 256, "lanes": 22, "lanes_max": 128},
      "memory": {"max": 1000, "regions": 7, "results": 0, "reorder": 0, "early": 0, "residuals": 0}}, "groups": []})");
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text.value().find("\n  descriptors: at most 256, lanes have 22 of 128\n"), std::string::npos)
      << text.value();
  EXPECT_NE(text.value().find("\n  memory: at most 1000 bytes; regions 7 results 0 reorder 0 early 0 residuals 0\n"),
            std::string::npos);
}

TEST(RenderTest, SecurityIsSaidWhereThereIsAnyOrNone) {
  const auto said = [](const std::string& security) {
    const auto text = Render(R"({"daemon": {"name": "a", "security": )" + security + R"(}, "groups": []})");
    return text.ok() ? text.value() : text.status().text();
  };
  EXPECT_NE(said(R"({"identity": "daemon a", "until": "2027-01-02", "days_left": -1, "insecure": false})")
                .find("\n  TLS: daemon a, certificate EXPIRED on 2027-01-02: new connections are refused\n"),
            std::string::npos);
  EXPECT_NE(said(R"({"identity": "daemon a", "until": "2027-01-02", "days_left": 9, "insecure": false})")
                .find("\n  TLS: daemon a, certificate until 2027-01-02 (9 days)\n"),
            std::string::npos);
  EXPECT_NE(said(R"({"insecure": true})").find("INSECURE"), std::string::npos);
  for (const char* quiet : {R"({"insecure": false})", "{}", "7", R"({"insecure": 3})"}) {
    EXPECT_EQ(said(quiet).find("SECURE"), std::string::npos) << quiet;
    EXPECT_EQ(said(quiet).find("TLS"), std::string::npos) << quiet;
  }
}

}  // namespace
}  // namespace ringway::ctl
