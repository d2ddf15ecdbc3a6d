#include "daemon/runtime/daemon.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <utility>

#include "daemon/net/kernel_advice.h"
#include "daemon/runtime/descriptors.h"
#include "proto/check.h"
#include "proto/endpoint.h"
#include "proto/frame_codec.h"
#include "proto/shell/log.h"
#include "proto/shell/notify.h"

namespace ringway::daemon {
namespace {

constexpr char kDataThreadName[] = "ringwayd-data";  // for top -H
constexpr auto kStartLimit = std::chrono::seconds(10);
// After the grace period a peer that still waits for the master's word leaves without it.
constexpr auto kLastWord = std::chrono::milliseconds(1500);

DataPlaneOptions DataOptions(const Config& config, std::uint64_t instance) {
  return {.identity = {.name = config.name, .site = config.site, .address = {}, .master = config.master, .advice = {}},
          .users = config.users,
          .instance = instance,
          .grace = std::chrono::milliseconds(config.grace_ms),
          .probe_bytes = config.probe_bytes,
          .probe_bytes_a_day = config.probe_bytes_a_day,
          .share = config.share,
          .state_share = config.state_share,
          .uplink_limit_mbit = config.uplink_limit_mbit,
          .lane_threads = config.data_threads - 1,
          .memory_max = config.memory_max,
          .descriptors = {.limit = RaiseDescriptorLimit(), .per_lane = config.data_threads > 1 ? 2U : 1U},
          .security = config.tls.security,
          .insecure = config.insecure};
}

// Failures that a later attempt may not meet; everything else is the master's refusal.
bool MayPass(Code code) {
  return code == Code::kIo || code == Code::kTimeout || code == Code::kPeerUnreachable ||
         code == Code::kMasterUnreachable;
}

shell::Level LevelOf(agreement::Severity severity) {
  switch (severity) {
    case agreement::Severity::kDebug:
      return shell::Level::kDebug;
    case agreement::Severity::kInfo:
      return shell::Level::kInfo;
    case agreement::Severity::kWarning:
      return shell::Level::kWarning;
    case agreement::Severity::kError:
      break;
  }
  return shell::Level::kError;
}

std::uint64_t RandomInstance() {
  std::random_device random;
  return (static_cast<std::uint64_t>(random()) << 32) | random();
}

}  // namespace

Daemon::Daemon(Config config)
    : config_(std::move(config)),
      instance_(RandomInstance()),
      data_(data_context_, DataOptions(config_, instance_), this),
      server_(data_context_, &data_, {}, data_.memory(), data_.shares()),
      signals_(control_context_),
      hang_up_(control_context_),
      dump_(control_context_, SIGUSR1),
      timer_(control_context_),
      heart_(control_context_, [this] { Beat(shell::NotifyAlive); }) {}

Daemon::~Daemon() = default;

// ---- start

Status Daemon::Listen(net::UniqueFd& fd) {
  auto listening = net::ListenTcp(config_.listen_address);
  if (!listening.ok()) return {Code::kIo, "--listen: " + listening.status().text()};
  const auto bound = net::LocalAddress(listening.value().get());
  if (!bound.ok()) return bound.status();
  fd = std::move(listening.value());
  bound_ = net::ToString(bound.value());
  address_ = config_.advertise.value_or(bound_);
  return Status::Ok();
}

// Within one host nothing of it matters.
void Daemon::Advise() {
  if (!config_.insecure && config_.tls.security == nullptr) return;
  const bool lacks_bbr = config_.congestion.empty() && !net::CheckCongestion("bbr").ok();
  std::vector<std::string> advice = net::KernelAdvice(lacks_bbr);
  for (const std::string& text : advice) shell::Log(shell::Level::kWarning, "kernel", {{"advice", text}});
  data_.SetAdvice(std::move(advice));
}

Status Daemon::ListenLocally() {
  std::vector<net::UniqueFd> sockets = shell::TakeSockets();
  if (sockets.empty()) return server_.Bind(config_.socket, config_.socket_file);
  return server_.Adopt(std::move(sockets.front()), config_.socket, config_.socket_file);
}

// Without its file the recorder goes on in memory: nothing depends on it.
void Daemon::OpenFlight() {
  if (!config_.flight_file) return;
  Result<FlightMemory> memory = FlightMemory::Open(*config_.flight_file);
  if (!memory.ok()) {
    shell::Log(shell::Level::kWarning, "flight_file_failed", {{"text", memory.status().text()}});
    config_.flight_file = "";
    memory = FlightMemory::Open("");
  }
  if (!memory.ok()) return;
  dumps_.emplace(*config_.flight_file);
  data_.SetFlight(std::move(memory).value());
}

void Daemon::ArmDump() {
  dump_.async_wait([this](asio::error_code error, int) {
    if (error) return;
    ArmDump();
    (void)to_data_.TryPost([this] { data_.DumpFlight(); });
  });
}

void Daemon::Beat(std::function<void()> then) {
  (void)to_data_.TryPost([this, then = std::move(then)] { (void)to_control_.TryPost(then); });
}

Status Daemon::Prepare() {
  net::UniqueFd listening;
  if (Status status = Listen(listening); !status.ok()) return status;
  if (Status status = ListenLocally(); !status.ok()) return status;
  data_.SetAddress(address_, bound_);
  Advise();
  net::LinkTuning tuning;
  tuning.congestion = config_.congestion;
  tuning.dscp = config_.dscp;
  net::ListenerOptions listener_options;
  listener_options.tuning = tuning;
  listener_options.security = config_.tls.security;
  listener_options.kept_max = data_.descriptors().kept_max();
  listener_options.kept = kept_;
  listener_.emplace(control_context_, listener_options, [this](net::LinkOffer offer) { OnOffer(std::move(offer)); });
  net::DialOptions dial_options;
  dial_options.allow_remote = config_.insecure;
  dial_options.security = config_.tls.security;
  dial_options.lanes = config_.lanes;
  dial_options.tuning = tuning;
  dial_options.kept = &*listener_;
  dialer_.emplace(control_context_, dial_options);
  if (Status status = listener_->Start(std::move(listening)); !status.ok()) return status;
  shell::Log(shell::Level::kInfo, "listening", {{"address", bound_}});
  return Status::Ok();
}

void Daemon::StartMasterLink() {
  net::MasterLinkOptions options;
  const Result<std::vector<Endpoint>> masters = ParseEndpointsToDial(config_.master);
  RINGWAY_CHECK(masters.ok());  // as ParseConfigOrExit has
  for (const Endpoint& master : masters.value()) options.addresses.push_back(ToString(master));
  options.allow_remote = config_.insecure;
  options.security = config_.tls.security;
  options.hello.set_version_min(kProtocolVersionMin);
  options.hello.set_version_max(kProtocolVersionMax);
  options.hello.set_name(config_.name);
  options.hello.set_site(config_.site);
  options.hello.set_site_uplink(config_.site_mbit * 1'000'000 / 8);
  options.hello.set_address(address_);
  options.hello.set_instance(instance_);
  options.hello.set_release(RINGWAY_VERSION);
  master_.emplace(control_context_, std::move(options), this);
  master_->Start();
  timer_.After(kStartLimit, [this] {
    if (ready_) return;
    if (last_refusal_.code() == Code::kJoinRefused) return Finish(last_refusal_);
    shell::Log(shell::Level::kWarning, "no_master",
               {{"master", config_.master},
                {"reason", last_refusal_.text()},
                {"text", "trainers wait until it answers: start ringway-master there or correct --master"}});
    BecomeReady();
  });
}

Status Daemon::Run() {
  if (Status status = Prepare(); !status.ok()) return status;
  // SIGHUP ends the daemon, too, where it means the end of the terminal.
  (config_.tls.security != nullptr || !shell::HasTerminal() ? hang_up_ : signals_).add(SIGHUP);
  ArmSignals();
  ArmHangUp();
  ArmDump();
  StartTls();
  if (Status status = StartHttp(); !status.ok()) return status;
  OpenFlight();  // last: a start that fails leaves the former image where it is
  heart_.Start();
  StartMasterLink();
  asio::post(data_context_, [this] { Serve(); });  // past every bound: once
  auto data_work = asio::make_work_guard(data_context_);
  auto control_work = asio::make_work_guard(control_context_);
  auto dump_work = asio::make_work_guard(dump_context_);
  std::thread dump_thread([this] { dump_context_.run(); });
  std::thread data_thread([this] { data_context_.run(); });
  (void)::pthread_setname_np(data_thread.native_handle(), kDataThreadName);
  control_context_.run();
  data_thread.join();
  dump_work.reset();
  dump_thread.join();
  http_.reset();
  return outcome_;
}

// ---- the end

void Daemon::StartTls() {
  if (config_.insecure) shell::Log(shell::Level::kWarning, "insecure", {{"effect", shell::kInsecureEffect}});
  if (config_.tls.security != nullptr) tls_.emplace(control_context_, config_.tls).Start();
}

Status Daemon::StartHttp() {
  if (config_.http.empty()) return Status::Ok();
  using Answer = shell::HttpQuestions::Answer;
  http_.emplace(shell::HttpQuestions{
      .health = [this](Answer answer) { Beat([answer = std::move(answer)] { answer(std::string("ok"), {}); }); },
      .status =
          [this](Answer answer) {
            (void)to_data_.TryPost([this, answer = std::move(answer)] {
              const net::Clock& clock = net::Clock::Of(data_context_);
              const TimePoint begin = clock.Now();
              std::string status = data_.StatusJson();
              answer(std::move(status), clock.Now() - begin);
            });
          }});
  return http_->Start(config_.http).status();
}

void Daemon::ArmSignals() {
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  signals_.async_wait([this](asio::error_code error, int) {
    if (error) return;
    ArmSignals();
    OnSignal();
  });
}

void Daemon::ArmHangUp() {
  hang_up_.async_wait([this](asio::error_code error, int) {
    if (error) return;
    ArmHangUp();
    Reload();
  });
}

void Daemon::Reload() {
  // The certificates that they were opened with may be valid no more.
  listener_->DropKept();
  const Result<Config::Again> again = config_.again();
  if (!again.ok()) {
    return shell::Log(shell::Level::kError, "reload_failed",
                      {{"error", again.status().text()}, {"effect", "the limit read before stays in use"}});
  }
  if (!again.value().others.empty()) {
    shell::Log(shell::Level::kWarning, "reload_left_out",
               {{"options", again.value().others},
                {"text", "these are read when ringwayd starts: systemctl restart ringwayd, after a drain"}});
  }
  const std::uint64_t mbit = again.value().uplink_limit_mbit;
  if (mbit == config_.uplink_limit_mbit || !to_data_.TryPost([this, mbit] { data_.SetUplinkLimit(mbit); })) return;
  config_.uplink_limit_mbit = mbit;
  shell::Log(shell::Level::kInfo, "uplink_limit", {{"mbit", mbit == 0 ? "none" : std::to_string(mbit)}});
}

void Daemon::OnSignal() {
  if (!ready_) return Finish(Status::Ok());
  if (std::exchange(stopping_, true)) {
    shell::Log(shell::Level::kWarning, "stopped_at_once");
    server_.RemoveFile();
    ::_exit(1);
  }
  const auto grace = std::chrono::milliseconds(config_.grace_ms);
  shell::Log(shell::Level::kInfo, "stopping", {{"grace_ms", config_.grace_ms}});
  shell::NotifyStopping();
  timer_.After(grace + kLastWord, [this] { Finish(Status::Ok()); });
  const TimePoint deadline = net::Clock::Of(control_context_).Now() + grace;
  const bool is_posted = to_data_.TryPost([this, deadline] { data_.ShutDown(deadline); });
  if (!is_posted) Finish(Status::Ok());  // a data thread that does not keep up cannot be asked
}

void Daemon::Finish(Status outcome) {
  if (std::exchange(finished_, true)) return;
  outcome_ = std::move(outcome);
  if (outcome_.ok()) shell::Log(shell::Level::kInfo, "stopped");
  master_->Stop();
  listener_.reset();
  // Past every bound: this is the last post.
  asio::post(data_context_, [this] {
    server_.Stop();
    data_.Stop();
  });
  control_context_.stop();
}

void Daemon::OnDrained() {
  (void)to_control_.TryPost([this] { Finish(Status::Ok()); });  // lost: the grace period's end does it
}

// ---- the master

void Daemon::OnMasterUp(const control::HelloReply& reply) {
  listener_->SetDetectMs(reply.detect_ms());
  dialer_->SetDetectMs(reply.detect_ms());
  shell::Log(shell::Level::kInfo, "master_up",
             {{"master", master_->address()}, {"daemon", std::to_string(reply.daemon_id())}, {"term", reply.term()}});
  if (!to_data_.TryPost([this, reply] { data_.OnMasterUp(reply); })) {
    return master_->Break("the data thread does not keep up");
  }
  registered_ = true;
  last_refusal_ = Status::Ok();
  if (!ready_) BecomeReady();
}

void Daemon::BecomeReady() {
  ready_ = true;
  timer_.Cancel();
  shell::Log(shell::Level::kInfo, "ready",
             {{"socket", config_.socket}, {"address", address_}, {"master", config_.master}});
  shell::NotifyReady();
}

void Daemon::Serve() {
  if (const Status status = server_.Start(); !status.ok())
    Log({.event = "error", .fields = {{"text", status.text()}}, .severity = agreement::Severity::kError});
  data_.Start();
}

void Daemon::OnMasterDown(const std::string& why) {
  shell::Log(shell::Level::kWarning, "master_down", {{"master", config_.master}, {"reason", why}});
  (void)to_data_.TryPost([this] { data_.OnMasterDown(); });  // lost: joins wait until the link is back
}

void Daemon::OnMasterRefused(const Status& why) {
  // Its name may be that of its predecessor, whose end the master has not noticed yet.
  const bool waits = why.code() == Code::kJoinRefused && !ready_;
  if (!registered_ && !MayPass(why.code()) && !waits) return Finish(why);
  if (why.text() == last_refusal_.text()) return;
  last_refusal_ = why;
  shell::Log(shell::Level::kWarning, "master_unreachable", {{"master", config_.master}, {"reason", why.text()}});
  // Lost: who waits hears only that there is no connection.
  (void)to_data_.TryPost([this, text = why.text()] { data_.OnMasterRefused(text); });
}

Status Daemon::OnMasterMessage(control::FromMaster message) {
  const bool posted = to_data_.TryPost([this, message = std::move(message)] { data_.OnMasterMessage(message); });
  if (posted) return Status::Ok();
  return {Code::kResourceExhausted, "the data thread does not keep up"};
}

void Daemon::ToMaster(control::ToMaster message) {
  const bool posted = to_control_.TryPost([this, message = std::move(message)] {
    if (to_master_lost_.exchange(false))
      master_->Break("messages to the master were lost: the control thread was behind");
    master_->Send(message);
  });
  if (!posted) to_master_lost_ = true;
}

void Daemon::SetCounters(control::DaemonHeartbeat counters) {
  (void)to_control_.TryPost(
      [this, counters = std::move(counters)]() mutable { master_->SetCounters(std::move(counters)); });
}

// ---- links

void Daemon::OnOffer(net::LinkOffer offer) {
  // Lost: the offer is destroyed and its connection closed.
  (void)to_data_.TryPost([this, offer = std::move(offer)]() mutable { data_.OnOffer(std::move(offer)); });
}

void Daemon::Keep(net::KeptConnection kept) {
  (void)to_control_.TryPost([this, kept = std::move(kept)]() mutable {
    if (!finished_) listener_->Keep(std::move(kept));
  });
}

bool Daemon::Dial(PeerId self, std::uint64_t serial, net::DialRequest request) {
  return to_control_.TryPost([this, self, serial, request = std::move(request)]() mutable {
    if (finished_) return;
    dialer_->Dial(std::move(request), [this, self, serial](Result<net::DialedLinks> outcome) {
      // Lost: the links are closed; the peer takes a dial that is never answered for one that failed.
      (void)to_data_.TryPost([this, self, serial, outcome = std::move(outcome)]() mutable {
        data_.OnDialed(self, serial, std::move(outcome));
      });
    });
  });
}

void Daemon::WriteDump(FlightDump dump) {
  const bool is_posted = to_dumps_.TryPost([this, dump = std::move(dump)] {
    const Result<std::string> path = dumps_->Write(dump);
    if (path.ok()) {
      shell::Log(shell::Level::kInfo, "flight_dumped", {{"path", path.value()}, {"cause", NameOf(dump.cause)}});
    } else if (!config_.flight_file->empty() || dump.cause == DumpCause::kSignal) {
      shell::Log(shell::Level::kWarning, "flight_dump_failed", {{"text", path.status().text()}});
    }
  });
  if (!is_posted)
    shell::Log(shell::Level::kWarning, "flight_dump_failed", {{"text", "the dumps before are still being written"}});
}

void Daemon::Log(LogLine line) {
  (void)to_control_.TryPost([line = std::move(line)] {
    const LogFields whose{{"group", line.group}, {"peer", ToString(line.peer)}, {"name", line.name}};
    shell::Log(LevelOf(line.severity), line.event, line.peer == PeerId() ? line.fields : whose + line.fields);
  });
}

}  // namespace ringway::daemon
