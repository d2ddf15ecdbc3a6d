// The trainers that the READMEs show, in C++ and C, in one group: a death, a newcomer, a restarted daemon, an eviction.
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

constexpr std::uint64_t kMany = 50;  // steps

class ShortestTest : public testing::Test {
 protected:
  std::unique_ptr<Process> Start(const std::string& program, std::size_t daemon) {
    return std::make_unique<Process>(cluster_.directory(), "trainer" + std::to_string(started_++),
                                     std::vector<std::string>{program, cluster_.socket(daemon), "job", "3"});
  }

  // The newest step that it has said; 0 before the first.
  static std::uint64_t StepOf(const Process& trainer) {
    const std::string out = trainer.Out();
    const std::size_t end = out.rfind('\n');
    const std::size_t at = out.rfind("step ", end);
    return end == std::string::npos || at == std::string::npos ? 0 : std::stoull(out.substr(at + 5));
  }

  static bool GoesOn(const Process& trainer) {
    const std::uint64_t from = StepOf(trainer);
    return Eventually([&] { return StepOf(trainer) >= from + kMany; });
  }

  // Returns whether this daemon's trainer has submitted an operation that has waited for a while for the peer, among
  // others.
  bool WaitsFor(std::size_t daemon, const std::string& name) const {
    return cluster_.DaemonStatus(daemon)["groups"][0].value("waits", "").find(name) != std::string::npos;
  }

  // Returns the last line of a trainer, and expects success.
  static std::string EndOf(Process& trainer) {
    EXPECT_EQ(trainer.Wait(), 0) << trainer.Err();
    const std::string out = trainer.Out();
    const std::size_t at = out.rfind("done ");
    return at == std::string::npos ? "nothing" : out.substr(at);
  }

  Cluster cluster_{{.daemons = 3}};
  int started_ = 0;
};

TEST_F(ShortestTest, EndsWhenAskedToWhileItWaits) {
  for (const char* const program : {RINGWAY_SHORTEST, RINGWAY_SHORTEST_C}) {
    const auto alone = Start(program, 0);
    ASSERT_TRUE(Eventually([&] { return alone->Err().starts_with("waiting: "); }));
    alone->Signal(SIGTERM);
    EXPECT_EQ(alone->Wait(), 1) << "joining";
    EXPECT_NE(alone->Err().find("interrupted: "), std::string::npos) << alone->Err();
  }
  std::vector<std::unique_ptr<Process>> trainers;
  for (const std::size_t daemon : {0U, 1U, 2U}) {
    trainers.push_back(Start(daemon == 0 ? RINGWAY_SHORTEST_C : RINGWAY_SHORTEST, daemon));
  }
  for (const auto& trainer : trainers) ASSERT_TRUE(GoesOn(*trainer));
  trainers[2]->Freeze();
  // An operation that it had still submitted would end with their votes.
  for (const std::size_t waiting : {0U, 1U}) ASSERT_TRUE(Eventually([&] { return WaitsFor(waiting, "d2-"); }));
  for (const std::size_t waiting : {0U, 1U}) {
    // The second of two signals ends it; two at once may arrive as one.
    ASSERT_TRUE(Eventually([&] {
      trainers[waiting]->Signal(SIGTERM);
      return trainers[waiting]->Exited().has_value();
    }));
    EXPECT_EQ(trainers[waiting]->Wait(), 1) << "in an operation";
  }
  trainers[2]->Kill();
}

TEST_F(ShortestTest, GoesOnAfterADeathLetsANewcomerInAndRejoinsAfterARestartAndAnEviction) {
  const auto first = Start(RINGWAY_SHORTEST, 0);
  const auto second = Start(RINGWAY_SHORTEST_C, 1);
  for (const auto* trainer : {&first, &second}) {
    ASSERT_TRUE(Eventually([&] { return (*trainer)->Err().starts_with("waiting: "); })) << "for the third";
  }
  const auto victim = Start(RINGWAY_SHORTEST, 2);
  for (const auto* trainer : {&first, &second, &victim}) ASSERT_TRUE(GoesOn(**trainer));
  victim->Kill();
  ASSERT_TRUE(GoesOn(*first)) << "after a death";
  const std::uint64_t before = StepOf(*first);
  const auto newcomer = Start(RINGWAY_SHORTEST_C, 2);
  ASSERT_TRUE(Eventually([&] { return StepOf(*newcomer) > 0; })) << "a newcomer is let in";
  EXPECT_GT(StepOf(*newcomer), before) << "it has taken the others' state";
  cluster_.daemon(1).Signal(SIGTERM);
  ASSERT_EQ(cluster_.daemon(1).Wait(), 0);
  cluster_.RestartDaemon(1);
  for (const auto* trainer : {&first, &second, &newcomer}) ASSERT_TRUE(GoesOn(**trainer)) << "after a restart";
  cluster_.daemon(2).Freeze();
  ASSERT_TRUE(GoesOn(*first)) << "without the one that is silent";
  cluster_.daemon(2).Signal(SIGCONT);
  for (const auto* trainer : {&first, &second, &newcomer}) ASSERT_TRUE(GoesOn(**trainer)) << "after an eviction";
  newcomer->Signal(SIGTERM);
  const std::string end = EndOf(*first);
  EXPECT_TRUE(end.starts_with("done steps ")) << end;
  EXPECT_EQ(EndOf(*second), end) << "the same steps, and the same bytes";
  EXPECT_EQ(EndOf(*newcomer), end);
}

}  // namespace
}  // namespace ringway::e2e
