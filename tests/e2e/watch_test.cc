// What an operator at a terminal sees of a cluster: who holds a group up, what happened, and the live table.
#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/e2e/cluster.h"
#include "tests/e2e/terminal.h"

namespace ringway::e2e {
namespace {

using Words = std::vector<std::string>;

class WatchTest : public testing::Test {
 protected:
  Words Argv(const Words& where, const Words& command) const {
    Words argv = {RINGWAY_CTL};
    for (const Words& part : {where, command}) argv.insert(argv.end(), part.begin(), part.end());
    return argv;
  }
  Words Master() const {
    Words where = {"--master", cluster_.master_address(), "--timeout-ms", "60000"};
    const Words tls = cluster_.TlsOptionsOf("op");
    where.insert(where.end(), tls.begin(), tls.end());
    return where;
  }
  Words Daemon(std::size_t index) const { return {"--socket", cluster_.socket(index), "--timeout-ms", "60000"}; }
  // What it prints; expects that it succeeds.
  std::string Ctl(const Words& where, const Words& command) const {
    const Finished run = RunToEnd(Argv(where, command));
    EXPECT_EQ(run.code, 0) << run.err;
    return run.out;
  }
  bool Says(const Words& where, const Words& command, const std::string& text) const {
    std::string last;
    const bool said = Eventually([&] { return (last = Ctl(where, command)).find(text) != std::string::npos; });
    if (!said) ADD_FAILURE() << text << " is not in " << last;
    return said;
  }
  // Trainers r0, r1 and so on, one at each daemon.
  Sessions Join(std::uint32_t world) const {
    std::vector<JoinOptions> options;
    for (std::uint32_t i = 0; i < world; ++i) {
      options.push_back(cluster_.At(i, "job", world));
      options.back().name = "r" + std::to_string(i);
    }
    return cluster_.JoinAll(options);
  }

  Cluster cluster_{{.daemons = 3, .detect_ms = ClusterOptions::kShortDetectMs}};
};

TEST_F(WatchTest, WhyNamesTheTrainerThatTheOthersWaitForAndNobodyOnceItComes) {
  const Sessions ranks = Join(3);
  ASSERT_EQ(ranks.size(), 3U);
  Round round(ranks);
  for (const std::size_t early : {0, 1}) round.SubmitOn(early);
  EXPECT_TRUE(Says(Master(), {"why", "job"}, "r0, r1 wait for operation 0:1 for "));
  EXPECT_TRUE(Says(Master(), {"why", "job"}, "at daemon d2) has not submitted it"));
  EXPECT_TRUE(Says(Master(), {"status"}, "r0, r1 wait for r2: 0:1, "));
  EXPECT_TRUE(Says(Master(), {"top"}, "r0, r1 wait for it"));
  EXPECT_TRUE(Says(Daemon(0), {"why", "job"}, "r0 waits for operation 0:1 for "));
  EXPECT_TRUE(Says(Daemon(0), {"top"}, "0:1 waits "));
  EXPECT_TRUE(Says(Daemon(2), {"why", "job"}, "nothing is seen that holds it up"))
      << "its own trainer waits for nobody";
  round.SubmitOn(2);
  (void)round.Check();
  EXPECT_TRUE(Says(Master(), {"why", "job"}, "nothing is seen that holds it up"));
  const auto json = nlohmann::json::parse(Ctl(Master(), {"why", "job", "--json"}));
  EXPECT_TRUE(json["causes"].empty()) << json;
}

TEST_F(WatchTest, RatesAreThoseOfTheOperationsThatRun) {
  const Sessions ranks = Join(3);
  ASSERT_EQ(ranks.size(), 3U);
  const auto live = [&] { return cluster_.MasterStatus()["groups"][0]["peers"][1].value("live", nlohmann::json()); };
  const bool seen = Eventually([&] {
    Round round(ranks, {.reduction = {}, .count = 100'000});
    round.Submit();
    (void)round.Check();
    const nlohmann::json now = live();
    return now.is_object() && now["ops_per_s"] > 0 && now["op_ms"] > 0 && now["sent_mbit"] > 0;
  });
  EXPECT_TRUE(seen) << live();
  EXPECT_TRUE(Eventually([&] { return live()["ops_per_s"] == 0; })) << "when nothing runs any more";
}

TEST_F(WatchTest, EventsTellOfADeathAndAJoinAndFollowARestartedMaster) {
  const TemporaryDirectory directory;
  Process follower(directory, "follower", Argv(Master(), {"events", "--follow", "--group", "job"}));
  Process all(directory, "all", Argv(Master(), {"events", "--follow", "--json"}));
  Sessions ranks = Join(3);
  ASSERT_EQ(ranks.size(), 3U);
  cluster_.daemon(2).Kill();
  ranks.pop_back();
  (void)RoundsUntil(ranks, [](const OpResult& result) { return result.world_size == 2; });
  const auto follows = [&](const std::string& text) {
    const bool said = Eventually([&] { return follower.Out().find(text) != std::string::npos; });
    EXPECT_TRUE(said) << text << " is not in " << follower.Out();
  };
  follows("begins: 3 peers, ");
  follows("dropped        job  r2  ");
  follows("goes on: 2 peers, ");
  const std::string now = Ctl(Master(), {"events", "--since", "10m"});
  EXPECT_NE(now.find("lost contact with it"), std::string::npos) << now;
  EXPECT_NE(now.find("daemon_down"), std::string::npos) << now;
  EXPECT_EQ(Ctl(Master(), {"events", "--since", "0s"}), "");
  EXPECT_TRUE(Says(Daemon(0), {"events"}, "view_installed"));
  cluster_.master().Kill();
  // A master that is back between two polls of the follower has not been away for it.
  EXPECT_TRUE(Eventually([&] { return all.Err().find("asking again") != std::string::npos; })) << all.Err();
  cluster_.RestartMaster();
  EXPECT_TRUE(Eventually([&] {
    std::istringstream lines(all.Out());
    for (std::string line; std::getline(lines, line);) {
      const auto event = nlohmann::json::parse(line, nullptr, false);
      if (event.is_object() && event["event"] == "master_started" && event["text"] == "term 2") return true;
    }
    return false;
  })) << all.Out();
}

TEST_F(WatchTest, TopOnATerminalObeysItsKeysAndLeavesItAsItWas) {
  const Sessions ranks = Join(3);
  Terminal terminal(Argv(Master(), {"top", "--interval-ms", "200"}));
  ASSERT_TRUE(terminal.Shows("sorted by what hurts"));
  EXPECT_TRUE(terminal.Shows("q quit  s sort"));
  EXPECT_FALSE(terminal.IsAsBefore()) << "keys come at once, and are not echoed";
  terminal.Press("s");
  EXPECT_TRUE(terminal.Shows("sorted by name"));
  terminal.Press("h");
  EXPECT_TRUE(terminal.Shows("late ms   by how much it submits after the first"));
  terminal.Press(" ");
  EXPECT_TRUE(terminal.Shows("PAUSED"));
  terminal.Press("q");
  EXPECT_EQ(terminal.Wait(), 0);
  EXPECT_TRUE(terminal.IsAsBefore());
  EXPECT_TRUE(terminal.output().ends_with("\x1b[?25h\x1b[?1049l")) << "the cursor and the screen are back";
}

TEST_F(WatchTest, TopOutlivesItsMasterAndEndsInOrderBySignal) {
  const Sessions ranks = Join(3);
  Terminal terminal(Argv(Master(), {"top", "--interval-ms", "200"}));
  ASSERT_TRUE(terminal.Shows("r2"));
  cluster_.master().Kill();
  EXPECT_TRUE(terminal.Shows("no master at"));
  cluster_.RestartMaster();
  terminal.Press("s");
  EXPECT_TRUE(terminal.Shows("sorted by name"));
  terminal.Signal(SIGTERM);
  EXPECT_EQ(terminal.Wait(), 0);
  EXPECT_TRUE(terminal.IsAsBefore());
}

TEST_F(WatchTest, TopWithoutATerminalIsText) {
  const Sessions ranks = Join(3);
  const std::string text = Ctl(Daemon(0), {"top", "--count", "2", "--interval-ms", "100"});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  const std::size_t first = text.find("daemon  1 groups, 1 peers");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_NE(text.find("daemon  1 groups, 1 peers", first + 1), std::string::npos) << text;
}

TEST(CtlErrorTest, MistakesAreNamed) {
  const auto error = [](const Words& command) {
    Words argv = {RINGWAY_CTL};
    argv.insert(argv.end(), command.begin(), command.end());
    const Finished run = RunToEnd(argv);
    EXPECT_EQ(run.code, 2) << run.out;
    return run.err;
  };
  EXPECT_NE(error({"statsu"}).find("no command 'statsu': it is one of status, events, why"), std::string::npos);
  EXPECT_NE(error({"--json", "wy", "job"}).find("no command 'wy'"), std::string::npos);
  EXPECT_NE(error({"certs", "isue"}).find("no command 'isue': it is one of init, issue, revoke, show"),
            std::string::npos)
      << error({"certs", "isue"});
  EXPECT_NE(error({"--master", "127.0.0.1:0", "status"}).find("has port 0, where nobody can be dialled"),
            std::string::npos);
  EXPECT_NE(error({"--master", "127.0.0.1:0", "doctor"}).find("has port 0"), std::string::npos);
  EXPECT_NE(error({"events", "--since", "soon"}).find("'soon' is no age"), std::string::npos);
  EXPECT_NE(error({"--timeout", "5", "status"}).find("not understood: --timeout 5; see ringwayctl status --help"),
            std::string::npos)
      << error({"--timeout", "5", "status"});
  EXPECT_NE(error({"--json", "top"}).find("status --json has all that it shows"), std::string::npos);
  Cluster cluster({.daemons = 0, .tls = false});
  const std::string unknown = error({"--master", cluster.master_address(), "why", "nobody"});
  EXPECT_NE(unknown.find("there is no group nobody here: there is none at all"), std::string::npos) << unknown;
  Cluster other({.daemons = 1, .tls = false});
  const Sessions ranks = other.JoinAll({other.At(0, "job", 1)});
  for (const Words& command :
       {Words{"why", "jbo"}, Words{"top", "--group", "jbo"}, Words{"events", "--group", "jbo"}}) {
    for (const Words& where : {Words{"--master", other.master_address()}, Words{"--socket", other.socket(0)}}) {
      Words argv = where;
      argv.insert(argv.end(), command.begin(), command.end());
      const std::string said = error(argv);
      EXPECT_NE(said.find("there is no group jbo here: there are job"), std::string::npos) << said;
    }
  }
}

}  // namespace
}  // namespace ringway::e2e
