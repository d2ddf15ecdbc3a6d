// ringwayctl: the operator's command line.
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

#include "client/ctl/certs.h"
#include "client/ctl/doctor/doctor.h"
#include "client/ctl/drain.h"
#include "client/ctl/render.h"
#include "client/ctl/render_plan.h"
#include "client/ctl/trace/trace.h"
#include "client/ctl/watch/events.h"
#include "client/ctl/watch/source.h"
#include "client/ctl/watch/top.h"
#include "client/ctl/watch/why.h"
#include "proto/byte_size.h"
#include "proto/shell/options.h"
#include "proto/shell/query.h"
#include "proto/shell/tls_options.h"

namespace ringway::ctl {
namespace {

constexpr const char* kProgram = "ringwayctl";
constexpr const char* kUsualSocket = "/run/ringway/ringwayd.sock";
constexpr int kDrainMs = 60'000;  // more than running operations may take to finish
constexpr int kExitSerious = 1;
constexpr const char* kOnlyTheMaster = "only the master can: give --master HOST:PORT";

struct Options {
  const CLI::App* command = nullptr;  // the one that was given
  std::string master;
  std::string socket;
  int timeout_ms = 5000;
  bool as_json = false;
  CertsOrder certs;
  DrainOrder drain;
  DoctorOrder doctor;
  EventsOrder events;
  TopOrder top;
  TraceOrder trace;
  shell::TlsOptions tls;
  std::string group;
  std::string bytes;
  std::string peer;

  std::chrono::milliseconds timeout() const { return std::chrono::milliseconds(timeout_ms); }
  bool is(const std::string& name) const { return command->get_name() == name; }
};

void AddCommands(CLI::App& app, Options* options) {
  app.add_subcommand("status", "groups, epochs, peers, ranks, sites, ring order, counters, who waits for whom");
  AddEvents(app, &options->events);
  CLI::App* why = app.add_subcommand("why", "who or what holds a group up now, with what to do");
  why->add_option("GROUP", options->group, "the group")->required();
  AddTop(app, &options->top);
  AddTrace(app, &options->trace);
  CLI::App* plan = app.add_subcommand(
      "plan", "explains a group's plan for one size: times of the algorithms, ring, bottleneck; asks the master");
  plan->add_option("--group", options->group, "group to explain")->required();
  plan->add_option("--bytes", options->bytes, "size of an operation (suffixes K M G)")->required();
  CLI::App* evict = app.add_subcommand(
      "evict", "drops a peer: the others go on, and its trainer, if it lives, joins again; asks the master");
  evict->add_option("--group", options->group, "its group")->required();
  evict->add_option("--peer", options->peer, "its name, as status shows it, or peer id, as status --json does")
      ->required();
  CLI::App* drain = app.add_subcommand(
      "drain",
      "takes a daemon out of service: its trainers finish what runs and leave, none may join; asks the master");
  drain->add_option("NAME", options->drain.daemon, "the daemon's name, as status shows it")->required();
  drain->add_flag("--end", options->drain.end, "take it into service again");
  AddCerts(app, &options->certs);
  AddDoctor(app, &options->doctor);
  app.require_subcommand(1);
}

Options ParseOptions(CLI::App& app, int argc, char** argv) {
  Options options;
  app.fallthrough();  // --master and --socket may also follow the command
  app.add_option("--master", options.master,
                 "master to ask, HOST:PORT; of several, with commas between, the one that leads (default: none; give "
                 "this or --socket)");
  app.add_option("--socket", options.socket, "socket of the daemon to ask (default: none)");
  auto* timeout = app.add_option("--timeout-ms", options.timeout_ms, "how long to wait for the answer; drain: 60000 ms")
                      ->default_str(std::to_string(options.timeout_ms) + " ms")
                      ->check(CLI::Range(1, 600000));
  app.add_flag("--json", options.as_json, "print JSON");
  shell::AddTlsOptions(app, &options.tls);
  AddCommands(app, &options);
  shell::ParseOrExit(app, argc, argv);
  options.command = app.get_subcommands().front();
  if (options.is("drain") && timeout->count() == 0) options.timeout_ms = kDrainMs;
  if (!options.is("doctor") && !options.master.empty() && !options.socket.empty()) {
    shell::Die(kProgram, "--master excludes --socket: give one of them; see ringwayctl --help");
  }
  return options;
}

Result<shell::MasterAddress> MasterOf(const Options& options, const std::string& without) {
  if (options.master.empty()) return Status(Code::kInvalidArgument, without);
  Result<std::vector<Endpoint>> endpoints = ParseEndpointsToDial(options.master);
  if (!endpoints.ok()) return Status(endpoints.status().code(), "--master: " + endpoints.status().text());
  // Every role of the installation may query.
  Result<shell::TlsSetup> tls =
      shell::SetUpTls(options.tls, {.roles = {ProcessRole::kOperator, ProcessRole::kMaster, ProcessRole::kDaemon}});
  if (!tls.ok()) return tls.status();
  return shell::MasterAddress{.endpoints = std::move(endpoints).value(), .security = std::move(tls.value().security)};
}

// Without either option, the daemon of this host, if there is one.
Result<StatusSource> SourceOf(const Options& options) {
  const bool usual = options.master.empty() && options.socket.empty() && ::access(kUsualSocket, F_OK) == 0;
  const std::string socket = usual ? kUsualSocket : options.socket;
  if (!socket.empty()) return StatusSource(socket, options.timeout());
  const Result<shell::MasterAddress> master = MasterOf(options, "give --master HOST:PORT or --socket PATH");
  if (!master.ok()) return master.status();
  return StatusSource(master.value(), options.timeout());
}

Status Evict(const Options& options) {
  const Result<shell::MasterAddress> master = MasterOf(options, kOnlyTheMaster);
  if (!master.ok()) return master.status();
  control::ToMaster order;
  order.mutable_evict()->set_group(options.group);
  order.mutable_evict()->set_peer(options.peer);
  return shell::GiveOrder(master.value(), order, options.timeout());
}

// ---- commands: what they print

Result<std::string> RunEvict(const Options& options) {
  if (const Status status = Evict(options); !status.ok()) return status;
  return "group " + options.group + " drops " + options.peer + "\n";
}

Result<std::string> RunDrain(const Options& options) {
  const Result<shell::MasterAddress> master = MasterOf(options, kOnlyTheMaster);
  return master.ok() ? Drain(master.value(), options.drain, options.timeout()) : master.status();
}

Result<std::string> RunStatus(const Options& options) {
  const Result<StatusSource> source = SourceOf(options);
  if (!source.ok()) return source.status();
  const Result<std::string> status = source.value().Ask({});
  if (!status.ok()) return status.status();
  return options.as_json ? status.value() + "\n" : Render(status.value());
}

Result<std::string> RunWhy(const Options& options) {
  const Result<StatusSource> source = SourceOf(options);
  if (!source.ok()) return source.status();
  control::StatusRequest request;
  request.set_group(options.group);
  request.set_paths(true);
  const Result<std::string> status = source.value().AskLeader(request);
  if (!status.ok()) return status.status();
  Result<std::string> why = RenderWhy(status.value(), options.group, options.as_json);
  if (why.ok()) return why;
  const Status group = CheckGroup(source.value(), options.group);
  return group.ok() ? why : group;
}

Result<std::string> RunTrace(const Options& options) {
  if (!options.trace.file.empty()) return TraceOfFile(options.trace);
  const Result<StatusSource> source = SourceOf(options);
  return source.ok() ? TraceFrom(source.value().where(), options.trace, options.timeout()) : source.status();
}

Result<std::string> RunPlan(const Options& options) {
  const Result<shell::MasterAddress> master = MasterOf(options, kOnlyTheMaster);
  if (!master.ok()) return master.status();
  const std::optional<std::uint64_t> bytes = ParseBytes(options.bytes);
  if (!bytes) return Status(Code::kInvalidArgument, "--bytes " + options.bytes + " is no size: write 4096, 4K or 256M");
  control::PlanRequest request;
  request.set_group(options.group);
  request.set_bytes(*bytes);
  const Result<std::string> plan = shell::QueryPlan(master.value(), request, options.timeout());
  if (!plan.ok()) return plan.status();
  return options.as_json ? plan.value() + "\n" : RenderPlan(plan.value());
}

int RunDoctor(const Options& options) {
  if (!options.master.empty()) {
    if (const auto masters = ParseEndpointsToDial(options.master); !masters.ok()) {
      shell::Die(kProgram, "--master: " + masters.status().text());
    }
  }
  const Findings findings = Examine(options.doctor, {.master = options.master,
                                                     .socket = options.socket,
                                                     .usual_socket = kUsualSocket,
                                                     .tls = options.tls,
                                                     .timeout = options.timeout()});
  const std::string text = options.as_json ? FindingsJson(findings) + "\n" : RenderFindings(findings);
  std::printf("%s", text.c_str());
  return AnyFails(findings) ? kExitSerious : 0;
}

Status RunLive(const Options& options) {
  if (options.is("top") && options.as_json) {
    return {Code::kInvalidArgument, "top is a table for people: status --json has all that it shows"};
  }
  const Result<StatusSource> source = SourceOf(options);
  if (!source.ok()) return source.status();
  if (options.is("top") && !options.top.group.empty()) {
    if (Status group = CheckGroup(source.value(), options.top.group); !group.ok()) return group;
  }
  return options.is("top") ? RunTop(source.value(), options.top)
                           : RunEvents(source.value(), options.events, options.as_json);
}

int Run(int argc, char** argv) {
  CLI::App app(
      "Shows the state of a Ringway master or daemon, what happened, who or what holds a group up, traces operations, "
      "explains a plan, "
      "evicts a peer, drains a daemon, makes certificates, finds what is wrong on this host.",
      kProgram);
  const Options options = ParseOptions(app, argc, argv);
  if (options.is("doctor")) return RunDoctor(options);
  if (options.is("top") || options.is("events")) {
    if (const Status status = RunLive(options); !status.ok()) shell::Die(kProgram, status.text());
    return 0;
  }
  const Result<std::string> text = options.is("certs")   ? Carry(options.certs)
                                   : options.is("drain") ? RunDrain(options)
                                   : options.is("evict") ? RunEvict(options)
                                   : options.is("plan")  ? RunPlan(options)
                                   : options.is("trace") ? RunTrace(options)
                                   : options.is("why")   ? RunWhy(options)
                                                         : RunStatus(options);
  if (!text.ok()) shell::Die(kProgram, text.status().text());
  std::printf("%s", text.value().c_str());
  return 0;
}

}  // namespace
}  // namespace ringway::ctl

int main(int argc, char** argv) {
  return ringway::shell::RunOrDie(ringway::ctl::kProgram, [&] { return ringway::ctl::Run(argc, argv); });
}
