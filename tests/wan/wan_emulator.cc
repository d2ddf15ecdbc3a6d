// Carries the packets of a scenario's hosts: one TUN device in each host's namespace, joined by wan::Network.
//
//   wan_emulator --scenario FILE --stats FILE NAMESPACE...       (one namespace a host, in the scenario's order)
//   wan_emulator --scenario FILE --print [--set "KEY=VALUE,..."] the scenario with these keys overridden (scenario.h)
//   wan_emulator --scenario FILE --list hosts                    UPLINK_MBIT DEVICE_BYTES CONGESTION SITE of each host
//   wan_emulator --scenario FILE --list foreign                  FROM TO CONNECTIONS CONGESTION of each [[foreign]]
//   wan_emulator --scenario FILE --list json                     what each host and path carries, for those who compute
//
// A congestion control that the scenario leaves open is listed as "-", an uplink without a limit as 0. DEVICE_BYTES is
// the limit of the qdisc where the uplink's queue is the sender's device (tests/wan/run makes it), and else 0.
//
// Host i has the address 10.111.0.(i + 1), which tests/wan/run assigns to its device. Prints "ready" when the devices
// are up. SIGHUP: reads the scenario again (an invalid one is refused, and the old one stays). SIGUSR1, SIGTERM and
// SIGINT: writes the traffic of each path to the stats file, as JSON, and how many deliveries were late by over
// 2 ms: an emulator that lacks CPU time is another network than the scenario's. SIGUSR2: the schedules start anew,
// which first start with it.
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "tests/wan/network.h"
#include "tests/wan/tun.h"

namespace ringway::wan {
namespace {

constexpr std::uint32_t kFirstAddress = 0x0a6f0001;  // 10.111.0.1
constexpr const char* kDevice = "wan0";
// Longer bursts would make others wait.
constexpr int kReadsATurn = 16;
// Packets that arrive within this time are handed over together, as network cards do, and as one where they can be: one
// by one they cost several times the processor, and this program would be the bottleneck. It is at most a hundredth of
// a delay.
constexpr Nanoseconds kGatherMax = std::chrono::microseconds(50);
constexpr std::size_t kStreamsGathered = 16;

Nanoseconds GatherTime(const Scenario& scenario) {
  Nanoseconds shortest = 100 * kGatherMax;
  for (std::size_t from = 0; from < scenario.hosts.size(); ++from) {
    for (std::size_t to = 0; to < scenario.hosts.size(); ++to) {
      if (to != from) shortest = std::min(shortest, scenario.paths[from][to].delay);
    }
  }
  return shortest / 100;
}

std::atomic<bool> reload_wanted = false;
std::atomic<bool> stats_wanted = false;
std::atomic<bool> schedule_wanted = false;
std::atomic<bool> stop_wanted = false;

void OnSignal(int signal) {
  (signal == SIGHUP    ? reload_wanted
   : signal == SIGUSR1 ? stats_wanted
   : signal == SIGUSR2 ? schedule_wanted
                       : stop_wanted) = true;
}

struct Flying {
  TimePoint due;
  std::uint64_t order = 0;  // of equals the first sent
  std::size_t from = 0;
  std::size_t to = 0;
  Stage next = Stage::kArrived;
  Bytes frame;
  bool operator>(const Flying& other) const { return std::pair(due, order) > std::pair(other.due, other.order); }
};

// Measures how far this program is behind the network that it plays: then the figures are the machine's.
class Lateness {
 public:
  void Add(Nanoseconds late) {
    ++frames_;
    late_ += late > kLate ? 1 : 0;
    most_ = std::max(most_, late);
  }
  std::uint64_t frames() const { return frames_; }
  std::uint64_t late() const { return late_; }
  void Complain() const {
    const double share = static_cast<double>(late_) / static_cast<double>(std::max<std::uint64_t>(frames_, 1));
    if (share < kShareMax) return;
    std::fprintf(
        stderr,
        "wan_emulator: fell behind: %.1f%% of the packets came over 2 ms late, one %.0f ms: the machine is too "
        "slow or too busy for this network\n",
        100 * share, std::chrono::duration<double, std::milli>(most_).count());
  }

 private:
  static constexpr Nanoseconds kLate = std::chrono::milliseconds(2);
  static constexpr double kShareMax = 0.01;
  std::uint64_t frames_ = 0;
  std::uint64_t late_ = 0;
  Nanoseconds most_{};
};

class Emulator {
 public:
  Emulator(Scenario scenario, std::string scenario_path, std::string stats_path)
      : network_(std::move(scenario)),
        scenario_path_(std::move(scenario_path)),
        stats_path_(std::move(stats_path)),
        gather_(GatherTime(network_.scenario())),
        gathered_(network_.scenario().hosts.size()),
        buffer_(kFrameBytesMax) {}

  // Returns the error, or "".
  std::string Open(const std::vector<std::string>& namespaces) {
    for (const std::string& name : namespaces) {
      OpenedTun tun = OpenTun(name, kDevice);
      if (!tun.error.empty()) return tun.error;
      polls_.push_back({.fd = tun.fd.get(), .events = POLLIN, .revents = 0});
      tuns_.push_back(std::move(tun.fd));
    }
    return "";
  }

  void Run() {
    network_.StartSchedule(Now());
    while (!stop_wanted) {
      if (reload_wanted.exchange(false)) Reload();
      if (stats_wanted.exchange(false)) WriteStats();
      if (schedule_wanted.exchange(false)) network_.StartSchedule(Now());
      const TimePoint now = Now();
      timespec wait{.tv_sec = 1, .tv_nsec = 0};
      if (!flying_.empty() && flying_.top().due < now + std::chrono::seconds(1)) {
        wait = {.tv_sec = 0, .tv_nsec = std::max<std::int64_t>(0, (flying_.top().due + gather_ - now).count())};
      }
      (void)::ppoll(polls_.data(), polls_.size(), &wait, nullptr);
      for (std::size_t from = 0; from < polls_.size(); ++from) {
        if ((polls_[from].revents & POLLIN) != 0) ReadFrom(from);
        Deliver();  // what is due does not wait for the other hosts
      }
    }
    WriteStats();
    lateness_.Complain();
  }

 private:
  static TimePoint Now() { return std::chrono::time_point_cast<Nanoseconds>(std::chrono::steady_clock::now()); }

  void ReadFrom(std::size_t from) {
    for (int i = 0; i < kReadsATurn; ++i) {
      buffer_.resize(kFrameBytesMax);
      const ssize_t got = ::read(tuns_[from].get(), buffer_.data(), buffer_.size());
      if (got <= 0) return;
      buffer_.resize(static_cast<std::size_t>(got));
      const auto info = Inspect(buffer_);
      if (!info) continue;  // IPv6 looking for its neighbours
      const std::size_t to = info->destination - kFirstAddress;
      if (info->destination < kFirstAddress || to >= tuns_.size() || to == from) continue;
      Launch(Stage::kUplink, from, to, buffer_, *info, Now());
    }
  }

  // Takes the frame through the stage; what is left of it flies on.
  void Launch(Stage stage, std::size_t from, std::size_t to, const Bytes& frame, const PacketInfo& info,
              TimePoint now) {
    for (const Delivery& delivery : network_.Advance(stage, from, to, info, now)) {
      Bytes slice = Slice(frame, info, delivery.first, delivery.count);
      if (delivery.corrupt) {
        if (const auto sliced = Inspect(slice)) Corrupt(&slice, *sliced, delivery.random);
      }
      flying_.push({.due = delivery.due,
                    .order = order_++,
                    .from = from,
                    .to = to,
                    .next = delivery.next,
                    .frame = std::move(slice)});
    }
  }

  void Deliver() {
    const TimePoint now = Now();
    if (flying_.empty() || flying_.top().due + gather_ > now) return;
    while (!flying_.empty() && flying_.top().due <= now) {
      Flying next = std::move(const_cast<Flying&>(flying_.top()));  // it is popped at once
      flying_.pop();
      if (next.next == Stage::kArrived) {
        lateness_.Add(now - next.due);
        Gather(next.to, std::move(next.frame));
      } else if (const auto info = Inspect(next.frame)) {
        Launch(next.next, next.from, next.to, next.frame, *info, next.due);
      }
    }
    for (std::size_t to = 0; to < gathered_.size(); ++to) {
      for (const Bytes& frame : std::exchange(gathered_[to], {})) HandOver(to, frame);
    }
  }

  // Streams may overtake one another, a stream never itself.
  void Gather(std::size_t to, Bytes frame) {
    std::vector<Bytes>& waiting = gathered_[to];
    const auto same =
        std::find_if(waiting.begin(), waiting.end(), [&](const Bytes& other) { return IsSameStream(other, frame); });
    if (same != waiting.end()) {
      if (Merge(&*same, frame)) return;
      HandOver(to, std::exchange(*same, std::move(frame)));
    } else if (waiting.size() < kStreamsGathered) {
      waiting.push_back(std::move(frame));
    } else {
      HandOver(to, frame);
    }
  }

  void HandOver(std::size_t to, const Bytes& frame) {
    (void)!::write(tuns_[to].get(), frame.data(), frame.size());  // a full device loses it
  }

  void Reload();

  void WriteStats() const {
    const Scenario& scenario = network_.scenario();
    nlohmann::ordered_json root = {
        {"deliveries", lateness_.frames()}, {"late", lateness_.late()}, {"paths", nlohmann::ordered_json::array()}};
    for (std::size_t from = 0; from < scenario.hosts.size(); ++from) {
      for (std::size_t to = 0; to < scenario.hosts.size(); ++to) {
        const Traffic& traffic = network_.traffic(from, to);
        if (traffic.packets == 0) continue;
        root["paths"].push_back({{"from", from},
                                 {"to", to},
                                 {"from_site", scenario.hosts[from].site},
                                 {"to_site", scenario.hosts[to].site},
                                 {"packets", traffic.packets},
                                 {"bytes", traffic.bytes},
                                 {"overflowed", traffic.overflowed},
                                 {"policed", traffic.policed},
                                 {"turned_away", traffic.turned_away},
                                 {"lost", traffic.lost},
                                 {"corrupted", traffic.corrupted}});
      }
    }
    const std::string draft = stats_path_ + ".tmp";
    std::ofstream(draft) << root.dump(1) << '\n';
    (void)std::rename(draft.c_str(), stats_path_.c_str());
  }

  Network network_;
  const std::string scenario_path_;
  const std::string stats_path_;
  Nanoseconds gather_;
  std::vector<std::vector<Bytes>> gathered_;  // by receiver: at most one a stream
  std::vector<net::UniqueFd> tuns_;
  std::vector<pollfd> polls_;
  std::priority_queue<Flying, std::vector<Flying>, std::greater<>> flying_;
  std::uint64_t order_ = 0;
  Lateness lateness_;
  Bytes buffer_;
};

std::optional<std::string> ReadText(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

ParsedScenario Load(const std::string& path) {
  const auto text = ReadText(path);
  if (!text) return {{}, "cannot read " + path};
  return ParseScenario(*text, path);
}

bool HaveSameQdisc(const Host& a, const Host& b) {
  return DeviceQueueBytes(a) == DeviceQueueBytes(b) &&
         (a.drops != Drops::kDevice || a.uplink.bytes_per_second == b.uplink.bytes_per_second);
}

void Emulator::Reload() {
  ParsedScenario parsed = Load(scenario_path_);
  if (parsed.error.empty() && parsed.scenario.hosts.size() != tuns_.size()) {
    parsed.error = scenario_path_ + ": the hosts cannot change while it runs";
  }
  if (parsed.error.empty() && !std::ranges::equal(parsed.scenario.hosts, network_.scenario().hosts, HaveSameQdisc)) {
    parsed.error = scenario_path_ + ": an uplink whose queue is the host's device cannot change while it runs";
  }
  if (parsed.error.empty()) {
    network_.Change(std::move(parsed.scenario));
    gather_ = GatherTime(network_.scenario());
  } else {
    std::fprintf(stderr, "wan_emulator: %s; the former scenario stays\n", parsed.error.c_str());
  }
}

int Fail(const std::string& why) {
  std::fprintf(stderr, "wan_emulator: %s\n", why.c_str());
  return 2;
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

double Mbit(double bytes_per_second) { return bytes_per_second * 8 / 1e6; }

// Rates of 0 are without a limit. Paths in rows, by sender.
void ListJson(const Scenario& scenario) {
  nlohmann::ordered_json root = {{"hosts", nlohmann::ordered_json::array()},
                                 {"paths", nlohmann::ordered_json::array()}};
  for (const Host& host : scenario.hosts) {
    root["hosts"].push_back({{"site", host.site},
                             {"uplink_mbit", Mbit(host.uplink.bytes_per_second)},
                             {"downlink_mbit", Mbit(host.downlink.bytes_per_second)},
                             {"shared_mbit", Mbit(host.site_uplink.bytes_per_second)},
                             {"police_mbit", Mbit(host.policer.bytes_per_second)}});
  }
  for (const std::vector<Path>& row : scenario.paths) {
    nlohmann::ordered_json paths = nlohmann::ordered_json::array();
    for (const Path& path : row) {
      paths.push_back({{"delay_ms", static_cast<double>(path.delay.count()) / 1e6},
                       {"mbit", Mbit(path.pipe.bytes_per_second)},
                       {"loss", path.loss}});
    }
    root["paths"].push_back(paths);
  }
  std::printf("%s\n", root.dump().c_str());
}

void List(const Scenario& scenario, const std::string& what) {
  if (what == "json") return ListJson(scenario);
  if (what == "hosts") {
    for (const Host& host : scenario.hosts) {
      std::printf("%.10g %llu %s %s\n", Mbit(host.uplink.bytes_per_second),
                  static_cast<unsigned long long>(DeviceQueueBytes(host)), OrDash(host.congestion).c_str(),
                  host.site.c_str());
    }
    return;
  }
  for (const ForeignFlows& flows : scenario.foreign) {
    std::printf("%zu %zu %zu %s\n", flows.from, flows.to, flows.connections, OrDash(flows.congestion).c_str());
  }
}

int Print(const std::string& path, const std::string& overrides) {
  const auto text = ReadText(path);
  if (!text) return Fail("cannot read " + path);
  const OverriddenScenario overridden = OverrideScenario(*text, path, overrides);
  if (!overridden.error.empty()) return Fail(overridden.error);
  std::printf("%s", overridden.toml.c_str());
  return 0;
}

int Main(int argc, char** argv) {
  std::string path, stats = "/dev/null", list, overrides;
  std::vector<std::string> namespaces;
  bool print = false;
  CLI::App app("Carries packets between network namespaces as a wide area network would", "wan_emulator");
  app.add_option("--scenario", path, "TOML file (tests/wan/scenario.h)")->required();
  app.add_option("--stats", stats, "Where to write what went over each path");
  app.add_option("--list", list, "Only list the scenario's hosts, foreign flows, or all as JSON")
      ->check(CLI::IsMember({"hosts", "foreign", "json"}));
  auto* const print_flag = app.add_flag("--print", print, "Only print the scenario");
  app.add_option("--set", overrides, "KEY=VALUE,...: override these keys")->needs(print_flag);
  app.add_option("namespaces", namespaces, "One a host");
  CLI11_PARSE(app, argc, argv);
  if (print) return Print(path, overrides);
  ParsedScenario parsed = Load(path);
  if (!parsed.error.empty()) return Fail(parsed.error);
  if (!list.empty()) {
    List(parsed.scenario, list);
    return 0;
  }
  if (namespaces.size() != parsed.scenario.hosts.size()) {
    return Fail("the scenario has " + std::to_string(parsed.scenario.hosts.size()) +
                " hosts: give a namespace for each");
  }
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2, SIGTERM, SIGINT}) (void)std::signal(signal, OnSignal);
  (void)::prctl(PR_SET_TIMERSLACK, 1000UL);
  Emulator emulator(std::move(parsed.scenario), path, stats);
  if (const std::string why = emulator.Open(namespaces); !why.empty()) return Fail(why);
  // A network does not wait until its hosts leave it a processor. Best effort.
  const sched_param priority{.sched_priority = 1};
  (void)::sched_setscheduler(0, SCHED_RR, &priority);
  std::printf("ready\n");
  std::fflush(stdout);
  emulator.Run();
  return 0;
}

}  // namespace
}  // namespace ringway::wan

int main(int argc, char** argv) { return ringway::wan::Main(argc, argv); }
