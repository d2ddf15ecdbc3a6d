#include "tests/e2e/cluster.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <future>
#include <utility>

#include "client/bench/collective.h"

namespace ringway::e2e {

int DataThreads() {
  const char* text = std::getenv("RINGWAY_TEST_DATA_THREADS");
  return text == nullptr ? 0 : std::atoi(text);
}

bool Tls() { return std::getenv("RINGWAY_TEST_TLS") != nullptr; }

namespace {

void ExpectNoFaultOf(const Process& daemon) {
  EXPECT_EQ(daemon.Logged("operation_stuck", "op"), "") << daemon.label() << " has a fault of its own";
}

}  // namespace

Cluster::Cluster(const ClusterOptions& options) : options_(options) {
  if (options_.tls) {
    const Finished init = RunToEnd({RINGWAY_CTL, "certs", "init", certificates()});
    EXPECT_EQ(init.code, 0) << init.err;
    Issue("m", "master");
    Issue("op", "operator");
  }
  masters_.resize(static_cast<std::size_t>(options.masters));
  master_addresses_.resize(masters_.size());
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    StartMaster(i, options.host + ":0");
    master_address_ += (i == 0 ? "" : ",") + master_addresses_[i];
  }
  for (int i = 0; i < options.daemons; ++i) AddDaemon();
}

void Cluster::Issue(const std::string& name, const std::string& role) const {
  const Finished issue = RunToEnd({RINGWAY_CTL, "certs", "issue", name, "--role", role, "--dir", certificates()});
  EXPECT_EQ(issue.code, 0) << issue.err;
}

std::vector<std::string> Cluster::TlsOptionsOf(const std::string& name) const {
  if (!options_.tls) return {};
  const std::string base = certificates() + "/";
  return {"--tls-ca", base + "ca.pem", "--tls-cert", base + name + ".pem", "--tls-key", base + name + ".key"};
}

std::vector<std::string> Cluster::Secured(const std::string& name) const {
  if (options_.tls) return TlsOptionsOf(name);
  return options_.host.starts_with("127.") ? std::vector<std::string>() : std::vector<std::string>{"--insecure"};
}

void Cluster::StartMaster(std::size_t index, const std::string& listen) {
  const bool is_shared = !options_.store.empty();
  std::vector<std::string> argv = {options_.release.master,
                                   "--listen",
                                   listen,
                                   is_shared ? "--store" : "--journal",
                                   is_shared ? options_.store : directory_ / "master.db",
                                   "--heartbeat-ms",
                                   std::to_string(options_.heartbeat_ms),
                                   "--detect-ms",
                                   std::to_string(options_.detect_ms),
                                   "--detect-far-ms",
                                   "0"};
  const std::vector<std::string> secured = Secured("m");
  argv.insert(argv.end(), secured.begin(), secured.end());
  argv.insert(argv.end(), options_.master_options.begin(), options_.master_options.end());
  masters_[index] = std::make_unique<Process>(directory_, "master" + std::to_string(masters_started_++), argv);
  const bool listens =
      Eventually([&] { return !(master_addresses_[index] = masters_[index]->Logged("listening", "address")).empty(); });
  EXPECT_TRUE(listens) << "the master does not start";
}

void Cluster::RestartMaster(std::size_t index) { StartMaster(index, std::string(master_addresses_[index])); }

std::optional<std::size_t> Cluster::Leader() const {
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    if (masters_[i]->Exited().has_value()) continue;
    if (StatusOfMaster(master_addresses_[i]).value("/master/role"_json_pointer, "") == "leader") return i;
  }
  return std::nullopt;
}

Cluster::~Cluster() {
  for (const auto& daemon : daemons_) {
    if (!daemon->Exited().has_value()) daemon->Signal(SIGTERM);
  }
  for (const auto& daemon : daemons_) {
    const std::optional<int> code = daemon->Wait();
    EXPECT_TRUE(code == 0 || code == -SIGKILL) << daemon->label() << " ended with " << code.value_or(-1000);
    ExpectNoFaultOf(*daemon);
  }
  for (const auto& master : masters_) {
    if (master->Exited().has_value()) continue;
    master->Signal(SIGTERM);
    EXPECT_EQ(master->Wait(), 0);
  }
}

std::size_t Cluster::AddDaemonAt(const Place& place, const std::vector<std::string>& more) {
  daemons_.push_back(StartDaemon(daemons_.size(), place.host + ":0", place, more));
  return daemons_.size() - 1;
}

void Cluster::RestartDaemon(std::size_t index) {
  const std::string address = daemons_[index]->Logged("ready", "address");
  ExpectNoFaultOf(*daemons_[index]);
  daemons_[index].reset();  // reads the last words of the old before the new one's overwrite them
  daemons_[index] = StartDaemon(index, address, {options_.host}, {});
}

std::unique_ptr<Process> Cluster::StartDaemon(std::size_t index, const std::string& listen, const Place& place,
                                              const std::vector<std::string>& more) const {
  const std::string label = "d" + std::to_string(index);
  std::vector<std::string> argv = place.wrapper;
  const std::vector<std::string> usual = {options_.release.daemon,
                                          "--master",
                                          master_address_,
                                          "--listen",
                                          listen,
                                          "--socket",
                                          socket(index),
                                          "--name",
                                          label,
                                          "--grace-ms",
                                          std::to_string(options_.grace_ms),
                                          "--data-threads",
                                          std::to_string(options_.data_threads)};
  if (options_.tls && !std::filesystem::exists(certificates() + "/" + label + ".pem")) Issue(label, "daemon");
  for (const std::vector<std::string>& part : {usual, Secured(label), more}) {
    argv.insert(argv.end(), part.begin(), part.end());
  }
  auto daemon = std::make_unique<Process>(directory_, label, argv);
  EXPECT_TRUE(Eventually([&] { return !daemon->Logged("ready", "socket").empty(); })) << label << " does not start";
  return daemon;
}

JoinOptions Cluster::At(std::size_t daemon, const std::string& group, std::uint32_t wait_world) const {
  JoinOptions options;
  options.socket_path = socket(daemon);
  options.group = group;
  options.wait_world = wait_world;
  options.timeout = kPatience;
  options.reconnect = Milliseconds(0);  // a test that wants it says so
  return options;
}

Sessions Cluster::JoinAll(const std::vector<JoinOptions>& options) const {
  std::vector<std::future<Result<std::unique_ptr<Session>>>> joins;
  for (const JoinOptions& one : options) {
    joins.push_back(std::async(std::launch::async, [&one] { return Session::Join(one); }));
  }
  Sessions sessions;
  for (auto& join : joins) {
    auto joined = join.get();
    if (joined.ok()) sessions.push_back(std::move(*joined));
    EXPECT_TRUE(joined.ok()) << joined.status().text();
  }
  return sessions;
}

Sessions Cluster::JoinWorld(std::uint32_t world, const std::string& group) const {
  std::vector<JoinOptions> options;
  for (std::size_t i = 0; i < world; ++i) options.push_back(At(i, group, world));
  return JoinAll(options);
}

nlohmann::json Cluster::StatusOfMaster(const std::string& address) const {
  std::vector<std::string> argv = {RINGWAY_CTL, "--master", address, "status", "--json", "--timeout-ms", "60000"};
  const std::vector<std::string> secured = TlsOptionsOf("op");
  argv.insert(argv.end(), secured.begin(), secured.end());
  const Finished run = RunToEnd(argv);
  return run.code == 0 ? nlohmann::json::parse(run.out, nullptr, false) : nlohmann::json::object();
}

nlohmann::json Cluster::DaemonStatus(std::size_t index) const { return DaemonStatusAt(socket(index)); }

// ---- rounds

Round::Round(std::vector<Session*> ranks, const RoundOptions& options)
    : ranks_(std::move(ranks)), options_(options), works_(ranks_.size()) {
  for (Session* session : ranks_) {
    places_.push_back(MakePlace(*session));
    const std::vector<std::byte> input = InputOf(*session);
    Place& place = places_.back();
    std::memcpy(place.host_input, input.data(), bytes());
    if (!place.device_in) continue;
    const Status pushed = place.device_in->Push(bytes());
    EXPECT_TRUE(pushed.ok()) << pushed.text();
  }
}

Round::Round(const Sessions& ranks, const RoundOptions& options)
    : Round(
          [&] {
            std::vector<Session*> pointers;
            for (const auto& session : ranks) pointers.push_back(session.get());
            return pointers;
          }(),
          options) {}

// Aligned, as the oracle needs it; the trainer's own memory need not be. One byte more, so that there is some.
std::vector<std::byte> Round::InputOf(const Session& session) const {
  std::vector<std::byte> input(bytes() + 1);
  bench::FillInput(options_.reduction, {session.peer_id(), options_.number}, input.data(), options_.count);
  return input;
}

Round::Place Round::MakePlace(Session& session) const {
  Place place;
  const bool in_place = options_.memory == Memory::kHeapInPlace || options_.memory == Memory::kBufferInPlace ||
                        options_.memory == Memory::kDeviceInPlace;
  if (options_.memory == Memory::kDevice || options_.memory == Memory::kDeviceInPlace) {
    return MakeDevicePlace(session, in_place);
  }
  if (options_.memory == Memory::kBuffer || options_.memory == Memory::kBufferInPlace) {
    auto in = session.Allocate(bytes());
    auto out = session.Allocate(in_place ? 0 : output_bytes());
    if (!in.ok() || !out.ok()) {
      ADD_FAILURE() << "no buffer: " << in.status().text() << out.status().text();
      return MakeHeapPlace(in_place);
    }
    place.buffer_in = std::move(*in);
    place.buffer_out = std::move(*out);
    place.input = place.buffer_in.as<std::byte>();
    place.output = place.buffer_out.as<std::byte>();
    if (in_place) place.output = place.input;
    place.host_input = place.input;
    place.host_output = place.output;
    return place;
  }
  return MakeHeapPlace(in_place);
}

Round::Place Round::MakeDevicePlace(Session& session, bool in_place) const {
  Place place;
  auto in = bench::Memory::Allocate(&session, bytes(), 0);
  auto out = bench::Memory::Allocate(&session, in_place ? 0 : output_bytes(), 0);
  if (!in.ok() || !out.ok()) {
    ADD_FAILURE() << "no device memory: " << in.status().text() << out.status().text();
    return MakeHeapPlace(in_place);
  }
  place.device_in = std::move(*in);
  if (!in_place) place.device_out = std::move(*out);
  bench::Memory& output = in_place ? *place.device_in : *place.device_out;
  place.input = static_cast<std::byte*>(place.device_in->data());
  place.output = static_cast<std::byte*>(output.data());
  place.host_input = static_cast<std::byte*>(place.device_in->host());
  place.host_output = static_cast<std::byte*>(output.host());
  return place;
}

Round::Place Round::MakeHeapPlace(bool in_place) const {
  Place place;
  const std::size_t shift = options_.memory == Memory::kUnaligned ? 1 : 0;
  place.heap_in.resize(bytes() + 1);
  place.heap_out.resize(in_place ? 0 : output_bytes() + 1);
  place.input = place.heap_in.data() + shift;
  place.output = place.heap_out.data() + shift;
  if (in_place) place.output = place.input;
  place.host_input = place.input;
  place.host_output = place.output;
  return place;
}

void Round::Submit() {
  for (std::size_t i = 0; i < ranks_.size(); ++i) SubmitOn(i);
}

void Round::SubmitOn(std::size_t index) {
  auto work = bench::StartCollective(*ranks_[index], options_.collective, options_.reduction,
                                     {places_[index].input, options_.count, places_[index].output, output_count()},
                                     {.channel = options_.channel, .algorithm = options_.algorithm});
  ASSERT_TRUE(work.ok()) << "trainer " << index << ": " << work.status().text();
  works_[index] = std::move(*work);
}

void Round::CheckRank(std::size_t index, const OpResult& result) {
  Place& place = places_[index];
  const bool seen = (!place.device_in || place.device_in->Pull(bytes()).ok()) &&
                    (!place.device_out || place.device_out->Pull(output_bytes()).ok());
  EXPECT_TRUE(seen) << "the device's memory cannot be read";
  // Aligned, as the oracle needs it.
  const std::vector<std::byte> copy(place.host_output, place.host_output + output_bytes());
  EXPECT_EQ(bench::CountWrong(options_.reduction, result.contributors, options_.number,
                              {options_.collective, copy.data(), options_.count, result.part}),
            0u)
      << NameOf(options_.collective) << " of trainer " << index << " of " << ranks_.size() << ", " << options_.count
      << " " << NameOf(options_.reduction.dtype) << " " << NameOf(options_.reduction.op) << " "
      << NameOf(options_.reduction.codec);
  if (place.output == place.input) return;
  EXPECT_EQ(std::memcmp(InputOf(*ranks_[index]).data(), place.host_input, bytes()), 0)
      << "the input of " << index << " has changed";
}

OpResult Round::Check() {
  std::optional<std::size_t> first;
  OpResult agreed;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (!works_[i].valid()) continue;
    const Outcome outcome = works_[i].Wait(kPatience);
    EXPECT_TRUE(outcome.ok()) << "trainer " << i << ": " << NameOf(outcome.status().code()) << ": "
                              << outcome.status().text();
    if (!outcome.ok()) continue;
    const OpResult& result = outcome.value();
    EXPECT_EQ(result.contributors.size(), result.world_size);
    CheckRank(i, result);
    if (!first.has_value()) {
      first = i;
      agreed = result;
      continue;
    }
    EXPECT_EQ(result.epoch, agreed.epoch);
    EXPECT_EQ(result.contributors, agreed.contributors);
    EXPECT_EQ(result.update_waits, agreed.update_waits);
    if (options_.collective == OpKind::kReduceScatter) continue;
    EXPECT_EQ(result.part.count, agreed.part.count);
    const std::size_t result_bytes = agreed.part.count * SizeOf(options_.reduction.dtype);
    EXPECT_EQ(std::memcmp(places_[i].host_output, places_[*first].host_output, result_bytes), 0)
        << "trainers " << *first << " and " << i << " hold different bytes";
  }
  EXPECT_TRUE(first.has_value()) << "nobody submitted or all failed";
  return agreed;
}

std::string Round::CheckFailure(Code code) {
  std::string text;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (!works_[i].valid()) continue;
    const Outcome outcome = works_[i].Wait(kPatience);
    EXPECT_EQ(outcome.status().code(), code)
        << "trainer " << i << " got " << NameOf(outcome.status().code()) << ": " << outcome.status().text();
    EXPECT_EQ(outcome.status().text().empty(), false);
    if (text.empty()) text = outcome.status().text();
  }
  return text;
}

OpResult RoundsUntil(const Sessions& ranks, const std::function<bool(const OpResult&)>& condition) {
  OpResult last;
  std::uint64_t number = 1'000'000;
  const bool reached = Eventually([&] {
    Round round(ranks, {.reduction = {}, .number = number++});
    round.Submit();
    last = round.Check();
    return testing::Test::HasFailure() || condition(last);
  });
  EXPECT_TRUE(reached);
  return last;
}

OpResult UpdateAll(const Sessions& ranks) {
  std::vector<std::future<Outcome>> updates;
  for (const auto& session : ranks) {
    updates.push_back(std::async(std::launch::async, [&session] { return session->UpdateView(kPatience); }));
  }
  OpResult first;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const Outcome outcome = updates[i].get();
    EXPECT_TRUE(outcome.ok()) << "trainer " << i << ": " << outcome.status().text();
    if (!outcome.ok()) continue;
    if (i == 0) first = outcome.value();
    EXPECT_EQ(outcome.value().epoch, first.epoch);
    EXPECT_EQ(outcome.value().contributors, first.contributors);
    EXPECT_EQ(ranks[i]->world_size(), outcome.value().world_size);
  }
  return first;
}

}  // namespace ringway::e2e
