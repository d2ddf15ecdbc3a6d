#include "client/ctl/watch/events.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace ringway::ctl {
namespace {

using nlohmann::json;

json EventOf(std::uint64_t number) {
  return {{"number", number}, {"age_ms", 1500}, {"event", "view"}, {"group", "job"}, {"who", "a"}, {"text", "goes on"}};
}

std::string StatusWith(std::uint64_t first, std::uint64_t last, int term = 1) {
  json status = {{"master", {{"term", term}}}, {"events", json::array()}};
  for (std::uint64_t number = first; number <= last; ++number) status["events"].push_back(EventOf(number));
  return status.dump();
}

TEST(EventReaderTest, EachEventIsTakenOnce) {
  EventReader reader;
  EXPECT_EQ(reader.after(), 1U) << "all of them";
  EXPECT_EQ(reader.Take(StatusWith(2, 5)).value().events.size(), 4U);
  EXPECT_EQ(reader.after(), 5U);
  const auto batch = reader.Take(StatusWith(4, 7)).value();
  ASSERT_EQ(batch.events.size(), 2U);
  EXPECT_EQ(batch.events[0].number, 6U);
  EXPECT_EQ(batch.missed, 0U);
  EXPECT_TRUE(batch.more);
  EXPECT_FALSE(reader.Take(StatusWith(4, 7)).value().more) << "there was nothing new";
}

TEST(EventReaderTest, WhatIsNoLongerKeptIsCounted) {
  EventReader reader;
  EXPECT_EQ(reader.Take(StatusWith(100, 101)).value().missed, 0U) << "who begins has missed nothing";
  EXPECT_EQ(reader.Take(StatusWith(110, 111)).value().missed, 8U);
}

TEST(EventReaderTest, RestartedMasterIsReadFromItsBeginning) {
  EventReader reader;
  (void)reader.Take(StatusWith(2, 50));
  const auto batch = reader.Take(StatusWith(2, 3, 2)).value();
  EXPECT_TRUE(batch.restarted);
  EXPECT_TRUE(batch.more);
  EXPECT_EQ(batch.events.size(), 2U);
}

TEST(EventReaderTest, NewestEventSaysHowFarABatchReaches) {
  const auto batch = EventReader().Take(StatusWith(2, 5)).value();
  EXPECT_TRUE(batch.HasYoungerThan(1501));
  EXPECT_FALSE(batch.HasYoungerThan(1500));
  EXPECT_FALSE(EventReader::Batch().HasYoungerThan(1500)) << "there is none";
}

TEST(EventReaderTest, DaemonsListIsWhole) {
  EventReader reader;
  const auto batch = reader.Take(R"({"daemon": {"pid": 7}, "events": [{"number": 2}, {"number": 3}]})").value();
  EXPECT_EQ(batch.events.size(), 2U);
  EXPECT_FALSE(batch.more);
}

TEST(EventReaderTest, OlderProgramAndOddEventsAreNoHarm) {
  EventReader reader;
  for (const char* none : {"", "[]", R"({"master": {}})", R"({"master": {}, "events": 3})"}) {
    EXPECT_EQ(reader.Take(none).status().code(), Code::kProtocol) << none;
  }
  const auto odd = reader.Take(R"({"master": {"term": 1}, "events": [1, {}, {"number": -3}, {"number": "x"},
      {"number": 9, "age_ms": "old", "event": [], "text": "a\u001b[2J\nb"}]})");
  ASSERT_TRUE(odd.ok());
  ASSERT_EQ(odd.value().events.size(), 1U);
  EXPECT_EQ(odd.value().events[0].text, "a?[2J?b");
}

TEST(EventLineTest, HasTheTimeAndIsAnObjectAsJson) {
  const EventReader::Event event{
      .number = 7, .age_ms = 1500, .kind = "dropped", .group = "job", .who = "c", .text = "dead"};
  const std::string now = "2023-11-14T22:13:20Z";
  EXPECT_EQ(EventLine(event, now, false), "2023-11-14T22:13:20Z  dropped        job  c  dead");
  const json line = json::parse(EventLine(event, now, true));
  EXPECT_EQ(line["time"], now);
  EXPECT_EQ(line["event"], "dropped");
  EXPECT_EQ(line["number"], 7);
}

TEST(ParseAgeTest, TakesOneUnitAndRefusesTheRest) {
  EXPECT_EQ(ParseAgeMs("90s"), 90'000);
  EXPECT_EQ(ParseAgeMs("10m"), 600'000);
  EXPECT_EQ(ParseAgeMs("2h"), 7'200'000);
  EXPECT_EQ(ParseAgeMs("366d"), std::int64_t{366} * 86'400'000);
  for (const char* bad :
       {"", "10", "m", "-1s", "1.5h", "10 m", "10mm", "367d", "99999999999999999999s", "9223372036854775807h"}) {
    EXPECT_EQ(ParseAgeMs(bad), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace ringway::ctl
