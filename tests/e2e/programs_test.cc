// The programs at their edges: what they say when they cannot start, and what ringwayctl shows.
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/checks.h"
#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

using nlohmann::json;
using Argv = std::vector<std::string>;

// It ends with code 2 and one line on stderr that starts with the program's name and holds `what`.
void ExpectOneLine(const Argv& argv, const std::string& program, const std::string& what) {
  const Finished run = RunToEnd(argv);
  EXPECT_EQ(run.code, 2) << argv[0] << ": " << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_TRUE(run.err.starts_with(program + ": ")) << run.err;
  EXPECT_NE(run.err.find(what), std::string::npos) << run.err;
}

Argv Master(const Argv& more) {
  Argv argv = {RINGWAY_MASTER};
  argv.insert(argv.end(), more.begin(), more.end());
  return argv;
}

class Programs : public testing::Test {
 protected:
  Argv Daemon(const Argv& more) const {
    Argv argv = {RINGWAY_DAEMON, "--master", cluster_.master_address(), "--socket", directory_ / "own.sock"};
    argv.insert(argv.end(), more.begin(), more.end());
    if (std::find(argv.begin(), argv.end(), "--listen") == argv.end()) {
      argv.insert(argv.end(), {"--listen", "127.0.0.1:0"});
    }
    return argv;
  }

  std::string File(const std::string& text) const {
    std::ofstream(directory_ / "program.toml") << text;
    return directory_ / "program.toml";
  }

  TemporaryDirectory directory_;
  Cluster cluster_{{.daemons = 1}};
};

TEST_F(Programs, WrongOptionsAreOneLine) {
  ExpectRefusal(Master({}), "ringway-master", "--listen");
  ExpectRefusal(Master({"--listen", "127.0.0.1:0", "--lisen", "x"}), "ringway-master", "--lisen");
  ExpectRefusal(Master({"--listen", "nonsense"}), "ringway-master", "HOST:PORT");
  ExpectRefusal(Master({"--listen", "0.0.0.0:0"}), "ringway-master", "--insecure");
  ExpectRefusal(Master({"--listen", "127.0.0.1:0", "--detect-ms", "many"}), "ringway-master", "--detect-ms");
  ExpectRefusal(Master({"--listen", "127.0.0.1:0", "--heartbeat-ms", "60", "--detect-ms", "100"}), "ringway-master",
                "heartbeat");
  ExpectRefusal(Master({"--listen", "127.0.0.1:0", "--log-level", "loud"}), "ringway-master", "loud");
  ExpectRefusal({RINGWAY_DAEMON}, "ringwayd", "--");
  ExpectRefusal(Daemon({"--lanes", "0"}), "ringwayd", "--lanes");
  ExpectRefusal(Daemon({"--lanes", "many"}), "ringwayd", "--lanes");
  ExpectRefusal(Daemon({"--data-threads", "33"}), "ringwayd", "--data-threads");
  ExpectRefusal(Daemon({"--data-threads", "-1"}), "ringwayd", "--data-threads");
  ExpectRefusal(Daemon({"--advertise", "127.0.0.1:0"}), "ringwayd", "--advertise");
  ExpectRefusal(Daemon({"--socket-mode", "0999"}), "ringwayd", "--socket-mode");
  ExpectRefusal(Daemon({"--socket-owner", "root:nobody-is-so-named"}), "ringwayd", "no group 'nobody-is-so-named'");
  ExpectRefusal(Daemon({"--socket-owner", "nobody-is-so-named"}), "ringwayd", "no user 'nobody-is-so-named'");
  ExpectRefusal(Daemon({"--probe-bytes", "much"}), "ringwayd", "--probe-bytes");
  ExpectRefusal(Daemon({"--name", "a\xff"}), "ringwayd", "--name");
  ExpectRefusal(Daemon({"--site", std::string(64, 's')}), "ringwayd", "--site");
  ExpectRefusal(Daemon({"--site", "a", "--site-mbit", "0"}), "ringwayd", "--site-mbit");
  ExpectRefusal(Daemon({"--site-mbit", "100"}), "ringwayd", "--site");
  ExpectRefusal(Daemon({"--listen", "10.0.0.1:0"}), "ringwayd", "--insecure");
  ExpectRefusal({RINGWAY_CTL}, "ringwayctl", "--help");
  ExpectRefusal({RINGWAY_CTL, "status"}, "ringwayctl", "--master");
  ExpectRefusal({RINGWAY_CTL, "--timeout-ms", "x", "status"}, "ringwayctl", "--timeout-ms");
}

TEST_F(Programs, BadConfigFilesAreOneLine) {
  ExpectRefusal(Master({"--config", directory_ / "absent.toml"}), "ringway-master", "absent.toml");
  ExpectRefusal(Master({"--config", File("listen = \n")}), "ringway-master", "line 1");
  ExpectRefusal(Master({"--config", File("lisen = \"127.0.0.1:0\"\n")}), "ringway-master", "lisen");
  ExpectRefusal(Master({"--config", File("listen = \"127.0.0.1:0\"\ndetect-ms = \"soon\"\n")}), "ringway-master",
                "detect-ms");
  ExpectRefusal(Daemon({"--config", File("lanes = [1, 2]\n")}), "ringwayd", "lanes");
  ExpectRefusal(Daemon({"--config", File("no-such-thing = true\n")}), "ringwayd", "no-such-thing");
}

TEST_F(Programs, BusyPortsAreOneLine) {
  ExpectOneLine(Master({"--listen", cluster_.master_address()}), "ringway-master", cluster_.master_address());
  const std::string taken = cluster_.daemon(0).Logged("listening", "address");
  ExpectOneLine(Daemon({"--listen", taken}), "ringwayd", taken);
}

TEST_F(Programs, AddressOfAnotherHostIsOneLineThatBlamesNoPort) {
  const std::string other = "192.0.2.1:7401";  // TEST-NET-1: nobody's
  ExpectOneLine(Master({"--insecure", "--listen", other}), "ringway-master", "this host has");
  ExpectOneLine(Daemon({"--insecure", "--listen", other}), "ringwayd", "this host has");
}

TEST_F(Programs, PortOfADaemonIsNotTakenForTheMasters) {
  const std::string port = cluster_.daemon(0).Logged("listening", "address");
  ExpectOneLine({RINGWAY_CTL, "--master", port, "status"}, "ringwayctl", "is it the port of a daemon?");
}

TEST_F(Programs, LackOfDescriptorsIsOneLine) {
  const Argv few = {"/bin/sh", "-c", "ulimit -n 8; exec \"$0\" \"$@\""};
  for (const Argv& argv : {Daemon({}), Master({"--listen", "127.0.0.1:0"})}) {
    Argv all = few;
    all.insert(all.end(), argv.begin(), argv.end());
    ExpectOneLine(all, argv[0].substr(argv[0].rfind('/') + 1), "ulimit -n");
  }
}

TEST_F(Programs, SocketPathInUseIsOneLineAndNamesTheProcess) {
  Argv argv = Daemon({});
  *std::find(argv.begin(), argv.end(), directory_ / "own.sock") = cluster_.socket(0);
  ExpectOneLine(argv, "ringwayd", "pid " + std::to_string(cluster_.daemon(0).pid()));
  EXPECT_FALSE(cluster_.DaemonStatus(0).empty()) << "the socket of the one that runs is still its own";
}

TEST_F(Programs, PathThatIsNoSocketIsLeftAlone) {
  std::ofstream(directory_ / "own.sock") << "precious";
  ExpectOneLine(Daemon({}), "ringwayd", "no socket");
  std::string text;
  std::ifstream(directory_ / "own.sock") >> text;
  EXPECT_EQ(text, "precious");
}

TEST_F(Programs, DirectoryOfTheSocketIsMadeAndOneThatCannotBeIsOneLine) {
  Argv argv = Daemon({});
  std::string& socket = *std::find(argv.begin(), argv.end(), directory_ / "own.sock");
  socket = directory_ / "run/ringway/own.sock";
  {
    Process daemon(directory_, "maker", argv);
    ASSERT_TRUE(Eventually([&] { return !daemon.Logged("ready", "socket").empty(); })) << daemon.Err();
    struct stat info {};
    ASSERT_EQ(::stat((directory_ / "run/ringway").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0755u);
  }
  std::ofstream(directory_ / "file") << "no directory";
  socket = directory_ / "file/own.sock";
  ExpectRefusal(argv, "ringwayd", "directory");
}

TEST_F(Programs, SocketOfADeadDaemonIsReplaced) {
  const Argv argv = Daemon({"--grace-ms", "100"});
  Process first(directory_, "first", argv);
  ASSERT_TRUE(Eventually([&] { return !first.Logged("ready", "socket").empty(); }));
  first.Kill();
  struct stat info {};
  ASSERT_EQ(::stat((directory_ / "own.sock").c_str(), &info), 0) << "a killed daemon leaves its socket";
  Process second(directory_, "second", argv);
  ASSERT_TRUE(Eventually([&] { return !second.Logged("ready", "socket").empty(); }));
  second.Signal(SIGTERM);
  EXPECT_EQ(second.Wait(), 0);
  EXPECT_NE(::stat((directory_ / "own.sock").c_str(), &info), 0) << "one that was asked to stop removes it";
}

TEST_F(Programs, UnreachableMasterIsOneLineOfTheOperatorsTool) {
  const std::string gone = cluster_.master_address();
  cluster_.master().Kill();
  ExpectRefusal({RINGWAY_CTL, "--master", gone, "status"}, "ringwayctl", gone);
  cluster_.daemon(0).Kill();
}

// It is ready 10 s later, and its trainers wait with it.
TEST_F(Programs, DaemonStartsWithoutAMasterAndGoesOnWhenThereIsOne) {
  cluster_.master().Kill();
  ASSERT_TRUE(cluster_.master().Wait().has_value());
  const std::size_t late = cluster_.AddDaemon();
  EXPECT_NE(cluster_.daemon(late).Logged("no_master", "master"), "");
  EXPECT_FALSE(cluster_.MasterConnected(late));
  JoinOptions hasty = cluster_.At(late, "job", 1);
  hasty.timeout = std::chrono::milliseconds(100);
  ExpectJoinFails(hasty, Code::kMasterUnreachable, "no connection to the master");
  cluster_.RestartMaster();
  EXPECT_EQ(cluster_.JoinAll({cluster_.At(late, "job", 1)}).size(), 1u);
}

TEST_F(Programs, TrainerOfADaemonThatHasNeverReachedItsMasterLearnsTheReason) {
  cluster_.master().Kill();
  const Process alone(directory_, "alone", Daemon({}));
  struct stat info {};
  ASSERT_TRUE(Eventually([&] { return ::stat((directory_ / "own.sock").c_str(), &info) == 0; }));
  JoinOptions hasty;
  hasty.socket_path = directory_ / "own.sock";
  hasty.group = "job";
  hasty.wait_world = 1;
  hasty.timeout = std::chrono::seconds(5);
  std::vector<Code> waits;
  hasty.on_waiting = [&](const Status& cause) { waits.push_back(cause.code()); };
  const auto refused = Session::Join(hasty);
  EXPECT_EQ(refused.status().code(), Code::kMasterUnreachable) << refused.status().text();
  EXPECT_NE(refused.status().text().find("no connection to the master at " + cluster_.master_address()),
            std::string::npos)
      << refused.status().text();
  EXPECT_EQ(std::count(waits.begin(), waits.end(), Code::kDaemonUnreachable), 0);
  cluster_.daemon(0).Kill();
}

// The test runs as one user only: groups are allowed to him, or to another.
TEST_F(Programs, OnlyUsersWhomTheDaemonAllowsMayJoin) {
  const std::string me = ::getpwuid(::getuid())->pw_name;
  const std::string other = me == "nobody" ? "daemon" : "nobody";
  Cluster cluster({.daemons = 0});
  (void)cluster.AddDaemon({"--allow-user", "mine-*=" + me + ";job=" + other});
  EXPECT_TRUE(Session::Join(cluster.At(0, "mine-1", 1)).ok());
  const auto refused = Session::Join(cluster.At(0, "job", 1));
  EXPECT_EQ(refused.status().code(), Code::kJoinRefused);
  EXPECT_NE(refused.status().text().find("--allow-user"), std::string::npos) << refused.status().text();
  for (const char* event : {"trainer_joins", "trainer_refused"}) {
    EXPECT_TRUE(Eventually([&] { return cluster.daemon(0).Logged(event, "user") == std::to_string(::getuid()); }))
        << event;
  }
  ExpectRefusal(Daemon({"--allow-user", "job=no-such-user"}), "ringwayd", "no user no-such-user");
}

TEST_F(Programs, DaemonOfATakenNameWaitsForItsPredecessorsEndAndGivesUpAfterAWhile) {
  const Process patient(directory_, "patient", Daemon({"--name", "d0"}));
  EXPECT_TRUE(Eventually([&] { return !patient.Logged("master_unreachable", "master").empty(); })) << patient.Err();
  EXPECT_NE(patient.Err().find("choose another name"), std::string::npos) << patient.Err();
  cluster_.daemon(0).Kill();
  EXPECT_TRUE(Eventually([&] { return !patient.Logged("master_up", "master").empty(); })) << patient.Err();
  Argv argv = Daemon({"--name", "d0"});
  *std::find(argv.begin(), argv.end(), directory_ / "own.sock") = directory_ / "other.sock";
  ExpectRefusal(argv, "ringwayd", "choose another name");
}

TEST_F(Programs, ToolsWithoutADaemonAreOneLineAndATypedError) {
  const std::string nobody = directory_ / "nobody.sock";
  ExpectRefusal({RINGWAY_CTL, "--socket", nobody, "status"}, "ringwayctl", nobody);
  JoinOptions options;
  options.socket_path = nobody;
  options.group = "job";
  options.wait_world = 1;
  EXPECT_EQ(Session::Join(options).status().code(), Code::kDaemonUnreachable);
}

// The first line of this event in a log in JSON, all lines of which are objects.
json Said(const Process& program, const std::string& event) {
  std::istringstream log(program.Err());
  for (std::string line; std::getline(log, line) && !log.eof();) {
    json parsed = json::parse(line, nullptr, false);
    EXPECT_TRUE(parsed.is_object()) << line;
    if (parsed.is_object() && parsed["event"] == event) return parsed;
  }
  return {};
}

TEST_F(Programs, ConfigFilesDoWhatFlagsDo) {
  const std::string text = "listen = \"127.0.0.1:0\"\nheartbeat-ms = 100\ndetect-ms = 1000\nlog-format = \"json\"\n";
  Process master(directory_, "master", Master({"--config", File(text)}));
  EXPECT_TRUE(Eventually([&] { return !Said(master, "listening").is_null(); })) << master.Err();
  master.Signal(SIGTERM);
  EXPECT_EQ(master.Wait(), 0);
}

// Two peers "7" and "8" of a daemon "9".
TEST_F(Programs, DebugLogOfTheMasterNamesWhomItIsAboutInTypedFields) {
  Process master(directory_, "own_master",
                 Master({"--listen", "127.0.0.1:0", "--log-level", "debug", "--log-format", "json"}));
  ASSERT_TRUE(Eventually([&] { return !Said(master, "listening").is_null(); })) << master.Err();
  Argv argv = Daemon({"--name", "9"});
  argv[2] = Said(master, "listening")["address"];
  Process daemon(directory_, "own", argv);
  ASSERT_TRUE(Eventually([&] { return !daemon.Logged("ready", "address").empty(); })) << daemon.Err();
  std::vector<JoinOptions> options(2, cluster_.At(0, "5", 2));
  for (std::size_t i = 0; i < 2; ++i) {
    options[i].socket_path = directory_ / "own.sock";
    options[i].name = std::to_string(7 + i);
  }
  const Sessions ranks = cluster_.JoinAll(options);
  ASSERT_EQ(ranks.size(), 2u);
  const std::string address = daemon.Logged("ready", "address");
  const auto is_about_a_peer = [&](const json& line) {
    return line["group"] == "5" && line["daemon"] == "9" && line["address"] == address && line["peer"].is_string() &&
           (line["name"] == "7" || line["name"] == "8");
  };
  EXPECT_TRUE(is_about_a_peer(Said(master, "peer_joined"))) << master.Err();
  const json view = Said(master, "view_sent");
  EXPECT_TRUE(is_about_a_peer(view) && view["world"] == 2 && view["verdicts"] == 0) << view;
  const json connected = Said(master, "connected");
  EXPECT_TRUE(is_about_a_peer(connected) && connected["round_trip_us"].is_number()) << connected;
  EXPECT_TRUE(connected["other_id"].is_string() && connected["other_address"] == address) << connected;
  EXPECT_EQ(Said(master, "join")["wait_world"], 2);
  EXPECT_TRUE(Eventually([&] { return !Said(master, "heartbeat").is_null(); }));
  ASSERT_TRUE(ranks[0]->Leave().ok());
  EXPECT_TRUE(Eventually([&] { return !Said(master, "peer_left").is_null(); }));
  EXPECT_TRUE(is_about_a_peer(Said(master, "peer_left"))) << Said(master, "peer_left");
  EXPECT_EQ(daemon.Logged("trainer_gone", "why"), "") << "it left";
}

TEST_F(Programs, DebugLogTellsOfEachOperationInTypedFields) {
  Process daemon(directory_, "own", Daemon({"--site", "Zürich", "--log-level", "debug", "--log-format", "json"}));
  const auto said = [&](const std::string& event) { return Said(daemon, event); };
  ASSERT_TRUE(Eventually([&] { return !said("ready").is_null(); })) << daemon.Err();
  JoinOptions options = cluster_.At(0, "my group", 1);
  options.socket_path = directory_ / "own.sock";
  options.name = "7";
  auto session = Session::Join(options);
  ASSERT_TRUE(session.ok()) << session.status().text();
  EXPECT_EQ((*session)->Members()->at(0).site, "Zürich");
  float value = 1;
  ASSERT_TRUE((*session)->AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum).ok());
  ASSERT_TRUE(Eventually([&] { return !said("operation_done").is_null(); })) << daemon.Err();
  const json reported = said("operation_done");
  EXPECT_EQ(reported["level"], "debug");
  EXPECT_EQ(reported["group"], "my group");
  EXPECT_EQ(reported["bytes"], 4);
  EXPECT_EQ(reported["world"], 1);
  EXPECT_EQ(reported["name"], "7");
  EXPECT_TRUE(reported["peer"].is_string() && reported["us"].is_number());
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST_F(Programs, StatusShowsGroupsRanksRingAndCounters) {
  cluster_.AddDaemon({"--site", "eu"});
  cluster_.AddDaemon({"--site", "us"});
  const Sessions ranks = cluster_.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  constexpr std::uint64_t kRounds = 10;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    Round round(ranks, {.reduction = {}, .count = 1000, .number = i});
    round.Submit();
    (void)round.Check();
  }
  const json daemon = cluster_.DaemonStatus(1);
  EXPECT_EQ(daemon["daemon"]["name"], "d1");
  EXPECT_EQ(daemon["daemon"]["site"], "eu");
  EXPECT_EQ(daemon["daemon"]["pid"], cluster_.daemon(1).pid());
  EXPECT_EQ(daemon["daemon"]["master_connected"], true);
  ASSERT_EQ(daemon["groups"].size(), 1u) << daemon;
  const json& group = daemon["groups"][0];
  EXPECT_EQ(group["name"], "job");
  EXPECT_EQ(group["world_size"], 3);
  EXPECT_EQ(group["rank"], ranks[1]->rank());
  EXPECT_EQ(group["self"], ranks[1]->peer_id());
  EXPECT_EQ(group["ring"].size(), 3u);
  EXPECT_EQ(group["ops_done"], kRounds);
  EXPECT_EQ(group["ops_retried"], 0);
  EXPECT_EQ(group["ops_failed"], 0);
  EXPECT_GT(group["bytes_sent"], 1000u);
  EXPECT_GT(group["bytes_received"], 1000u);
  ASSERT_EQ(group["pairs"].size(), 2u) << daemon;
  for (const json& pair : group["pairs"]) {
    EXPECT_GE(pair["lanes_up"], 1) << pair;
    EXPECT_GE(pair["lanes_used"], 1) << pair;
    EXPECT_LE(pair["lanes_used"], pair["lanes_up"]) << pair;
    EXPECT_GT(pair["round_trip_us"], 0) << pair;
    EXPECT_TRUE(pair["rate_limit_mbit"].is_null()) << "within a host nothing is paced: " << pair;
    EXPECT_TRUE(pair["retransmits"].is_number_unsigned()) << pair;
    EXPECT_NE(pair["peer_id"], group["self"]);
    EXPECT_NE(pair["name"], "");
  }
  const Finished text = RunToEnd({RINGWAY_CTL, "--socket", cluster_.socket(1), "status"});
  EXPECT_NE(text.out.find("retransmits"), std::string::npos) << text.out;
  // The master hears the counters with the heartbeats.
  json master;
  EXPECT_TRUE(Eventually([&] {
    master = cluster_.MasterStatus();
    const json& peers = master["groups"][0]["peers"];
    return std::all_of(peers.begin(), peers.end(), [](const json& peer) { return peer["ops_done"] == kRounds; });
  })) << master;
  EXPECT_EQ(master["daemons"].size(), 3u);
  EXPECT_EQ(master["groups"][0]["epoch"], group["epoch"]);
  EXPECT_EQ(master["groups"][0]["ring"], group["ring"]);
  for (const json& peer : master["groups"][0]["peers"]) EXPECT_EQ(peer["state"], "member");
}

TEST_F(Programs, PlanExplainsItselfAndShowsWhatTheDaemonsSaw) {
  cluster_.AddDaemon({"--site", "eu"});
  cluster_.AddDaemon({"--site", "us"});
  const Sessions ranks = cluster_.JoinWorld(3);
  ASSERT_EQ(ranks.size(), 3u);
  const bench::Reduction quantized{DType::kF32, ReduceOp::kSum, Codec::kInt8};  // sends less than the plan foretells
  for (const bench::Reduction& reduction : {quantized, bench::Reduction{}}) {
    Round round(ranks, {.reduction = reduction, .count = 1000, .algorithm = Algorithm::kTree});
    round.Submit();
    (void)round.Check();
  }
  const Argv ask = {RINGWAY_CTL, "plan", "--master", cluster_.master_address(), "--group", "job", "--bytes", "4K"};
  Argv ask_json = ask;
  ask_json.emplace_back("--json");
  json plan;
  // The master hears the times with the heartbeats.
  EXPECT_TRUE(Eventually([&] {
    plan = json::parse(RunToEnd(ask_json).out, nullptr, false);
    const json& algorithms = plan["algorithms"];
    return std::any_of(algorithms.begin(), algorithms.end(), [](const json& algorithm) {
      return algorithm["name"] == "tree" && algorithm["operations"] == 1 && algorithm["measured_ms"] > 0;
    });
  })) << plan;
  EXPECT_EQ(plan["bytes"], 4096);
  EXPECT_EQ(plan["ring"]["links"].size(), 3u);
  EXPECT_EQ(plan["paths"]["delays_measured"], 6) << plan;
  const Finished text = RunToEnd(ask);
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* shown : {"group job", "the plan's choice", "bottleneck", "(eu)", "(us)"}) {
    EXPECT_NE(text.out.find(shown), std::string::npos) << shown << " is not in\n" << text.out;
  }
}

TEST_F(Programs, PlanThatCannotBeGivenIsOneLine) {
  const Argv ask = {RINGWAY_CTL, "--master", cluster_.master_address(), "plan"};
  const auto with = [&](const Argv& more) {
    Argv argv = ask;
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  };
  ExpectRefusal(with({"--group", "nobody", "--bytes", "4K"}), "ringwayctl", "no group");
  ExpectRefusal(with({"--group", "job", "--bytes", "0"}), "ringwayctl", "2^46");
  ExpectRefusal(with({"--group", "job", "--bytes", "many"}), "ringwayctl", "many");
  ExpectRefusal(with({"--group", "job"}), "ringwayctl", "--bytes");
  ExpectRefusal(with({"--bytes", "4K"}), "ringwayctl", "--group");
  ExpectRefusal({RINGWAY_CTL, "--socket", cluster_.socket(0), "plan", "--group", "job", "--bytes", "4K"}, "ringwayctl",
                "--master");
}

TEST_F(Programs, EvictDropsThePeerAndTellsItsTrainer) {
  std::vector<JoinOptions> options;
  for (std::size_t i = 0; i < 2; ++i) {
    options.push_back(cluster_.At(0, "evictions", 2));
    options.back().name = "p" + std::to_string(i);
    options.back().rejoin_when_evicted = false;
  }
  const Sessions ranks = cluster_.JoinAll(options);
  ASSERT_EQ(ranks.size(), 2u);
  const auto evict = [&](const std::string& group, const std::string& peer) {
    return Argv{RINGWAY_CTL, "--master", cluster_.master_address(), "evict", "--group", group, "--peer", peer};
  };
  ExpectRefusal(evict("nobody", "p1"), "ringwayctl", "no group");
  ExpectRefusal(evict("evictions", "p7"), "ringwayctl", "no peer p7");
  const Finished run = RunToEnd(evict("evictions", "p1"));
  EXPECT_EQ(run.code, 0) << run.err;
  Round round(std::vector{ranks[0].get()}, {.reduction = {}, .number = 1});
  round.Submit();
  EXPECT_EQ(round.Check().world_size, 1u);
  const Status reported = ranks[1]->AllReduce(nullptr, nullptr, 0, DType::kF32, ReduceOp::kSum).status();
  EXPECT_EQ(reported.code(), Code::kEvicted);
  EXPECT_NE(reported.text().find("an operator"), std::string::npos) << reported.text();
}

TEST_F(Programs, StatusForPeopleNamesTheSame) {
  const Sessions ranks = cluster_.JoinWorld(1);
  ASSERT_EQ(ranks.size(), 1u);
  for (const Argv& where : {Argv{"--master", cluster_.master_address()}, Argv{"--socket", cluster_.socket(0)}}) {
    const Finished run = RunToEnd({RINGWAY_CTL, where[0], where[1], "status"});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_NE(run.out.find("group job"), std::string::npos) << run.out;
    EXPECT_NE(run.out.find("ring d0"), std::string::npos) << run.out;
  }
}

TEST_F(Programs, MasterOnAFixedPortKeepsItsJournalInTheStateDirectory) {
  std::string address;
  {
    const Process any(directory_, "any", {RINGWAY_MASTER, "--listen", "127.0.0.1:0"});
    ASSERT_TRUE(Eventually([&] { return !(address = any.Logged("listening", "address")).empty(); }));
    EXPECT_TRUE(Eventually([&] { return any.Err().find("no_journal") != std::string::npos; }));
  }
  const std::string port = address.substr(address.rfind(':') + 1);
  const std::string state = "XDG_STATE_HOME=" + (directory_ / "state");
  const Process fixed(directory_, "fixed",
                      {"/usr/bin/env", "-u", "STATE_DIRECTORY", state, RINGWAY_MASTER, "--listen", address});
  EXPECT_TRUE(Eventually([&] { return !fixed.Logged("journal", "path").empty(); })) << fixed.Err();
  EXPECT_EQ(fixed.Logged("journal", "path"), directory_ / ("state/ringway/master-" + port + ".db"));
  EXPECT_TRUE(std::filesystem::exists(fixed.Logged("journal", "path")));
}

}  // namespace
}  // namespace ringway::e2e
