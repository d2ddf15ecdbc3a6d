#include "proto/shell/metrics.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "proto/duration_counts.h"
#include "proto/peer_counts.h"

namespace ringway::shell {
namespace {

using nlohmann::json;

json DaemonStatus() {
  json group = {{"name", "job"}, {"epoch", "2.17"}, {"frozen", true}, {"rank", 1}, {"world_size", 2}, {"ops_open", 3}};
  for (const PeerCountInfo& count : kPeerCounts) group[std::string(count.name)] = 7;
  json counts = json::array();
  for (std::size_t i = 0; i <= DurationCounts::kBounds; ++i) counts.push_back(i == 1 ? 5 : 0);
  counts.back() = 2;
  for (const PeerDurationInfo& each : kPeerDurations)
    group["durations"][std::string(each.name)] = {{"counts", counts}, {"sum_us", 140'500'000}};
  group["members"] = json::array({{{"peer_id", 4}, {"rank", 0}}, {{"peer_id", 5}, {"rank", 1}}});
  group["pairs"] = json::array({{{"peer_id", 4},
                                 {"name", "x"},
                                 {"lanes_up", 11},
                                 {"lanes_used", 9},
                                 {"retransmits", 2},
                                 {"round_trip_us", 100'000},
                                 {"rate_limit_mbit", 800.5}},
                                {{"peer_id", 99}, {"name", ""}}});
  return {{"daemon",
           {{"name", "a"},
            {"master", "m:1"},
            {"master_connected", true},
            {"version", "0.5.0"},
            {"security", {{"identity", "daemon a"}, {"days_left", 12}, {"insecure", false}}},
            {"memory", {{"max", 1000}, {"regions", 10}, {"results", 0}}},
            {"descriptors", {{"limit", 100}, {"lanes", 11}, {"lanes_max", 50}, {"kept", 7}}}}},
          {"groups", json::array({group})}};
}

std::string Metrics(const json& status) {
  const Result<std::string> text = MetricsOf(status.dump());
  EXPECT_TRUE(text.ok()) << text.status().text();
  return text.ok() ? text.value() : "";
}

// Every line is what the format allows, and each name is declared once, before its samples.
void ExpectWellFormed(const std::string& text) {
  static const std::regex help("# HELP (ringway_[a-z_]+) .+");
  static const std::regex type("# TYPE (ringway_[a-z_]+) (gauge|counter|histogram)");
  static const std::regex sample(
      R"((ringway_[a-z_]+?)(_bucket|_sum|_count)?(\{([a-z_]+="([^"\\]|\\.)*",?)+\})? -?[0-9][0-9.e+-]*)");
  std::set<std::string> named;
  std::string current;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      EXPECT_TRUE(named.insert(match[1]).second) << line;
      current = match[1];
    } else {
      ASSERT_TRUE(std::regex_match(line, match, type) || std::regex_match(line, match, sample)) << line;
      EXPECT_TRUE(match[1] == current || match.str(1) + match.str(2) == current) << line;
    }
  }
  EXPECT_TRUE(text.ends_with("\n"));
}

TEST(MetricsTest, MasterTellsOfTrafficBetweenSitesAndItsCost) {
  json status = {
      {"master", {{"term", 1}, {"currency", "USD"}}},
      {"groups",
       json::array({{{"name", "job"}, {"peers", json::array()}, {"cost_hour", 1.5}, {"cost_operation", 0.25}}})},
      {"traffic",
       {{"cost_hour", 3.5},
        {"pairs", json::array({{{"from", "us"}, {"to", "eu \"1\""}, {"bytes", 4000}, {"cost", 7}}})},
        {"rest", {{"bytes", 0}, {"cost", 0}}}}}};
  const std::string text = Metrics(status);
  ExpectWellFormed(text);
  for (const char* line : {"ringway_site_bytes_total{from_site=\"us\",to_site=\"eu \\\"1\\\"\"} 4000.0",
                           "ringway_site_cost_total{from_site=\"us\",to_site=\"eu \\\"1\\\"\",currency=\"USD\"} 7.0",
                           "ringway_cost_last_hour{currency=\"USD\"} 3.5",
                           "ringway_group_cost_last_hour{group=\"job\",currency=\"USD\"} 1.5",
                           "ringway_group_cost_per_operation{group=\"job\",currency=\"USD\"} 0.25"}) {
    EXPECT_NE(text.find(std::string(line) + "\n"), std::string::npos) << line << "\n" << text;
  }
  EXPECT_EQ(text.find("to_site=\"*\""), std::string::npos);
  status["master"]["currency"] = nullptr;
  const std::string unpriced = Metrics(status);
  EXPECT_NE(unpriced.find("ringway_site_bytes_total"), std::string::npos);
  EXPECT_EQ(unpriced.find("cost"), std::string::npos);
}

TEST(MetricsTest, DaemonTellsOfItselfItsGroupsAndItsPaths) {
  const std::string text = Metrics(DaemonStatus());
  ExpectWellFormed(text);
  for (const char* line :
       {"ringway_master_connected 1.0", "ringway_certificate_days_left 12.0", "ringway_insecure 0.0",
        "ringway_memory_bytes{use=\"regions\"} 10.0", "ringway_lanes 11.0", "ringway_connections_kept 7.0",
        "ringway_group_epoch{group=\"job\",rank=\"1\"} 17.0", "ringway_group_frozen{group=\"job\",rank=\"1\"} 1.0",
        "ringway_ops_open{group=\"job\",rank=\"1\"} 3.0",
        "ringway_path_round_trip_seconds{group=\"job\",rank=\"1\",to_rank=\"0\"} 0.1",
        "ringway_path_rate_limit_bits_per_second{group=\"job\",rank=\"1\",to_rank=\"0\"} 800500000.0",
        "ringway_recovery_seconds_bucket{group=\"job\",rank=\"1\",le=\"0.001\"} 0.0",
        "ringway_recovery_seconds_bucket{group=\"job\",rank=\"1\",le=\"0.002\"} 5.0",
        "ringway_recovery_seconds_bucket{group=\"job\",rank=\"1\",le=\"65.536\"} 5.0",
        "ringway_recovery_seconds_bucket{group=\"job\",rank=\"1\",le=\"+Inf\"} 7.0",
        "ringway_recovery_seconds_sum{group=\"job\",rank=\"1\"} 140.5",
        "ringway_recovery_seconds_count{group=\"job\",rank=\"1\"} 7.0", "ringway_groups_left_out 0.0"}) {
    EXPECT_NE(text.find(std::string("\n") + line + "\n"), std::string::npos) << line << "\n" << text;
  }
  for (const PeerCountInfo& count : kPeerCounts) {
    EXPECT_NE(text.find("ringway_" + std::string(count.name) + "_total{group=\"job\",rank=\"1\"} 7.0\n"),
              std::string::npos);
  }
}

// The metrics that deploy/monitoring uses are exported.
TEST(MetricsTest, ExamplesOfAlertsAndDashboardNameOnlyWhatThereIs) {
  const json master = {{"master", {{"journal", "ok"}}},
                       {"groups", json::array({{{"name", "g"}, {"epoch", "1.1"}, {"peers", json::array()}}})}};
  const std::string exported = Metrics(DaemonStatus()) + Metrics(master);
  for (const char* file : {"alerts.yml", "dashboard.json"}) {
    std::ifstream stream(std::string(RINGWAY_SOURCE_DIR "/deploy/monitoring/") + file);
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    std::size_t names = 0;
    const std::regex name("(ringway_[a-z_]+?)(_bucket|_sum|_count)?(?![a-z_])");
    for (std::sregex_iterator found(text.begin(), text.end(), name), end; found != end; ++found, ++names) {
      EXPECT_NE(exported.find("# TYPE " + (*found)[1].str() + " "), std::string::npos) << file << " " << found->str();
    }
    EXPECT_GT(names, 8U) << file;
  }
}

TEST(MetricsTest, MasterTellsOfItselfAndItsGroups) {
  const json status = {
      {"master", {{"term", 3}, {"uptime_s", 9}, {"journal", "ok"}, {"version", "1"}, {"left_out", 2}}},
      {"daemons", json::array({{{"connected", true}}, {{"connected", false}}})},
      {"groups", json::array({{{"name", "job"},
                               {"world_size", 1},
                               {"epoch", "3.4"},
                               {"collecting", true},
                               {"peers", json::array({{{"state", "member"}}, {{"state", "pending"}}})}}})}};
  const std::string text = Metrics(status);
  ExpectWellFormed(text);
  for (const char* line :
       {"ringway_journal_ok 1.0", "ringway_daemons_connected 1.0", "ringway_group_pending{group=\"job\"} 1.0",
        "ringway_group_recovering{group=\"job\"} 1.0", "ringway_groups_left_out 2.0"}) {
    EXPECT_NE(text.find(std::string("\n") + line + "\n"), std::string::npos) << line << "\n" << text;
  }
}

TEST(MetricsTest, GroupsAreBoundedAndTheirNamesCannotBreakTheFormat) {
  json status = DaemonStatus();
  json group = status["groups"][0];
  group["name"] = "a\"b\\c";
  status["groups"] = json::array();
  for (std::size_t i = 0; i < kMetricGroupsMax + 5; ++i) status["groups"].push_back(group);
  const std::string text = Metrics(status);
  ExpectWellFormed(text);
  EXPECT_NE(text.find(R"({group="a\"b\\c",rank="1"})"), std::string::npos);
  EXPECT_NE(text.find("ringway_groups_left_out 5.0"), std::string::npos);
}

TEST(MetricsTest, OddStatusIsNoCrash) {
  for (const char* odd : {"", "[]", "{}", "7", R"({"groups": 3})"}) EXPECT_FALSE(MetricsOf(odd).ok()) << odd;
  for (const char* odd : {R"({"daemon": 3})", R"({"daemon": {"memory": [1], "security": 2}, "groups": {"a": 1}})",
                          R"({"master": null, "daemons": 7, "groups": [1, null, {"peers": [3], "epoch": "x.y"}]})"}) {
    const Result<std::string> text = MetricsOf(odd);
    ASSERT_TRUE(text.ok()) << odd;
    ExpectWellFormed(text.value());
  }
}

TEST(MetricsTest, ReadyIsWhoCanDoItsWork) {
  EXPECT_TRUE(ReadinessOf(DaemonStatus().dump()).ok());
  json status = DaemonStatus();
  status["daemon"]["master_connected"] = false;
  EXPECT_NE(ReadinessOf(status.dump()).text().find("m:1"), std::string::npos);
  EXPECT_TRUE(ReadinessOf(R"({"master": {"journal": "none"}})").ok());
  EXPECT_NE(ReadinessOf(R"({"master": {"journal": "disk full"}})").text().find("disk full"), std::string::npos);
  EXPECT_FALSE(ReadinessOf("x").ok());
}

}  // namespace
}  // namespace ringway::shell
