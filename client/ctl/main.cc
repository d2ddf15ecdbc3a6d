// ringwayctl: the operator's command line.
#include <cstdio>
#include <string>

#include "client/ctl/certs.h"
#include "client/ctl/doctor/doctor.h"
#include "client/ctl/drain.h"
#include "client/ctl/render.h"
#include "client/ctl/render_plan.h"
#include "proto/byte_size.h"
#include "proto/shell/options.h"
#include "proto/shell/query.h"
#include "proto/shell/tls_options.h"

namespace ringway::ctl {
namespace {

constexpr const char* kProgram = "ringwayctl";
constexpr int kDrainMs = 60'000;  // more than running operations may take to finish
constexpr int kExitSerious = 1;
constexpr const char* kOnlyTheMaster = "only the master can: give --master HOST:PORT";

struct Options {
  std::string master;
  std::string socket;
  int timeout_ms = 5000;
  bool as_json = false;
  bool plan = false;
  bool evict = false;
  bool drain = false;
  bool certs = false;  // status, if none of these flags is set
  CertsOrder certs_order;
  DrainOrder drain_order;
  bool doctor = false;
  DoctorOrder doctor_order;
  shell::TlsOptions tls;
  std::string group;
  std::string bytes;
  std::string peer;

  std::chrono::milliseconds timeout() const { return std::chrono::milliseconds(timeout_ms); }
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Shows the state of a Ringway master or daemon, explains a group's plan, evicts a peer, drains a daemon, "
      "makes certificates, finds what is wrong on this host.",
      kProgram);
  app.fallthrough();  // --master and --socket may also follow the command
  app.add_option("--master", options.master, "master to ask, HOST:PORT (default: none; give this or --socket)");
  app.add_option("--socket", options.socket, "socket of the daemon to ask (default: none)");
  auto* timeout = app.add_option("--timeout-ms", options.timeout_ms, "how long to wait for the answer; drain: 60000 ms")
                      ->default_str(std::to_string(options.timeout_ms) + " ms")
                      ->check(CLI::Range(1, 600000));
  app.add_flag("--json", options.as_json, "print JSON");
  shell::AddTlsOptions(app, &options.tls);
  app.add_subcommand("status", "groups, epochs, peers, ranks, sites, ring order, counters");
  CLI::App* plan = app.add_subcommand(
      "plan", "explains a group's plan for one size: times of the algorithms, ring, bottleneck; asks the master");
  plan->add_option("--group", options.group, "group to explain")->required();
  plan->add_option("--bytes", options.bytes, "size of an operation (suffixes K M G)")->required();
  CLI::App* evict = app.add_subcommand(
      "evict", "drops a peer: the others go on, and its trainer, if it lives, joins again; asks the master");
  evict->add_option("--group", options.group, "its group")->required();
  evict->add_option("--peer", options.peer, "its name, as status shows it, or peer id, as status --json does")
      ->required();
  CLI::App* drain = app.add_subcommand(
      "drain",
      "takes a daemon out of service: its trainers finish what runs and leave, none may join; asks the master");
  drain->add_option("NAME", options.drain_order.daemon, "the daemon's name, as status shows it")->required();
  drain->add_flag("--end", options.drain_order.end, "take it into service again");
  const CLI::App* certs = AddCerts(app, &options.certs_order);
  const CLI::App* doctor = AddDoctor(app, &options.doctor_order);
  app.require_subcommand(1);
  shell::ParseOrExit(app, argc, argv);
  options.plan = plan->parsed();
  options.evict = evict->parsed();
  options.drain = drain->parsed();
  if (options.drain && timeout->count() == 0) options.timeout_ms = kDrainMs;
  options.certs = certs->parsed();
  options.doctor = doctor->parsed();
  if (!options.doctor && !options.master.empty() && !options.socket.empty()) {
    shell::Die(kProgram, "--master excludes --socket: give one of them; see ringwayctl --help");
  }
  return options;
}

Result<shell::MasterAddress> MasterOf(const Options& options, const std::string& without) {
  if (options.master.empty()) return Status(Code::kInvalidArgument, without);
  const Result<Endpoint> endpoint = ParseEndpoint(options.master);
  if (!endpoint.ok()) return endpoint.status();
  // Every role of the installation may query.
  Result<shell::TlsSetup> tls =
      shell::SetUpTls(options.tls, {.roles = {ProcessRole::kOperator, ProcessRole::kMaster, ProcessRole::kDaemon}});
  if (!tls.ok()) return tls.status();
  return shell::MasterAddress{.endpoint = endpoint.value(), .security = std::move(tls.value().security)};
}

Result<std::string> AskStatus(const Options& options) {
  if (!options.socket.empty()) return shell::QueryDaemon(options.socket, options.timeout());
  const Result<shell::MasterAddress> master = MasterOf(options, "give --master HOST:PORT or --socket PATH");
  return master.ok() ? shell::QueryMaster(master.value(), options.timeout()) : master.status();
}

Status Evict(const Options& options) {
  const Result<shell::MasterAddress> master = MasterOf(options, kOnlyTheMaster);
  if (!master.ok()) return master.status();
  control::ToMaster order;
  order.mutable_evict()->set_group(options.group);
  order.mutable_evict()->set_peer(options.peer);
  return shell::GiveOrder(master.value(), order, options.timeout());
}

Result<std::string> Drain(const Options& options) {
  const Result<shell::MasterAddress> master = MasterOf(options, kOnlyTheMaster);
  return master.ok() ? Drain(master.value(), options.drain_order, options.timeout()) : master.status();
}

// Runs a command that changes something; returns its output.
Result<std::string> Change(const Options& options) {
  if (options.certs) return Carry(options.certs_order);
  if (options.drain) return Drain(options);
  if (const Status status = Evict(options); !status.ok()) return status;
  return "group " + options.group + " drops " + options.peer + "\n";
}

Result<std::string> AskPlan(const Options& options) {
  const Result<shell::MasterAddress> master = MasterOf(options, kOnlyTheMaster);
  if (!master.ok()) return master.status();
  const std::optional<std::uint64_t> bytes = ParseBytes(options.bytes);
  if (!bytes) return Status(Code::kInvalidArgument, "--bytes " + options.bytes + " is no size: write 4096, 4K or 256M");
  control::PlanRequest request;
  request.set_group(options.group);
  request.set_bytes(*bytes);
  return shell::QueryPlan(master.value(), request, options.timeout());
}

int RunDoctor(const Options& options) {
  if (!options.master.empty()) {
    if (const auto master = ParseEndpoint(options.master); !master.ok()) shell::Die(kProgram, master.status().text());
  }
  const Findings findings =
      Examine(options.doctor_order,
              {.master = options.master, .socket = options.socket, .tls = options.tls, .timeout = options.timeout()});
  const std::string text = options.as_json ? FindingsJson(findings) + "\n" : RenderFindings(findings);
  std::printf("%s", text.c_str());
  return AnyFails(findings) ? kExitSerious : 0;
}

int Run(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  if (options.doctor) return RunDoctor(options);
  if (options.certs || options.drain || options.evict) {
    const Result<std::string> said = Change(options);
    if (!said.ok()) shell::Die(kProgram, said.status().text());
    std::printf("%s", said.value().c_str());
    return 0;
  }
  Result<std::string> text = options.plan ? AskPlan(options) : AskStatus(options);
  if (text.ok() && !options.as_json) text = options.plan ? RenderPlan(text.value()) : Render(text.value());
  if (!text.ok()) shell::Die(kProgram, text.status().text());
  std::printf("%s%s", text.value().c_str(), options.as_json ? "\n" : "");
  return 0;
}

}  // namespace
}  // namespace ringway::ctl

int main(int argc, char** argv) {
  return ringway::shell::RunOrDie(ringway::ctl::kProgram, [&] { return ringway::ctl::Run(argc, argv); });
}
