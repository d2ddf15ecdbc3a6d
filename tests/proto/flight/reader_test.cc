#include "proto/flight/reader.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/proto/flight/images.h"

namespace ringway::flight {
namespace {

Record MakeRecord(std::uint64_t number, Kind kind) {
  Record record{};
  record.number = number;
  record.kind = kind;
  record.at_us = static_cast<std::int64_t>(100 * number);
  record.self = 7;
  return record;
}

std::string Sound() {
  return MakeImage("d", {MakeName(7, "g", "a")}, {MakeRecord(2, Kind::kReported), MakeRecord(1, Kind::kSubmitted)});
}

TEST(FlightReaderTest, RecordsComeInTheOrderOfTheirNumbers) {
  const Result<Log> log = Read(BytesOf(Sound()));
  ASSERT_TRUE(log.ok()) << log.status().text();
  EXPECT_EQ(log.value().daemon, "d");
  EXPECT_EQ(log.value().peers.at(7).name, "a");
  EXPECT_EQ(log.value().peers.at(7).group, "g");
  ASSERT_EQ(log.value().records.size(), 2U);
  EXPECT_EQ(log.value().records[0].kind, Kind::kSubmitted);
  EXPECT_EQ(log.value().records[1].kind, Kind::kReported);
  EXPECT_EQ(log.value().damaged, 0U);
}

TEST(FlightReaderTest, TheWallClockIsReadOrNotAtAll) {
  const auto read = [](const std::string& utc) {
    Header header = MakeHeader("d", 0, 0);
    SetText(header.utc, utc);
    const std::string image(reinterpret_cast<const char*>(&header), sizeof header);
    const Result<Log> log = Read(BytesOf(image));
    return log.ok() ? log.value().started_utc_us : std::nullopt;
  };
  EXPECT_EQ(read("1970-01-02T00:00:01Z"), 86'401'000'000);
  EXPECT_EQ(read("2026-11-30T12:00:00Z"), 1'796'040'000'000'000);
  for (const char* odd : {"", "2026-13-30T12:00:00Z", "2026-02-30T12:00:00Z", "2026-11-30T24:00:00Z",
                          "2026-11-30T12:00:00", "2026-11-30 12:00:00Z", "2026-1a-30T12:00:00Z"}) {
    EXPECT_EQ(read(odd), std::nullopt) << odd;
  }
}

TEST(FlightReaderTest, RecordsBeingWrittenAreNoneAndDamagedOnesAreCounted) {
  Record odd = MakeRecord(3, Kind::kIn);
  odd.kind = static_cast<Kind>(kKindMax + 1);
  Record early = MakeRecord(4, Kind::kIn);
  early.at_us = -1;
  const std::string image = MakeImage("d", {}, {MakeRecord(0, Kind::kIn), odd, early, MakeRecord(5, Kind::kIn)});
  const Result<Log> log = Read(BytesOf(image));
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log.value().records.size(), 1U);
  EXPECT_EQ(log.value().damaged, 2U);
}

TEST(FlightReaderTest, TextsWithoutEndAndControlCharactersArePrintable) {
  Name name = MakeName(7, "", "");
  std::memset(name.name, '\n', sizeof name.name);
  const Result<Log> log = Read(BytesOf(MakeImage("d\x1b[2J", {name}, {})));
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log.value().daemon, "d?[2J");
  EXPECT_EQ(log.value().peers.at(7).name, std::string(sizeof name.name, '?'));
}

TEST(FlightReaderTest, WhatIsNoImageIsRefused) {
  EXPECT_EQ(Read({}).status().code(), Code::kProtocol);
  std::string other = Sound();
  other[0] = 'x';
  EXPECT_EQ(Read(BytesOf(other)).status().code(), Code::kProtocol);
  const std::string cut = Sound().substr(0, Sound().size() - 1);
  EXPECT_EQ(Read(BytesOf(cut)).status().code(), Code::kProtocol);
}

TEST(FlightReaderTest, AnotherVersionIsNamed) {
  std::string newer = Sound();
  newer[offsetof(Header, version)] = 9;
  const Status status = Read(BytesOf(newer)).status();
  EXPECT_EQ(status.code(), Code::kVersionMismatch);
  EXPECT_NE(status.text().find("version 9"), std::string::npos) << status.text();
}

TEST(FlightReaderTest, SizesThatOverflowAreRefused) {
  for (const std::size_t field : {offsetof(Header, names_max), offsetof(Header, records_max)}) {
    std::string image = Sound();
    std::memset(image.data() + field, 0xFF, 4);
    EXPECT_EQ(Read(BytesOf(image)).status().code(), Code::kProtocol);
  }
}

// Any bytes: a log whose times can be added up, or a typed error.
TEST(FlightReaderTest, AnyBytesAreALogOrAnError) {
  EXPECT_TRUE(rc::check([](const std::vector<char>& bytes) {
    const std::string image(bytes.begin(), bytes.end());
    const Result<Log> log = Read(BytesOf(image));
    RC_ASSERT(log.ok() || !log.status().text().empty());
  }));
  EXPECT_TRUE(rc::check([](const std::vector<std::pair<std::uint16_t, char>>& changes) {
    std::string image = MakeImage("d", {MakeName(7, "g", "a"), MakeName(0, "", "")},
                                  {MakeRecord(1, Kind::kSubmitted), MakeRecord(2, Kind::kIn), Record{}});
    for (const auto& [place, byte] : changes) image[place % image.size()] = byte;
    const Result<Log> log = Read(BytesOf(image));
    if (!log.ok()) return;
    RC_ASSERT(log.value().records.size() + log.value().damaged <= 3U);
    for (const Record& record : log.value().records)
      RC_ASSERT(std::string(NameOf(record.kind)) != "unknown" && record.at_us >= 0);
  }));
}

}  // namespace
}  // namespace ringway::flight
