// The chaos run: six daemons with their trainers, real connections, and a fault every 0.2 to 1 s, drawn from a seed.
//
//   start --> all six in one group --> faults --> everything heals --> all six in one group again --> all leave
//         --> nobody holds more than before
//
// It passes if the promise was kept (checker.h, and check_history.py of tests/history), nothing hung, nothing leaked
// and every kind of fault was struck. Faults go on until kOperationsMin operations have succeeded: a busy machine needs
// more time for as much evidence. The plan of faults follows from the seed; what they meet does not.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "tests/chaos/checker.h"
#include "tests/chaos/faults.h"
#include "tests/chaos/fleet.h"
#include "tests/e2e/checks.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/release.h"
#include "tests/sanitized.h"

namespace ringway::chaos {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kOperationsMin = 200;
constexpr int kLongerMax = 4;              // times the asked time, until so many have succeeded
constexpr std::uint64_t kSecondsMin = 30;  // on a slow machine, too: every kind of fault has to be struck
constexpr std::chrono::milliseconds kPoll(5);

struct RunOptions {
  std::uint64_t seconds = 60;
  FleetOptions fleet;
  FaultOptions faults;
  bool keep = false;
};

RunOptions the_options;

class ChaosRun {
 public:
  explicit ChaosRun(const RunOptions& options)
      : options_(options), fleet_(options.fleet), faults_(fleet_, options.faults), dice_(~options.fleet.seed) {
    if (options.keep) fleet_.KeepLogs();
    std::printf("chaos: seed %lu, %lu s, logs in %s\n", options.fleet.seed, options.seconds,
                fleet_.directory().c_str());
  }

  void Whole() {
    const std::vector<Holdings> before = Idle();
    for (std::size_t i = 0; i < kSeats; ++i) fleet_.StartTrainer(i);
    ASSERT_TRUE(Together()) << "the six do not find together at the start";
    Strike();
    ASSERT_TRUE(Together()) << "the six do not find together again: something hangs";
    Leave();
    fleet_.EndHistory();
    CompareIdle(before);
    checker_.Finish();
  }

  void Judge() {
    for (const std::string& violation : checker_.violations()) ADD_FAILURE() << violation;
    EXPECT_EQ(checker_.violation_count(), 0U);
    const e2e::Finished other = e2e::RunToEnd({RINGWAY_PYTHON, "-B", RINGWAY_CHECK_HISTORY, fleet_.histories()});
    std::printf("%s", other.out.c_str());
    EXPECT_EQ(other.code, 0) << "a second checker finds contradictions:\n" << other.out << other.err;
    for (const std::string& trouble : faults_.troubles()) ADD_FAILURE() << trouble;
    EXPECT_GE(checker_.tally().succeeded, kOperationsMin) << "too few for the run to count";
    EXPECT_GT(checker_.tally().late, 0U) << "no operation went on without a late input";
    for (const auto& [fault, times] : faults_.struck()) EXPECT_GT(times, 0U) << fault << " was never struck";
    if (options_.fleet.tls) {
      EXPECT_GT(RefusedForTheirEnd(), 0U) << "nobody refused a certificate that had ended";
    }
    // A shorter detection time, and a program under a sanitizer, may also show a busy machine.
    if (options_.fleet.detect_ms >= 1000 && !kSanitized) {
      EXPECT_EQ(innocents_, 0U) << "evicted without a fault";
    }
    for (const std::string& log : fleet_.LogsWith("operation_stuck")) ADD_FAILURE() << log << " has a fault of its own";
  }

  void Print() const {
    const Tally& tally = checker_.tally();
    if (testing::Test::HasFailure()) std::printf("%s", timeline_.str().c_str());
    std::printf("faults:");
    std::uint64_t all = 0;
    for (const auto& [name, times] : faults_.struck()) {
      std::printf(" %s %lu", name.c_str(), times);
      all += times;
    }
    std::printf(" (%lu in all)\n", all);
    std::printf(
        "operations: %lu succeeded of %lu; %lu outcomes reported, %lu after a retry, %lu to peers that then went\n",
        tally.succeeded, tally.operations, tally.outcomes, tally.retried, tally.excused);
    std::printf("outcomes of late ranks, whose inputs the others did not wait for: %lu\n", tally.late);
    std::printf("world size of a success:");
    for (const auto& [world, times] : tally.worlds) std::printf(" %zu: %lu", world, times);
    std::printf("\noutcomes and ends:");
    for (const auto& [code, times] : tally.codes) std::printf(" %s %lu", ringway::NameOf(code), times);
    std::printf("\nmemberships: %lu; lives of the group: %lu; longest stall %lu ms\n", tally.memberships, tally.lives,
                tally.longest_gap_ms);
    if (options_.fleet.tls) {
      std::printf("certificates ended: %lu; connections refused for it: %zu\n",
                  faults_.struck().at(NameOf(Fault::kEndCertificate)), RefusedForTheirEnd());
    }
    std::printf("violations of the promise: %lu; leaks: %zu; evicted without a fault: %zu\n",
                checker_.violation_count(), leaks_, innocents_);
  }

 private:
  // Counts the lines that the diallers, or the acceptors, log.
  std::size_t RefusedForTheirEnd() const { return fleet_.LinesWith({"certificate has expired", "ended on"}); }

  void Poll() {
    for (const Record& record : fleet_.Poll()) {
      checker_.Add(record);
      if (record.kind == RecordKind::kEnd) CountEviction(record);
    }
    for (std::size_t i = 0; i < kSeats; ++i) ExpectStands(i);
    std::this_thread::sleep_for(kPoll);
  }

  void CountEviction(const Record& record) {
    for (std::size_t i = 0; i < kSeats; ++i) {
      if (fleet_.PeerOf(i) != record.peer || record.code != Code::kEvicted || !faults_.IsUntouched(i)) continue;
      ++innocents_;
      timeline_ << Seconds() << " s: t" << i << " is evicted, and nothing had struck it\n";
    }
  }

  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  // Whom nobody strikes does not end.
  void ExpectStands(std::size_t seat) {
    if (faults_.Touches(seat) || leaving_) return;
    for (e2e::Process* process : {&fleet_.daemon(seat), &fleet_.trainer(seat)}) {
      if (process->Exited().has_value() && fallen_.insert(process->label()).second) {
        ADD_FAILURE() << process->label() << " ended by itself, with " << *process->Exited();
      }
    }
  }

  // Every trainer has completed an operation of all six that began after now.
  bool Together() {
    std::uint64_t step = 0;
    for (std::size_t i = 0; i < kSeats; ++i) {
      if (fleet_.LastOf(i)) step = std::max(step, fleet_.LastOf(i)->name.step);
    }
    return e2e::Eventually([&] {
      faults_.Heal(true);
      Poll();
      for (std::size_t i = 0; i < kSeats; ++i) {
        const auto& last = fleet_.LastOf(i);
        if (!faults_.healed() || !last || MembersOf(*last).size() != kSeats || last->name.step <= step) return false;
      }
      return true;
    });
  }

  void Strike() {
    start_ = Clock::now();
    const Clock::time_point end = start_ + std::chrono::seconds(options_.seconds);
    const Clock::time_point last = start_ + kLongerMax * (end - start_);
    const auto few = [&] { return checker_.tally().succeeded < kOperationsMin && Clock::now() < last; };
    for (Clock::time_point next = start_; Clock::now() < end || few();) {
      if (Clock::now() >= next) {
        const auto struck = faults_.Strike();
        next += std::chrono::milliseconds(struck ? 200 + dice_() % 801 : 50);
        if (struck) timeline_ << Seconds() << " s: " << *struck << '\n';
      }
      faults_.Heal();
      Poll();
    }
  }

  void Leave() {
    leaving_ = true;
    for (std::size_t i = 0; i < kSeats; ++i) fleet_.trainer(i).Signal(SIGTERM);
    for (std::size_t i = 0; i < kSeats; ++i) {
      EXPECT_EQ(fleet_.trainer(i).Wait(), 0) << fleet_.trainer(i).label() << " does not leave";
    }
    Poll();
  }

  // Returns what master and daemons hold without any trainer, but for the connections that are kept for the next one's.
  std::vector<Holdings> Idle() {
    std::vector<Holdings> out = {Fleet::HoldingsOf(fleet_.master())};
    for (std::size_t i = 0; i < kSeats; ++i) {
      out.push_back(Fleet::HoldingsOf(fleet_.daemon(i)));
      out.back().descriptors -= fleet_.KeptBy(i);
    }
    return out;
  }

  // Names the program whose holdings Idle returns at `index`.
  const std::string& LabelOf(std::size_t index) {
    return index == 0 ? fleet_.master().label() : fleet_.daemon(index - 1).label();
  }

  void CompareIdle(const std::vector<Holdings>& before) {
    std::vector<Holdings> after;
    const auto none_leaks = [&] {
      after = Idle();
      leaks_ = 0;
      for (std::size_t i = 0; i < after.size(); ++i) {
        if (after[i].descriptors > before[i].descriptors || after[i].regions > 0) ++leaks_;
      }
      return leaks_ == 0;
    };
    (void)e2e::Eventually(none_leaks);
    for (std::size_t i = 0; i < after.size(); ++i) {
      EXPECT_LE(after[i].descriptors, before[i].descriptors) << LabelOf(i);
      EXPECT_EQ(after[i].regions, 0U) << LabelOf(i);
      std::printf("idle: %-7s %zu descriptors (%zu), %zu KiB (%zu)\n", LabelOf(i).c_str(), after[i].descriptors,
                  before[i].descriptors, after[i].anonymous_kib, before[i].anonymous_kib);
    }
  }

  const RunOptions options_;
  Fleet fleet_;
  Faults faults_;
  Checker checker_;
  std::mt19937_64 dice_;
  std::ostringstream timeline_;
  Clock::time_point start_{};
  std::size_t leaks_ = 0;
  std::size_t innocents_ = 0;
  std::set<std::string> fallen_;
  bool leaving_ = false;
};

TEST(Chaos, KeepsThePromise) {
  ChaosRun run(the_options);
  run.Whole();
  run.Judge();
  run.Print();
}

}  // namespace
}  // namespace ringway::chaos

int main(int argc, char** argv) {
  using ringway::chaos::the_options;
  testing::InitGoogleTest(&argc, argv);
  CLI::App app("Kills, freezes, cuts and deafens six daemons and their trainers, and compares all outcomes");
  app.add_option("--seconds", the_options.seconds, "how long faults are struck")->capture_default_str();
  app.add_option("--seed", the_options.fleet.seed, "of the plan of faults")->capture_default_str();
  app.add_option("--cut-off-max-ms", the_options.faults.cut_off_max_ms, "how long the master is cut off at most")
      ->capture_default_str();
  app.add_option("--detect-ms", the_options.fleet.detect_ms, "silence that means death")->capture_default_str();
  app.add_flag("--tls", the_options.fleet.tls, "certificates for all");
  app.add_flag("--gpu", the_options.fleet.gpu,
               "two of the trainers reduce memory of this host's GPU (without one: 77)");
  app.add_flag("--host-faults", the_options.fleet.host_faults,
               "also move clocks, fail names, fill the journal's disk (as root), flood sockets");
  app.add_flag("--previous", the_options.fleet.previous,
               "start each process from this release or from the one before (RINGWAY_TEST_PREVIOUS), by chance");
  app.add_flag("--keep", the_options.keep, "keep the logs, also of a good run");
  CLI11_PARSE(app, argc, argv);
  the_options.faults.seed = the_options.fleet.seed;
  the_options.seconds =
      std::max(std::min(the_options.seconds, ringway::chaos::kSecondsMin), ringway::AtEffort(the_options.seconds));
  if (the_options.fleet.previous && !ringway::e2e::PreviousPrograms()) {
    std::fprintf(stderr, "--previous: RINGWAY_TEST_PREVIOUS is not set: tests/releases/build.sh prints its value\n");
    return 2;
  }
  if (const std::string why = the_options.fleet.gpu ? ringway::e2e::WhyNoGpu() : ""; !why.empty()) {
    std::printf("skipped: %s\n", why.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
