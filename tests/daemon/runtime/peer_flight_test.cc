#include "daemon/runtime/peer_flight.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/runtime/peer_runtime.h"
#include "proto/flight/reader.h"
#include "proto/stream/timer.h"

namespace ringway::daemon {
namespace {

using flight::Kind;
using flight::Record;

class PeerFlightTest : public testing::Test {
 protected:
  static constexpr PeerId kSelf{1}, kOther{2};

  void SetUp() override {
    auto memory = FlightMemory::Open("");
    ASSERT_TRUE(memory.ok()) << memory.status().text();
    deck_ = std::make_shared<FlightDeck>(std::move(memory).value(), flight::Origin{.daemon = "d"},
                                         [this](FlightDump) { ++dumps_; });
    flight_.emplace(deck_, kSelf, "g", net::Clock::Of(context_));
  }
  std::vector<Record> Records(Kind kind) const {
    const std::string image = deck_->recorder().Image({});
    const Result<flight::Log> log = flight::Read(std::as_bytes(std::span(image)));
    EXPECT_TRUE(log.ok()) << log.status().text();
    std::vector<Record> out;
    for (const Record& record : log.value().records) {
      if (record.kind == kind) out.push_back(record);
    }
    return out;
  }
  void Report(Epoch epoch, Epoch stop, bool leaving = false, const std::vector<std::uint64_t>& lost = {}) {
    control::Report report;
    report.set_leaving(leaving);
    report.set_epoch(epoch.value);
    report.set_stop(stop.value);
    report.mutable_lost()->Assign(lost.begin(), lost.end());
    flight_->OnReport(report);
  }

  asio::io_context context_{1};
  int dumps_ = 0;
  std::shared_ptr<FlightDeck> deck_;
  std::optional<PeerFlight> flight_;
};

TEST_F(PeerFlightTest, AnAbortIsRecordedOnceAViewAndOnlyWhereThisPeerHasFrozen) {
  control::PeerMessage abort;
  for (std::uint64_t epoch = 1; epoch <= 10; ++epoch) {
    abort.mutable_abort()->set_epoch(epoch);
    flight_->OnMessage(kOther, abort, false);
  }
  Report(Epoch(), Epoch::Of(1, 9));
  Report(Epoch::Of(1, 2), Epoch::Of(1, 1));
  Report(Epoch::Of(1, 2), Epoch::Of(1, 2), true);
  EXPECT_TRUE(Records(Kind::kAbort).empty());
  EXPECT_EQ(dumps_, 0);
  for (std::uint64_t stop = 2; stop < 10; ++stop)
    Report(Epoch::Of(1, 2), Epoch::Of(1, static_cast<std::uint32_t>(stop)));
  Report(Epoch::Of(1, 10), Epoch::Of(1, 10));
  const std::vector<Record> aborts = Records(Kind::kAbort);
  ASSERT_EQ(aborts.size(), 2U);
  EXPECT_EQ(aborts[0].epoch, Epoch::Of(1, 2).value);
  EXPECT_EQ(dumps_, 1) << "the pause";
}

TEST_F(PeerFlightTest, AnAbortNamesEachPeerThatIsLostOnce) {
  Report(Epoch::Of(1, 2), Epoch::Of(1, 2));  // another member has said so
  Report(Epoch::Of(1, 2), Epoch::Of(1, 3), false, {5});
  Report(Epoch::Of(1, 2), Epoch::Of(1, 4), false, {5, 6});
  Report(Epoch::Of(1, 9), Epoch::Of(1, 9), false, {5});
  std::vector<std::uint64_t> lost;
  for (const Record& abort : Records(Kind::kAbort)) lost.push_back(abort.other);
  EXPECT_EQ(lost, (std::vector<std::uint64_t>{0, 5, 6, 5}));
}

TEST_F(PeerFlightTest, AReportedMessageHasItsStream) {
  agreement::Complete complete;
  complete.collective = OpKind::kSend;
  complete.other = kOther;
  complete.tag = 7;
  flight_->OnComplete(complete, TimePoint());
  const std::vector<Record> reported = Records(Kind::kReported);
  ASSERT_EQ(reported.size(), 1U);
  EXPECT_EQ(reported[0].other, kOther.value);
  EXPECT_EQ(reported[0].tag, 7U);
  EXPECT_EQ(reported[0].flags, flight::kMessage | flight::kSends);
}

TEST_F(PeerFlightTest, AMessageThatWaitsIsNoOperation) {
  agreement::Wait wait;
  wait.what = "message 3";
  flight_->OnTick(wait, 0);
  wait.op = OpName{ChannelId(2), 5};
  flight_->OnTick(wait, 1);
  wait.what = "2:5";
  flight_->OnTick(wait, 1);
  const std::vector<Record> waits = Records(Kind::kWaits);
  ASSERT_EQ(waits.size(), 2U);
  EXPECT_EQ(waits[0].flags, flight::kMessage);
  EXPECT_EQ(waits[1].flags, 0);
  EXPECT_EQ(waits[1].seq, 5U);
  EXPECT_EQ(dumps_, 1);
}

TEST_F(PeerFlightTest, NothingIsKeptOfALaneThatHasEnded) {
  links::Inbound inbound;
  inbound.kind = links::Inbound::Kind::kDirect;
  for (const bool all : {false, true}) {
    flight_->OnHeader(LaneOf(kOther, LaneId(0)), {}, inbound);
    if (all)
      flight_->OnLinksClosed(kOther);
    else
      flight_->OnLaneClosed(LaneOf(kOther, LaneId(0)));
    flight_->OnPayload(LaneOf(kOther, LaneId(0)), TimePoint());
  }
  EXPECT_TRUE(Records(Kind::kIn).empty());
}

TEST_F(PeerFlightTest, ItsNameMakesRoomOnlyWhenItHasEnded) {
  flight_->AddName("a");
  const auto name_others = [&](std::uint64_t from) {
    for (std::uint64_t i = 0; i < 2 * flight::Recorder::kNames; ++i)
      deck_->recorder().AddName(PeerId(from + i), "o", "x");
  };
  const auto is_named = [&] { return deck_->recorder().Image({.group = "g"}).size() == flight::ImageBytes(1, 0); };
  name_others(100);
  EXPECT_TRUE(is_named());
  flight_.reset();
  EXPECT_TRUE(is_named());
  name_others(10'000);
  EXPECT_FALSE(is_named());
}

}  // namespace
}  // namespace ringway::daemon
