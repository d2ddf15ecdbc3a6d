// What peers do now, and what is known of their paths, as the master's status has it.
#include "master/coordination/status.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/master/coordination/coordinator_fixture.h"

namespace ringway {
namespace {

using nlohmann::json;

class LiveStatusTest : public CoordinatorTest {
 protected:
  json Ask(const StatusQuery& query, std::size_t bytes_max = 4 << 20) {
    StatusReport report(bytes_max, query);
    while (report.Step(*coordinator_)) {
    }
    const std::string text = report.Finish(*coordinator_, {.uptime = {}, .journal = "ok"});
    EXPECT_LE(text.size(), bytes_max);
    return json::parse(text);
  }
  // `connection` says what its peer does.
  control::PeerLive& LiveOf(std::uint64_t connection) {
    beat_.Clear();
    control::PeerCounters& counters = *beat_.mutable_heartbeat()->add_counters();
    counters.set_peer(peers_[connection]);
    return *counters.mutable_live();
  }

  control::ToMaster beat_;
};

TEST_F(LiveStatusTest, WhoWaitsForWhomIsNamed) {
  Form(3);
  EXPECT_TRUE(Ask({})["groups"][0]["peers"][0]["live"].is_null()) << "an older daemon says nothing";
  control::PeerLive& live = LiveOf(1);
  live.set_operations_milli(12'500);
  live.set_operation_us(8'100);
  live.mutable_wait()->set_what("0:7");
  live.mutable_wait()->set_age_ms(4200);
  live.mutable_wait()->add_on(peers_[3]);
  live.mutable_wait()->add_on(4711);  // nobody
  control::PathTraffic& path = *live.add_paths();
  path.set_other(peers_[2]);
  path.set_bytes_per_second(1'250'000);
  Say(1, beat_);
  const json of_first = Ask({})["groups"][0]["peers"][0]["live"];
  EXPECT_EQ(of_first["ops_per_s"], 12.5);
  EXPECT_EQ(of_first["op_ms"], 8.1);
  EXPECT_EQ(of_first["sent_mbit"], 10.0);
  EXPECT_EQ(of_first["wait"]["what"], "0:7");
  EXPECT_EQ(of_first["wait"]["on"], json::array({"p3"}));
  (void)LiveOf(1);
  Say(1, beat_);
  EXPECT_TRUE(Ask({})["groups"][0]["peers"][0]["live"]["wait"].is_null());
}

TEST_F(LiveStatusTest, PathsAreByRankWithTheirAges) {
  round_trip_ = std::chrono::milliseconds(30);
  Form(2);
  control::ToMaster measured;
  measured.mutable_measured()->set_peer(peers_[1]);
  measured.mutable_measured()->set_other(peers_[2]);
  measured.mutable_measured()->set_bytes_per_second(12'500'000);
  Say(1, measured);
  control::PathTraffic& path = *LiveOf(1).add_paths();
  path.set_other(peers_[2]);
  path.set_bytes_per_second(2'500'000);
  path.set_resent_per_second(25'000);
  Say(1, beat_);
  Wait(std::chrono::seconds(10), {1, 2});
  EXPECT_FALSE(Ask({})["groups"][0].contains("paths"));
  const json group = Ask({.group = "g", .paths = true})["groups"][0];
  EXPECT_EQ(group["paths"]["ranks"], json::array({"p1", "p2"}));
  EXPECT_EQ(group["paths"]["delay_ms"], json::parse("[[null, 15.0], [15.0, null]]"));
  EXPECT_EQ(group["paths"]["rate_mbit"], json::parse("[[null, 100.0], [null, null]]"));
  EXPECT_EQ(group["paths"]["age_s"][0][1], 10);
  EXPECT_EQ(group["paths"]["resent_part"], json::parse("[[null, 0.01], [null, null]]"));
  EXPECT_EQ(group["paths"]["sent_mbit"][1][0], nullptr) << "its daemon has said nothing";
}

TEST_F(LiveStatusTest, QueryLimitsWhatIsAnswered) {
  Form(2);
  ASSERT_NE(Join(3, 1, "h"), 0U);
  EXPECT_EQ(Ask({})["groups"].size(), 2U);
  EXPECT_FALSE(Ask({}).contains("events"));
  EXPECT_EQ(Ask({.group = "h"})["groups"].size(), 1U);
  EXPECT_TRUE(Ask({.group = "none"})["groups"].empty());
  const json events = Ask({.events_after = 1, .only_events = true});
  EXPECT_TRUE(events["groups"].empty());
  EXPECT_TRUE(events["daemons"].empty());
  ASSERT_GT(events["events"].size(), 3U);
  EXPECT_EQ(events["events"][0]["number"], 2);
  const std::uint64_t last = events["events"].back()["number"];
  EXPECT_TRUE(Ask({.events_after = last, .only_events = true})["events"].empty());
  for (int i = 0; i < 1000; ++i) coordinator_->Note({.kind = "order"});
  EXPECT_EQ(Ask({.events_after = 0})["events"].back()["number"], last + 1000) << "0: the newest";
  EXPECT_EQ(Ask({.events_after = 1})["events"].size(), kEventsMax);
}

TEST_F(LiveStatusTest, HostileFactsKeepTheBoundOfTheAnswer) {
  Form(3);
  control::PeerLive& live = LiveOf(1);
  live.set_operation_us(~std::uint64_t{0});
  live.mutable_wait()->set_what(std::string(100'000, 'x'));
  for (int i = 0; i < 10'000; ++i) {
    live.mutable_wait()->add_on(peers_[2]);
    control::PathTraffic& path = *live.add_paths();
    path.set_other(peers_[2]);
    path.set_bytes_per_second(~std::uint64_t{0});
  }
  Say(1, beat_);
  const json wait = Ask({.paths = true})["groups"][0]["peers"][0]["live"]["wait"];
  EXPECT_LE(wait["what"].get<std::string>().size(), 256U);
  EXPECT_LE(wait["on"].size(), 64U);
  for (std::size_t i = 0; i < 2 * kEventsMax; ++i) {
    coordinator_->Note({.kind = "order", .text = std::string(EventLog::kTextBytesMax, '\x01')});
  }
  EXPECT_LE(Ask({.events_after = 1}, kEventsBytesMax + 8192)["events"].size(), kEventsMax);
}

}  // namespace
}  // namespace ringway
