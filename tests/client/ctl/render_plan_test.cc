#include "client/ctl/render_plan.h"

#include <gtest/gtest.h>
#include <ringway/types.h>

namespace ringway::ctl {
namespace {

constexpr const char* kPlan = R"({
  "group": "job", "epoch": "1.2", "world_size": 3, "bytes": 67108864, "chosen": "direct", "prepared": null,
  "algorithms": [
    {"name": "ring", "predicted_ms": 1234.5, "measured_ms": null, "operations": 0},
    {"name": "direct", "predicted_ms": 99.94, "measured_ms": 5.126, "operations": 12},
    {"name": "hierarchical", "predicted_ms": null, "measured_ms": null, "operations": 0}],
  "ring": {"round_trip_ms": 150.0, "rate_mbit": 400.0, "bottleneck": 1, "links": [
    {"from": "a", "from_site": "eu", "to": "b", "to_site": "us",
     "delay_ms": 50.0, "rate_mbit": 1000.0, "delay_measured": true, "rate_measured": false},
    {"from": "b", "from_site": "us", "to": "c", "to_site": "us",
     "delay_ms": 50.0, "rate_mbit": 400.0, "delay_measured": true, "rate_measured": true},
    {"from": "c", "from_site": "us", "to": "a", "to_site": "eu",
     "delay_ms": 50.0, "rate_mbit": 1000.0, "delay_measured": false, "rate_measured": false}]},
  "paths": {"all": 6, "delays_measured": 4, "rates_measured": 1}})";

TEST(RenderPlanTest, ShowsTimesChoiceRingBottleneckAndWhatIsAssumed) {
  const Result<std::string> text = RenderPlan(kPlan);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text.value(),
            "group job  epoch 1.2  world 3  operations of 64M\n"
            "  algorithm     predicted  measured  operations\n"
            "  ring          1234 ms    -         0\n"
            "  direct        99.9 ms    5.13 ms   12          <- the plan's choice\n"
            "  hierarchical  -          -         0\n"
            "\n"
            "ring: 150 ms once around, 400 Mbit/s at its bottleneck; each link with its one-way delay and its rate\n"
            "  ┌─> a (eu)\n"
            "  │     ↓ 50.0 ms, ~1000 Mbit/s\n"
            "  │   b (us)\n"
            "  │     ↓ 50.0 ms, 400 Mbit/s  <- bottleneck\n"
            "  │   c (us)\n"
            "  └─────┘ ~50.0 ms, ~1000 Mbit/s\n"
            "\n"
            "measured of 6 paths: 4 delays, 1 rates; ~ is assumed\n");
}

TEST(RenderPlanTest, SeveralRingsAndUnequalSharesAreShown) {
  const Result<std::string> text = RenderPlan(R"({"group": "g", "bytes": 1, "ring": null,
    "rings": [{"percent": 62.5, "rate_mbit": 60.0, "order": ["a", "b", "c"]},
              {"percent": 37.5, "rate_mbit": 36.0, "order": ["a", "c", "b"]}],
    "shares": [{"peer": "a", "percent": 50.0}, {"peer": "b", "percent": 45.0}, {"peer": "c", "percent": 5.0}]})");
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text.value().find("\nrings: several at once, each with its part and its bottleneck's rate\n"
                              "  62.5 % by a -> b -> c, 60.0 Mbit/s\n"
                              "  37.5 % by a -> c -> b, 36.0 Mbit/s\n"
                              "\ndirect: parts of the buffer that peers combine: a 50.0 %, b 45.0 %, c 5.00 %\n"),
            std::string::npos)
      << text.value();
}

TEST(RenderPlanTest, NewerViewThatWaitsIsNamed) {
  const Result<std::string> text = RenderPlan(R"({"group": "g", "bytes": 1, "ring": null, "prepared": "1.7"})");
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text.value().find("view 1.7"), std::string::npos) << text.value();
}

TEST(RenderPlanTest, LoneMemberHasNoRing) {
  const Result<std::string> text = RenderPlan(R"({"group": "g", "bytes": 1, "ring": null})");
  ASSERT_TRUE(text.ok());
  EXPECT_NE(text.value().find("no ring"), std::string::npos) << text.value();
}

TEST(RenderPlanTest, OtherShapesAreShownAsFarAsTheyGoOrRefused) {
  EXPECT_EQ(RenderPlan("[]").status().code(), Code::kProtocol);
  EXPECT_EQ(RenderPlan("{\"group\"").status().code(), Code::kProtocol);
  for (const char* odd : {"{}", R"({"algorithms": 3, "ring": {}, "paths": []})", R"({"ring": {"links": [{}, 1]}})",
                          R"({"rings": [{"order": [1]}, 7], "shares": [{"peer": []}]})",
                          R"({"chosen": 5, "bytes": -1, "algorithms": [{"name": {}, "predicted_ms": "x"}]})"}) {
    EXPECT_TRUE(RenderPlan(odd).ok()) << odd;
  }
}

}  // namespace
}  // namespace ringway::ctl
