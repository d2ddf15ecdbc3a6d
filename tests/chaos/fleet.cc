#include "tests/chaos/fleet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <utility>

#include "proto/tls/authority.h"
#include "tests/chaos/checker.h"
#include "tests/e2e/release.h"

namespace ringway::chaos {

using e2e::Eventually;
using e2e::Process;

Fleet::Fleet(const FleetOptions& options) : options_(options), seats_(kSeats) {
  std::filesystem::create_directory(histories());
  history_.emplace(histories() + "/fleet.jsonl");
  history_->Write("run", history::Object().Add("source", "chaos").Add("retained_bytes", kSmallBytesMax));
  if (options.tls) {
    const e2e::Finished init = e2e::RunToEnd({RINGWAY_CTL, "certs", "init", directory_ / "tls"});
    EXPECT_EQ(init.code, 0) << init.err;
  }
  std::filesystem::permissions(directory_.path(), std::filesystem::perms::others_exec,
                               std::filesystem::perm_options::add);
  StartMaster();
  for (std::size_t i = 0; i < kSeats; ++i) {
    seats_[i].relay = std::make_unique<e2e::Relay>();
    seats_[i].surrounded = std::make_unique<Surrounded>(directory_ / ("d" + std::to_string(i) + ".surroundings"));
    std::ofstream(RecordsOf(i), std::ios::app).close();
    seats_[i].records.open(RecordsOf(i));
    StartDaemon(i);
  }
  EXPECT_TRUE(Eventually([this] {
    (void)Poll();
    for (const Seat& seat : seats_) {
      if (!seat.aimed || seat.daemon->Logged("master_up", "master").empty()) return false;
    }
    return true;
  })) << "the daemons do not come up";
}

Fleet::~Fleet() {
  if (testing::Test::HasFailure()) KeepLogs();
}

std::vector<std::string> Fleet::TlsOptionsOf(const std::string& name, const std::string& role) const {
  if (!options_.tls) return {};
  const std::string base = directory_ / "tls/";
  if (!std::filesystem::exists(base + name + ".pem")) {
    const e2e::Finished issue =
        e2e::RunToEnd({RINGWAY_CTL, "certs", "issue", name, "--role", role, "--dir", directory_ / "tls"});
    EXPECT_EQ(issue.code, 0) << issue.err;
  }
  return {"--tls-ca", base + "ca.pem", "--tls-cert", base + name + ".pem", "--tls-key", base + name + ".key"};
}

std::string Fleet::ProgramOf(const std::string& here) {
  if (!options_.previous || dice_() % 2 == 0) return here;
  return *e2e::PreviousPrograms() + here.substr(here.rfind('/'));
}

void Fleet::StartMaster() {
  master_.reset();
  std::vector<std::string> argv = {ProgramOf(RINGWAY_MASTER),
                                   "--listen",
                                   master_address_,
                                   "--journal",
                                   directory_ / "disk/master.db",
                                   "--heartbeat-ms",
                                   std::to_string(options_.heartbeat_ms),
                                   "--detect-ms",
                                   std::to_string(options_.detect_ms),
                                   "--detect-far-ms",
                                   "0"};
  const std::vector<std::string> tls = TlsOptionsOf("m", "master");
  argv.insert(argv.end(), tls.begin(), tls.end());
  master_ = std::make_unique<Process>(directory_, "master." + std::to_string(masters_++),
                                      options_.host_faults ? master_surrounded_.Start(argv) : argv);
  std::string address;
  EXPECT_TRUE(Eventually([&] { return !(address = master_->Logged("listening", "address")).empty(); }))
      << "the master does not start";
  master_address_ = address;
  master_relay_.Aim(address);
}

void Fleet::StartDaemon(std::size_t index) {
  Seat& seat = seats_[index];
  seat.daemon.reset();
  seat.aimed = false;
  const std::string name = "d" + std::to_string(index);
  std::vector<std::string> argv = {ProgramOf(RINGWAY_DAEMON),
                                   "--master",
                                   MasterAddressOf(index),
                                   "--listen",
                                   "127.0.0.1:0",
                                   "--advertise",
                                   seat.relay->address(),
                                   "--socket",
                                   Socket(index),
                                   "--socket-mode",
                                   "0666",
                                   "--name",
                                   name,
                                   "--site",
                                   index < kSeats / 2 ? "east" : "west",
                                   "--grace-ms",
                                   "10000",
                                   "--data-threads",
                                   std::to_string(1 + index % 3)};
  const std::vector<std::string> tls = TlsOptionsOf(name, "daemon");
  argv.insert(argv.end(), tls.begin(), tls.end());
  seat.daemon = std::make_unique<Process>(directory_, name + "." + std::to_string(seat.daemons++),
                                          options_.host_faults ? seat.surrounded->Start(argv) : argv);
}

void Fleet::StartTrainer(std::size_t index) {
  Seat& seat = seats_[index];
  seat.trainer.reset();
  const std::string seed = std::to_string(options_.seed);
  std::vector<std::string> argv;
  const bool has_device = index % 3 == 0;
  if (has_device && !options_.gpu) {  // of which copies are late and fail
    argv = {"/usr/bin/env", "RINGWAY_DEVICE_LIBRARY=" RINGWAY_TEST_DEVICE_PATH,
            "RINGWAY_TEST_DEVICE=delay_us=2000,fail_one_in=150,refuse_one_in=300,no_memory_one_in=20,no_hold_one_in=4,"
            "seed=" +
                std::to_string(options_.seed + seat.trainers)};
  }
  argv.insert(argv.end(), {ProgramOf(RINGWAY_CHAOS_TRAINER), "--socket", Socket(index), "--group", "chaos", "--records",
                           RecordsOf(index), "--history", HistoryOf(index), "--seed", seed, "--deadline-ms",
                           std::to_string(options_.op_deadline_ms)});
  if (has_device && options_.gpu) argv.emplace_back("--gpu");
  const std::string label = "t" + std::to_string(index) + "." + std::to_string(seat.trainers++);
  seat.trainer = std::make_unique<Process>(directory_, label, argv);
}

void Fleet::Certify(std::size_t seat, std::chrono::seconds lasts) {
  const std::string directory = directory_ / "tls";
  const Identity identity{.role = ProcessRole::kDaemon, .name = "d" + std::to_string(seat)};
  const tls::CredentialFiles files = tls::FilesOf(directory, identity.name);
  for (const std::string& file : {files.cert, files.key}) std::filesystem::remove(file);
  const Status issued =
      tls::Issue({.dir = directory, .out = directory}, identity, {.begins = -std::chrono::minutes(1), .ends = lasts});
  EXPECT_TRUE(issued.ok()) << issued.text();
  daemon(seat).Signal(SIGHUP);
}

// Some know the master by a name, which is resolved each time that they dial it.
std::string Fleet::MasterAddressOf(std::size_t seat) const {
  const std::string address = master_relay_.address();
  if (seat % 2 == 0 || !options_.host_faults) return address;
  return (names_.resolves() ? NameServer::kName : "localhost") + address.substr(address.rfind(':'));
}

void Fleet::StartFlood(std::size_t index) {
  Seat& seat = seats_[index];
  const std::string label = "flooder" + std::to_string(index) + "." + std::to_string(seat.flooders++);
  seat.flooder =
      std::make_unique<Process>(directory_, label, std::vector<std::string>{RINGWAY_CHAOS_FLOODER, Socket(index)});
}

void Fleet::KillTrainer(std::size_t index) {
  Seat& seat = seats_[index];
  seat.trainer->Kill();
  ReadRecords(seat, &noted_);
  noted_.emplace_back();
  noted_.back().kind = RecordKind::kEnd;
  noted_.back().peer = seat.peer;
  if (seat.peer != 0) history_->Write("end", history::Object().Add("peer", seat.peer).Add("code", "killed"));
}

void Fleet::Apply(const PathFault& fault, e2e::Relay& relay) {
  switch (fault.kind) {
    case PathFault::Kind::kDelay:
      return relay.Delay(fault.flow, fault.delay);
    case PathFault::Kind::kBlackHole:
      return relay.BlackHole(fault.flow);
    case PathFault::Kind::kNoise:
      return relay.AddNoise(fault.flow, fault.noise_one_of);
  }
}

void Fleet::SetPaths(const std::vector<PathFault>& faults) {
  master_relay_.Restore();
  for (Seat& seat : seats_) seat.relay->Restore();
  for (const PathFault& fault : faults) {
    if (fault.at_master) {
      Apply(fault, master_relay_);
    } else {
      for (std::size_t i = 0; i < kSeats; ++i) {
        if (IsStruckAt(i, fault.flow)) Apply(fault, *seats_[i].relay);
      }
    }
  }
}

std::vector<Record> Fleet::Poll() {
  std::vector<Record> out = std::exchange(noted_, {});
  for (Seat& seat : seats_) {
    if (seat.daemon != nullptr && !seat.aimed) {
      const std::string address = seat.daemon->Logged("listening", "address");
      if (!address.empty()) {
        seat.relay->Aim(address);
        seat.aimed = true;
      }
    }
    ReadRecords(seat, &out);
  }
  return out;
}

void Fleet::ReadRecords(Seat& seat, std::vector<Record>* out) {
  seat.records.clear();
  for (std::string text; std::getline(seat.records, text);) {
    seat.partial += text;
    if (seat.records.eof()) return;  // the line's end is still to come
    const std::optional<Record> record = Parse(seat.partial);
    EXPECT_TRUE(record.has_value()) << "no record: " << seat.partial;
    seat.partial.clear();
    if (!record.has_value()) continue;
    if (record->kind == RecordKind::kJoin) seat.peer = record->peer;
    if (record->kind == RecordKind::kOp && record->code == Code::kOk) seat.last = *record;
    out->push_back(*record);
  }
}

std::vector<std::string> Fleet::LogsWith(const std::string& event) const {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    if (entry.path().extension() != ".err") continue;
    std::ifstream log(entry.path());
    for (std::string line; std::getline(log, line);) {
      if (line.find(" " + event + " ") == std::string::npos) continue;
      out.push_back(entry.path().filename());
      break;
    }
  }
  return out;
}

std::size_t Fleet::LinesWith(const std::vector<std::string>& words) const {
  std::size_t lines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    if (entry.path().extension() != ".err") continue;
    std::ifstream log(entry.path());
    for (std::string line; std::getline(log, line);) {
      const auto has = [&](const std::string& word) { return line.find(word) != std::string::npos; };
      lines += std::any_of(words.begin(), words.end(), has) ? 1 : 0;
    }
  }
  return lines;
}

Holdings Fleet::HoldingsOf(const Process& process) {
  Holdings out{.descriptors = process.OpenDescriptors(), .regions = process.MappedRegions()};
  std::ifstream status("/proc/" + std::to_string(process.pid()) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) out.anonymous_kib = std::stoul(line.substr(8));
  }
  return out;
}

}  // namespace ringway::chaos
