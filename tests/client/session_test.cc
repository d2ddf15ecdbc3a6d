// Joining, leaving, forking, and the end of the daemon, as a trainer meets them.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ringway/ringway.hpp>
#include <thread>
#include <vector>

#include "tests/client/fake_daemon.h"
#include "tests/client/joining.h"

namespace ringway {
namespace {

using std::chrono::seconds;
using testing::FakeDaemon;
using testing::MustJoin;
using testing::OptionsFor;

TEST(SessionTest, JoinTellsMembership) {
  FakeDaemon daemon;
  daemon.SetWorld(9, 2, 4);
  const auto session = MustJoin(OptionsFor(daemon));
  EXPECT_EQ(session->peer_id(), 77u);
  EXPECT_EQ(session->epoch(), 9u);
  EXPECT_EQ(session->rank(), 2u);
  EXPECT_EQ(session->world_size(), 4u);
  EXPECT_EQ(daemon.Look().group, "job");
}

TEST(SessionTest, NoDaemonIsUnreachableAndNamesThePath) {
  JoinOptions options;
  options.socket_path = "/nonexistent/ringwayd.sock";
  options.group = "job";
  options.wait_world = 1;
  const auto session = Session::Join(options);
  EXPECT_EQ(session.status().code(), Code::kDaemonUnreachable);
  EXPECT_NE(session.status().text().find(options.socket_path), std::string::npos);
}

TEST(SessionTest, BadOptionsAreRefusedWithoutADaemon) {
  JoinOptions options;
  EXPECT_EQ(Session::Join(options).status().code(), Code::kInvalidArgument);  // no group
  options.group = "job";
  EXPECT_EQ(Session::Join(options).status().code(), Code::kInvalidArgument);  // nobody said with how many
  options.wait_world = 65;
  EXPECT_EQ(Session::Join(options).status().code(), Code::kInvalidArgument);
  options.wait_world = 1;
  options.socket_path = std::string(200, 'x');
  EXPECT_EQ(Session::Join(options).status().code(), Code::kInvalidArgument);
}

TEST(SessionTest, RefusedHelloGivesTheDaemonsCode) {
  FakeDaemon daemon({.hello_code = Code::kVersionMismatch});
  const auto session = Session::Join(OptionsFor(daemon));
  EXPECT_EQ(session.status().code(), Code::kVersionMismatch);
  EXPECT_EQ(session.status().text(), "hello refused");
}

TEST(SessionTest, UnknownChosenVersionIsAMismatch) {
  FakeDaemon daemon({.version = abi::kVersion + 1});
  EXPECT_EQ(Session::Join(OptionsFor(daemon)).status().code(), Code::kVersionMismatch);
}

TEST(SessionTest, RefusedJoinGivesTheReason) {
  FakeDaemon daemon({.join_code = Code::kJoinRefused, .join_text = "the name is taken"});
  const auto session = Session::Join(OptionsFor(daemon));
  EXPECT_EQ(session.status().code(), Code::kJoinRefused);
  EXPECT_EQ(session.status().text(), "the name is taken");
}

TEST(SessionTest, JoinTimeoutCarriesTheLastProgress) {
  FakeDaemon daemon({.join_progress = "2 of 4 peers are here", .answers_join = false});
  JoinOptions options = OptionsFor(daemon);
  options.timeout = seconds(2);
  const auto session = Session::Join(options);
  EXPECT_EQ(session.status().code(), Code::kTimeout);
  EXPECT_NE(session.status().text().find("2 of 4 peers are here"), std::string::npos);
}

TEST(SessionTest, JoinThatTimesOutGivesTheCauseThatWasKnownLast) {
  FakeDaemon daemon(
      {.progress_code = Code::kPeerUnreachable, .join_progress = "a cannot reach b", .answers_join = false});
  JoinOptions options = OptionsFor(daemon);
  options.timeout = seconds(2);
  std::vector<Status> reported;
  options.on_waiting = [&](const Status& cause) { reported.push_back(cause); };
  const auto session = Session::Join(options);
  EXPECT_EQ(session.status().code(), Code::kPeerUnreachable);
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_EQ(reported[0].code(), Code::kPeerUnreachable);
  EXPECT_EQ(reported[0].text(), "a cannot reach b");
}

TEST(SessionTest, UnknownCodeOfTheDaemonIsAProtocolError) {
  FakeDaemon daemon({.join_code = static_cast<Code>(4711)});
  EXPECT_EQ(Session::Join(OptionsFor(daemon)).status().code(), Code::kProtocol);
}

TEST(SessionTest, LeaveEndsTheSession) {
  FakeDaemon daemon;
  const auto session = MustJoin(OptionsFor(daemon));
  EXPECT_TRUE(session->Leave().ok());
  EXPECT_EQ(session->Leave().code(), Code::kLeft);
  EXPECT_EQ(session->Allocate(64).status().code(), Code::kLeft);
  EXPECT_EQ(daemon.Look().leaves, 1u);
}

TEST(SessionTest, LeaveTimesOutAndCanBeRepeated) {
  FakeDaemon daemon({.answers_leave = false});
  const auto session = MustJoin(OptionsFor(daemon));
  EXPECT_EQ(session->Leave(Milliseconds(50)).code(), Code::kTimeout);
  EXPECT_EQ(session->Allocate(64).status().code(), Code::kLeft);
  EXPECT_EQ(session->Leave(Milliseconds(1)).code(), Code::kTimeout);
  EXPECT_TRUE(daemon.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.leaves >= 1; }));
  EXPECT_EQ(daemon.Look().leaves, 1u);
}

TEST(SessionTest, DestructorLeavesWithoutWaiting) {
  FakeDaemon daemon({.answers_leave = false});
  MustJoin(OptionsFor(daemon)).reset();
  EXPECT_TRUE(daemon.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.disconnects == 1 && seen.leaves == 1; }));
}

TEST(SessionTest, BufferOutlivesItsSession) {
  FakeDaemon daemon;
  auto session = MustJoin(OptionsFor(daemon));
  auto buffer = session->Allocate(100);
  ASSERT_TRUE(buffer.ok());
  session.reset();
  buffer->as<char>()[99] = 'x';
  EXPECT_EQ(buffer->size_bytes(), 100u);
}

TEST(SessionTest, RegionsAreSealedAndReused) {
  FakeDaemon daemon;
  const auto session = MustJoin(OptionsFor(daemon));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(session->Allocate(1'000'000).ok());
  std::vector<float> values(1000, 1.0F);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(session->AllReduce(values.data(), values.data(), 1000, DType::kF32, ReduceOp::kSum).ok());
  }
  const auto seen = daemon.Look();
  EXPECT_TRUE(seen.seals_were_right);
  EXPECT_EQ(seen.region_bytes.size(), 3u);  // the buffer's, a staged input and a result
}

TEST(SessionTest, RegionsAreBounded) {
  FakeDaemon daemon;
  const auto session = MustJoin(OptionsFor(daemon));
  std::vector<Buffer> buffers;
  for (std::uint32_t i = 0; i < abi::kRegionCountMax; ++i) {
    auto buffer = session->Allocate(1);
    ASSERT_TRUE(buffer.ok()) << i << ": " << buffer.status().text();
    buffers.push_back(std::move(buffer.value()));
  }
  EXPECT_EQ(session->Allocate(1).status().code(), Code::kResourceExhausted);
  buffers.pop_back();
  // Another size class: the free region releases its id.
  EXPECT_TRUE(session->Allocate(1'000'000).ok());
  EXPECT_TRUE(daemon.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.unregistered == 1; }));
  EXPECT_TRUE(daemon.Look().seals_were_right);
}

TEST(SessionTest, DeadDaemonFailsCallsAtOnce) {
  FakeDaemon daemon;
  const auto session = MustJoin(OptionsFor(daemon));
  daemon.Die();
  float value = 1.0F;
  EXPECT_EQ(session->AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum).status().code(), Code::kDaemonLost);
  EXPECT_EQ(session->Allocate(1).status().code(), Code::kDaemonLost);
  EXPECT_EQ(session->UpdateView().status().code(), Code::kDaemonLost);
  EXPECT_EQ(session->Leave().code(), Code::kDaemonLost);
  EXPECT_EQ(value, 1.0F);
}

TEST(SessionTest, EndedGivesItsReasonToLaterSends) {
  FakeDaemon daemon;
  const auto session = MustJoin(OptionsFor(daemon));
  daemon.SendEnded(Code::kEvicted, "the others went on");
  float value = 1.0F;
  const auto result = session->AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum);
  EXPECT_EQ(result.status().code(), Code::kEvicted);
  EXPECT_EQ(result.status().text(), "the others went on");
}

// Tries the calls in a forked child; its exit status names the first wrong answer.
int ProbeInChild(Session* session, Work* work, Buffer* buffer) {
  float value = 0;
  if (session->AllReduce(&value, &value, 1, DType::kF32, ReduceOp::kSum).status().code() != Code::kForked) return 1;
  if (session->Allocate(8).status().code() != Code::kForked) return 2;
  if (session->Leave().code() != Code::kForked) return 3;
  if (session->UpdateView().status().code() != Code::kForked) return 4;
  if (work->Wait().status().code() != Code::kForked) return 5;
  if (work->Cancel().code() != Code::kForked) return 6;
  *work = Work();
  *buffer = Buffer();
  return 0;
}

TEST(SessionTest, ForkedChildOwnsNothingAndDisturbsNobody) {
  FakeDaemon daemon({.holds = true});
  auto session = MustJoin(OptionsFor(daemon));
  auto buffer = session->Allocate(1000);
  ASSERT_TRUE(buffer.ok());
  float value = 1.0F;
  auto work = session->AllReduceAsync(&value, &value, 1, DType::kF32, ReduceOp::kSum);
  ASSERT_TRUE(work.ok());
  // A thread waits, so that a lock or a leader may be busy at the moment of the fork.
  std::thread waiter([&] { EXPECT_EQ(session->Leave(seconds(60)).code(), Code::kOk); });
  ASSERT_TRUE(daemon.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.leaves == 1; }));
  const pid_t child = fork();
  if (child == 0) {
    const int status = ProbeInChild(session.get(), &work.value(), &buffer.value());
    session.reset();
    _exit(status);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  waiter.join();
}

TEST(SessionTest, JoinSaysThatTheDaemonIsSilent) {
  FakeDaemon daemon({.answers_hello = false});
  std::vector<Code> reported;
  JoinOptions options;
  options.socket_path = daemon.socket_path();
  options.group = "job";
  options.wait_world = 1;
  options.timeout = Milliseconds(1500);
  options.on_waiting = [&](const Status& why) { reported.push_back(why.code()); };
  const auto joined = Session::Join(options);
  EXPECT_EQ(joined.status().code(), Code::kDaemonUnreachable);
  EXPECT_NE(joined.status().text().find(daemon.socket_path()), std::string::npos) << joined.status().text();
  EXPECT_EQ(reported, std::vector<Code>{Code::kDaemonUnreachable});
}

TEST(SessionTest, BuffersBeyondWhatThereIsAreRefusedBeforeTheyAreMade) {
  FakeDaemon daemon;
  const auto beyond_the_host = MustJoin(OptionsFor(daemon))->Allocate(std::size_t{1} << 45);
  EXPECT_EQ(beyond_the_host.status().code(), Code::kResourceExhausted);
  EXPECT_NE(beyond_the_host.status().text().find("the host has"), std::string::npos) << beyond_the_host.status().text();
  FakeDaemon small({.regions_mib_max = 64});
  const auto session = MustJoin(OptionsFor(small));
  const auto beyond_the_daemon = session->Allocate(std::size_t{65} << 20);
  EXPECT_EQ(beyond_the_daemon.status().code(), Code::kResourceExhausted);
  EXPECT_NE(beyond_the_daemon.status().text().find("--memory-max"), std::string::npos);
  std::vector<std::byte> heap(std::size_t{65} << 20);
  const auto staged = session->AllReduce(heap.data(), heap.data(), heap.size(), DType::kU8, ReduceOp::kSum);
  EXPECT_EQ(staged.status().code(), Code::kResourceExhausted);
  EXPECT_NE(staged.status().text().find("nothing was submitted"), std::string::npos) << staged.status().text();
}

TEST(SessionTest, FreeBuffersMakeRoomForThoseOfOtherSizes) {
  FakeDaemon daemon({.regions_mib_max = 64});
  auto session = MustJoin(OptionsFor(daemon));
  { const auto first = session->Allocate(std::size_t{15} << 20); }
  EXPECT_EQ(daemon.Look().unregistered, 0U) << "it may be used again";
  const auto second = session->Allocate(std::size_t{50} << 20);
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(daemon.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.unregistered == 1; }));
}

TEST(SessionTest, ForkedChildDoesNotKeepTheSocketOpen) {
  FakeDaemon daemon;
  auto session = MustJoin(OptionsFor(daemon));
  int hold[2];
  ASSERT_EQ(pipe(hold), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(hold[1]);
    char byte = 0;
    _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);  // lives until the parent lets go
  }
  close(hold[0]);
  session.reset();
  EXPECT_TRUE(daemon.WaitUntil([](const FakeDaemon::Seen& seen) { return seen.disconnects == 1; }));
  close(hold[1]);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace ringway
