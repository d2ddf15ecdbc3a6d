#include "daemon/flight/recorder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "proto/flight/reader.h"
#include "tests/proto/flight/images.h"

namespace ringway::flight {
namespace {

class RecorderTest : public ::testing::Test {
 protected:
  // Records as a reader sees them.
  std::vector<Record> Read(const Filter& filter = {}) {
    const Result<Log> log = flight::Read(BytesOf(recorder_.Image(filter)));
    EXPECT_TRUE(log.ok()) << log.status().text();
    return log.ok() ? log.value().records : std::vector<Record>();
  }
  static Record Of(Kind kind, std::uint64_t self, std::uint64_t seq, std::int64_t at_us = 1) {
    Record record{};
    record.kind = kind;
    record.self = self;
    record.seq = seq;
    record.at_us = at_us;
    return record;
  }
  static Record Part(std::int64_t at_us, std::uint32_t took_us, std::uint32_t work_us) {
    Record part = Of(Kind::kIn, 1, 5, at_us);
    part.took_us = took_us;
    part.work_us = work_us;
    part.segments = 1;
    part.bytes = 100;
    return part;
  }

  std::vector<std::uint64_t> memory_ = std::vector<std::uint64_t>(Recorder::kBytes / 8 + 1);
  Recorder recorder_{
      std::as_writable_bytes(std::span(memory_)),
      {.daemon = "d", .site = "here", .utc = "2026-11-30T00:00:00Z", .instance = 3, .pid = 4, .now = {}}};
};

TEST_F(RecorderTest, TheMemoryIsAnImageAtAnyTime) {
  recorder_.AddName(PeerId(1), "g", "a");
  recorder_.Add(Of(Kind::kSubmitted, 1, 0));
  const Result<Log> log = flight::Read(std::as_bytes(std::span(memory_)));
  ASSERT_TRUE(log.ok()) << log.status().text();
  EXPECT_EQ(log.value().site, "here");
  EXPECT_EQ(log.value().pid, 4U);
  EXPECT_EQ(log.value().peers.at(1).name, "a");
  ASSERT_EQ(log.value().records.size(), 1U);
}

TEST_F(RecorderTest, TheNewestRecordsReplaceTheOldest) {
  for (std::uint64_t i = 0; i < Recorder::kRecords + 10; ++i) recorder_.Add(Of(Kind::kReadyIn, 1, i));
  const std::vector<Record> records = Read();
  ASSERT_EQ(records.size(), std::size_t{Recorder::kRecords});
  EXPECT_EQ(records.front().seq, 10U);
  EXPECT_EQ(records.back().seq, Recorder::kRecords + 9U);
}

TEST_F(RecorderTest, SegmentsOfAChunkAreSummedUpInOneRecord) {
  recorder_.AddPart(Part(1000, 50, 10));
  recorder_.AddPart(Part(1020, 40, 15));   // on another lane, meanwhile
  recorder_.AddPart(Part(2000, 100, 20));  // 940 us after the last of these
  const std::vector<Record> records = Read();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].at_us, 1000);
  EXPECT_EQ(records[0].took_us, 1100U);
  EXPECT_EQ(records[0].work_us, 45U);
  EXPECT_EQ(records[0].gap_us, 940U);
  EXPECT_EQ(records[0].segments, 3U);
  EXPECT_EQ(records[0].bytes, 300U);
}

TEST_F(RecorderTest, AnotherChunkStepOrPeerHasARecordOfItsOwn) {
  recorder_.AddPart(Part(1, 1, 1));
  for (const auto& change : std::vector<void (*)(Record&)>{
           [](Record& part) { part.chunk = 1; }, [](Record& part) { part.step = 1; },
           [](Record& part) { part.other = 2; }, [](Record& part) { part.self = 2; },
           [](Record& part) { part.epoch = 2; }, [](Record& part) { part.seq = 6; },
           [](Record& part) { part.channel = 1; }, [](Record& part) { part.kind = Kind::kOut; }}) {
    Record part = Part(1, 1, 1);
    change(part);
    recorder_.AddPart(part);
  }
  EXPECT_EQ(Read().size(), 9U);
}

TEST_F(RecorderTest, AChunkWhoseRecordWasOverwrittenGetsAnother) {
  recorder_.AddPart(Part(1, 1, 1));
  for (std::uint64_t i = 0; i < Recorder::kRecords; ++i) recorder_.Add(Of(Kind::kReadyIn, 1, i));
  recorder_.AddPart(Part(9, 1, 1));
  const std::vector<Record> records = Read();
  EXPECT_EQ(records.back().kind, Kind::kIn);
  EXPECT_EQ(records.back().segments, 1U);
}

TEST_F(RecorderTest, WorkAfterAPauseIsAnotherRecord) {
  Record work = Of(Kind::kWork, 1, 0, 1000);
  work.took_us = 100;
  recorder_.AddPart(work);
  work.at_us = 1150;
  recorder_.AddPart(work);
  work.at_us = 9000;
  recorder_.AddPart(work);
  const std::vector<Record> records = Read();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].took_us, 250U);
}

TEST_F(RecorderTest, ATraceHasTheLastOperationsOfItsGroup) {
  recorder_.AddName(PeerId(1), "g", "a");
  recorder_.AddName(PeerId(2), "other", "b");
  for (std::uint64_t seq = 0; seq < 10; ++seq) {
    for (const std::uint64_t self : {1, 2}) {
      recorder_.Add(Of(Kind::kSubmitted, self, seq));
      recorder_.Add(Of(Kind::kReported, self, seq));
    }
    if (seq == 2 || seq == 8) recorder_.Add(Of(Kind::kView, 1, 0));
  }
  const std::vector<Record> records = Read({.group = "g", .last = 3});
  ASSERT_EQ(records.size(), 7U);
  for (const Record& record : records) {
    EXPECT_EQ(record.self, 1U);
    EXPECT_TRUE(record.kind == Kind::kView || record.seq >= 7U) << record.seq;
  }
  EXPECT_TRUE(Read({.group = "none"}).empty());
}

// Their 0:0 would be one of the newest.
TEST_F(RecorderTest, ATraceHasTheOperationsThatAreNamedAndMessagesByTheirCount) {
  recorder_.AddName(PeerId(1), "g", "a");
  for (std::uint64_t seq = 1; seq <= 9; ++seq) {
    recorder_.Add(Of(Kind::kView, 1, 0, static_cast<std::int64_t>(10 * seq)));
    recorder_.Add(Of(Kind::kSubmitted, 1, seq));
    Record message = Of(Kind::kReported, 1, seq);
    message.flags = kMessage;
    recorder_.Add(message);
    Record other = Of(Kind::kSubmitted, 1, seq);
    other.channel = 1;
    recorder_.Add(other);
  }
  std::vector<std::uint64_t> operations, messages;
  std::size_t views = 0;
  for (const Record& record : Read({.group = "", .last = 2, .only = {{.channel = 0, .first = 4, .last = 6}}})) {
    EXPECT_EQ(record.channel, 0U);
    if (record.kind == Kind::kSubmitted) operations.push_back(record.seq);
    if (record.kind == Kind::kReported) messages.push_back(record.seq);
    views += record.kind == Kind::kView ? 1 : 0;
  }
  EXPECT_EQ(operations, (std::vector<std::uint64_t>{4, 5, 6}));
  EXPECT_EQ(messages, (std::vector<std::uint64_t>{8, 9}));
  EXPECT_LT(views, 9U) << "none from long before";
}

TEST_F(RecorderTest, WhatNamesNoOperationIsNoneOfTheLast) {
  recorder_.AddName(PeerId(1), "g", "a");
  recorder_.Add(Of(Kind::kSubmitted, 1, 7));
  recorder_.Add(Of(Kind::kStuck, 1, 0));
  Record waits = Of(Kind::kWaits, 1, 0);
  waits.flags = kMessage;
  recorder_.Add(waits);
  EXPECT_EQ(Read({.group = "g", .last = 1}).size(), 3U);
}

TEST_F(RecorderTest, MessagesAreCountedInEachStream) {
  recorder_.AddName(PeerId(1), "g", "a");
  const auto add = [&](std::uint64_t other, std::uint32_t tag, std::uint8_t flags, std::uint64_t seq) {
    Record record = Of(Kind::kReported, 1, seq);
    record.other = other;
    record.tag = tag;
    record.flags = flags;
    recorder_.Add(record);
  };
  for (const std::uint64_t seq : {1, 9}) {
    add(2, 0, kMessage, seq);
    add(3, 0, kMessage, seq + 1);
    add(2, 1, kMessage, seq + 2);
    add(2, 0, kMessage | kSends, seq + 3);
  }
  const std::vector<Record> records = Read({.group = "g", .last = 1});
  ASSERT_EQ(records.size(), 4U);
  for (const Record& record : records) EXPECT_GE(record.seq, 9U);
}

TEST_F(RecorderTest, ATraceThatIsTooLongLosesItsOldest) {
  recorder_.AddName(PeerId(1), "g", "a");
  for (std::uint64_t seq = 0; seq < 10; ++seq) recorder_.Add(Of(Kind::kSubmitted, 1, seq));
  const std::string image = recorder_.Image({.group = "g", .bytes_max = ImageBytes(1, 4)});
  EXPECT_EQ(image.size(), ImageBytes(1, 4));
  const Result<Log> log = flight::Read(BytesOf(image));
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log.value().records.front().seq, 6U);
  EXPECT_EQ(log.value().left_out, 6U);
}

TEST_F(RecorderTest, NamesOfPeersHereAndOfThoseNamedLastStay) {
  recorder_.AddSelf(PeerId(1), "g", "a");
  recorder_.AddName(PeerId(2), "g", "b");
  for (std::uint64_t peer = 1000; peer < 1000 + 4 * Recorder::kNames; ++peer) {
    recorder_.AddName(PeerId(peer), "other", "x");
    recorder_.AddName(PeerId(2), "g", "b");
  }
  recorder_.Add(Of(Kind::kSubmitted, 1, 7));
  EXPECT_EQ(Read({.group = "g"}).size(), 1U);
  EXPECT_TRUE(flight::Read(BytesOf(recorder_.Image({}))).value().peers.contains(2));
}

TEST_F(RecorderTest, NamesOfTheNewestPeersStay) {
  for (std::uint64_t peer = 1; peer <= Recorder::kNames + 1; ++peer) recorder_.AddName(PeerId(peer), "g", "x");
  recorder_.AddName(PeerId(2), "g", "renamed");
  const Result<Log> log = flight::Read(BytesOf(recorder_.Image({})));
  ASSERT_TRUE(log.ok());
  EXPECT_EQ(log.value().peers.size(), std::size_t{Recorder::kNames});
  EXPECT_FALSE(log.value().peers.contains(1));
  EXPECT_EQ(log.value().peers.at(2).name, "renamed");
}

}  // namespace
}  // namespace ringway::flight
