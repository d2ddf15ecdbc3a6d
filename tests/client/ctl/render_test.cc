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
