#include "client/ctl/trace/chrome_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "proto/ids.h"

namespace ringway::ctl {
namespace {

using flight::Kind;
using flight::Record;
using nlohmann::json;

constexpr std::uint64_t kA = 1, kB = 2;

Record At(Kind kind, std::uint64_t self, std::int64_t at_us, std::uint64_t other = 0) {
  Record record{};
  record.kind = kind;
  record.self = self;
  record.at_us = at_us;
  record.other = other;
  record.seq = 7;
  record.epoch = Epoch::Of(1, 2).value;
  return record;
}

Record Reported(std::uint64_t self, std::int64_t at_us, std::uint32_t took_us) {
  Record record = At(Kind::kReported, self, at_us);
  record.took_us = took_us;
  record.bytes = 4096;
  return record;
}

HostTrace Host(const std::string& daemon, std::vector<Record> records) {
  HostTrace host;
  host.log.daemon = daemon;
  host.log.site = "here";
  host.log.peers = {{kA, {.group = "g", .name = "a"}}, {kB, {.group = "g", .name = "b"}}};
  host.log.records = std::move(records);
  return host;
}

// Events with this phase and name.
std::vector<json> Of(const json& trace, const std::string& phase, const std::string& name) {
  std::vector<json> out;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == phase && event["name"] == name) out.push_back(event);
  }
  return out;
}

TEST(ChromeJsonTest, ItsBeginHasAWallClock) {
  Trace trace{.group = "g", .clock = "x", .hosts = {Host("d", {Reported(kA, 3000, 1000)})}, .missing = {}};
  EXPECT_TRUE(json::parse(ChromeJson(trace))["metadata"]["begin_utc"].is_null());
  flight::Log& log = trace.hosts[0].log;
  log.started_us = 1500;
  log.started_utc_us = 1'796'040'000'999'999;
  EXPECT_EQ(json::parse(ChromeJson(trace))["metadata"]["begin_utc"], "2026-11-30T12:00:01Z");
  trace.hosts[0].ahead_us = 10;  // all is by another clock, and the same moment
  EXPECT_EQ(json::parse(ChromeJson(trace))["metadata"]["begin_utc"], "2026-11-30T12:00:01Z");
  log.started_us = std::numeric_limits<std::int64_t>::min();
  EXPECT_TRUE(json::parse(ChromeJson(trace))["metadata"]["begin_utc"].is_null());
  log.started_us = -(std::int64_t{1} << 60);
  EXPECT_TRUE(json::parse(ChromeJson(trace))["metadata"]["begin_utc"].is_null());
}

TEST(ChromeJsonTest, AnOperationIsASliceFromItsSubmissionToItsReport) {
  Record submitted = At(Kind::kSubmitted, kA, 1000);
  submitted.detail = static_cast<std::uint16_t>(OpKind::kAllReduce);
  submitted.bytes = 4096;
  Record in = At(Kind::kIn, kA, 1400, kB);
  in.took_us = 300;
  in.work_us = 100;
  in.flags = flight::kSummed;
  const Trace trace{.group = "g",
                    .clock = "x",
                    .hosts = {Host("d", {submitted, At(Kind::kOut, kA, 1100, kB), At(Kind::kReadyIn, kA, 1150, kB), in,
                                         At(Kind::kDoneIn, kA, 1900, kB), Reported(kA, 2000, 1000)})},
                    .missing = {}};
  const json parsed = json::parse(ChromeJson(trace));
  const auto begin = Of(parsed, "b", "all_reduce 0:7");
  const auto end = Of(parsed, "e", "all_reduce 0:7");
  ASSERT_EQ(begin.size(), 1U);
  ASSERT_EQ(end.size(), 1U);
  EXPECT_EQ(begin[0]["ts"], 0);
  EXPECT_EQ(end[0]["ts"], 1000);
  EXPECT_EQ(begin[0]["id"], end[0]["id"]);
  const json& args = begin[0]["args"];
  EXPECT_EQ(args["first_out_us"], 100);
  EXPECT_EQ(args["first_in_us"], 400);
  EXPECT_EQ(args["last_in_us"], 700);
  EXPECT_EQ(args["last_in_from"], "b");
  EXPECT_EQ(args["last_ready_us"], 150);
  EXPECT_EQ(args["last_done_us"], 900);
  EXPECT_EQ(args["code"], "ok");
  EXPECT_EQ(args["is_over"], true);
  const auto chunk = Of(parsed, "b", "from b");
  ASSERT_EQ(chunk.size(), 1U);
  EXPECT_EQ(chunk[0]["args"]["wait_us"], 200);
  EXPECT_EQ(chunk[0]["args"]["summed"], true);
  EXPECT_EQ(Of(parsed, "i", "done in b").size(), 1U);
}

TEST(ChromeJsonTest, HostsAreOnTheClockOfTheTrace) {
  Trace trace{
      .group = "g",
      .clock = "x",
      .hosts = {Host("da", {At(Kind::kDoneOut, kA, 1'000'000, kB)}), Host("db", {At(Kind::kDoneIn, kB, 500'050, kA)})},
      .missing = {{.daemon = "dc", .why = "it is away"}}};
  trace.hosts[0].ahead_us = 600'000;
  trace.hosts[0].error_us = 20;
  trace.hosts[1].ahead_us = 100'000;
  trace.hosts[1].error_us = 30;
  const json parsed = json::parse(ChromeJson(trace));
  EXPECT_EQ(Of(parsed, "i", "done out b")[0]["ts"], 0);
  EXPECT_EQ(Of(parsed, "i", "done in a")[0]["ts"], 50);
  const json& metadata = parsed["metadata"];
  EXPECT_EQ(metadata["hosts"][0]["clock_error_us"], 20);
  EXPECT_EQ(metadata["hosts"][1]["daemon"], "db");
  EXPECT_EQ(metadata["missing"][0]["daemon"], "dc");
  std::map<std::string, int> processes;
  for (const json& event : Of(parsed, "M", "process_name")) processes[event["args"]["name"]] = event["pid"];
  ASSERT_EQ(processes.size(), 2U);
  EXPECT_NE(processes.at("a (da, here)"), processes.at("b (db, here)"));
}

TEST(ChromeJsonTest, OtherGroupsAreLeftOut) {
  Trace trace{.group = "other", .clock = "x", .hosts = {Host("d", {At(Kind::kSubmitted, kA, 1)})}, .missing = {}};
  EXPECT_TRUE(json::parse(ChromeJson(trace))["traceEvents"].empty());
  trace.group = "";
  EXPECT_FALSE(json::parse(ChromeJson(trace))["traceEvents"].empty());
}

TEST(ChromeJsonTest, AnOperationThatRunsLastsUntilTheNewestRecordAndSaysSo) {
  const Trace trace{.group = "",
                    .clock = "x",
                    .hosts = {Host("d", {At(Kind::kSubmitted, kA, 5), At(Kind::kView, kA, 30)})},
                    .missing = {}};
  const json parsed = json::parse(ChromeJson(trace));
  EXPECT_EQ(Of(parsed, "e", "all_reduce 0:7")[0]["ts"], Of(parsed, "b", "all_reduce 0:7")[0]["ts"].get<int>() + 25);
  ASSERT_EQ(Of(parsed, "b", "all_reduce 0:7").size(), 1U);
  EXPECT_EQ(Of(parsed, "b", "all_reduce 0:7")[0]["args"]["is_over"], false);
}

TEST(ChromeJsonTest, MessagesOfDifferentStreamsAreDifferentSlices) {
  std::vector<Record> records;
  const auto add = [&](std::uint64_t other, std::uint32_t tag, std::uint8_t flags) {
    Record record = Reported(kA, 2000, 1000);
    record.other = other;
    record.tag = tag;
    record.flags = flags;
    records.push_back(record);
  };
  add(kB, 0, flight::kMessage);
  add(kB, 1, flight::kMessage);
  add(kB, 0, flight::kMessage | flight::kSends);
  add(3, 0, flight::kMessage);
  const json parsed =
      json::parse(ChromeJson({.group = "g", .clock = "x", .hosts = {Host("d", records)}, .missing = {}}));
  EXPECT_EQ(Of(parsed, "b", "recv from b 0:7").size(), 2U);
  EXPECT_EQ(Of(parsed, "b", "send to b 0:7").size(), 1U);
  EXPECT_EQ(Of(parsed, "b", "recv from peer 3 0:7").size(), 1U);
}

// Each slice that begins ends, not before that, and nothing is printed as it was sent.
TEST(ChromeJsonTest, WhatAHostileHostSaysIsStillATrace) {
  std::vector<Record> records;
  for (std::uint8_t kind = 1; kind <= flight::kKindMax; ++kind) {
    Record record{};
    record.kind = static_cast<Kind>(kind);
    record.at_us = std::int64_t{1} << 60;
    record.took_us = record.work_us = std::numeric_limits<std::uint32_t>::max();
    record.detail = record.step = record.chunk = 0xFFFF;
    record.flags = 0xFF;
    record.seq = record.self = record.other = record.epoch = std::numeric_limits<std::uint64_t>::max();
    records.push_back(record);
  }
  HostTrace host = Host("d\xff", records);
  host.ahead_us = -(std::int64_t{1} << 60);
  const json parsed = json::parse(ChromeJson({.group = "", .clock = "x", .hosts = {host}, .missing = {}}));
  std::map<std::string, std::int64_t> open;
  for (const json& event : parsed["traceEvents"]) {
    if (event["ph"] == "b") open[event["id"]] = event["ts"];
    if (event["ph"] == "e") {
      ASSERT_TRUE(open.contains(event["id"]));
      EXPECT_GE(event["ts"], open[event["id"]]);
      open.erase(event["id"].get<std::string>());
    }
  }
  EXPECT_TRUE(open.empty());
}

}  // namespace
}  // namespace ringway::ctl
