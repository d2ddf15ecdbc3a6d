#include "master/shell/server.h"

#include <gtest/gtest.h>
#include <ringway/types.h>

#include <asio/connect.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "master/shell/journal.h"
#include "proto/frame_codec.h"
#include "proto/stream/address.h"
#include "tests/master/shell/ask_over.h"
#include "tests/master/shell/server_fixture.h"
#include "tests/proto/stream/memory_stream.h"

namespace ringway {
namespace {

TEST_F(ServerTest, ProgramAsksItselfWithoutAConnection) {
  Start();
  std::string status;
  server_->AskStatus({}, [&](std::string answer) { status = std::move(answer); });
  EXPECT_EQ(status, "") << "it answers in a later turn";
  ASSERT_TRUE(RunUntil([&] { return !status.empty(); }));
  EXPECT_NE(status.find("\"master\""), std::string::npos) << status;
}

TEST_F(ServerTest, HelloIsAnsweredAndStatusListsTheDaemon) {
  Start();
  std::string out;
  AppendFrame(HelloMessage(kProtocolVersionMax), out);
  Write(out);
  EXPECT_TRUE(Receive()->has_hello_reply());
  const auto reply = AskStatus();
  ASSERT_TRUE(reply && reply->has_status());
  EXPECT_NE(reply->status().json().find("\"name\":\"d\""), std::string::npos) << reply->status().json();
}

// The daemon and the client are one connection here: a daemon may ask, too.
TEST_F(ServerTest, TraceIsPassedToTheDaemonAndItsAnswerBackWithTheClock) {
  Start();
  const auto send = [&](const control::ToMaster& message) {
    std::string out;
    AppendFrame(message, out);
    Write(out);
  };
  send(HelloMessage(kProtocolVersionMax));
  EXPECT_TRUE(Receive()->has_hello_reply());
  control::ToMaster beat;
  beat.mutable_heartbeat()->mutable_clock()->set_sent_us(1);
  send(beat);
  const auto first = Receive();
  ASSERT_TRUE(first && first->has_heartbeat());
  ASSERT_GT(first->heartbeat().clock().sent_us(), 0);
  beat.mutable_heartbeat()->mutable_clock()->set_echo_us(first->heartbeat().clock().sent_us());
  send(beat);
  EXPECT_TRUE(Receive()->has_heartbeat());
  tcp::socket asking(io_);
  asking.connect(address_);
  std::swap(asking, client_);
  control::ToMaster ask;
  ask.mutable_trace()->set_daemon("d");
  ask.mutable_trace()->set_group("g");
  send(ask);
  std::swap(asking, client_);
  const auto passed = Receive();
  ASSERT_TRUE(passed && passed->has_trace());
  EXPECT_EQ(passed->trace().group(), "g");
  control::ToMaster part;
  part.mutable_trace_part()->set_number(passed->trace().number());
  part.mutable_trace_part()->set_image("image");
  send(part);
  std::swap(asking, client_);
  const auto reply = Receive();
  ASSERT_TRUE(reply && reply->has_trace_reply());
  EXPECT_EQ(reply->trace_reply().image(), "image");
  EXPECT_TRUE(reply->trace_reply().has_clock());
  EXPECT_LT(reply->trace_reply().ahead_us(), 0) << "it is as old as the machine";
  control::ToMaster other;
  other.mutable_trace()->set_daemon("nobody");
  send(other);
  const auto refused = Receive();
  ASSERT_TRUE(refused && refused->has_trace_reply());
  EXPECT_EQ(CodeFromWire(refused->trace_reply().code()), Code::kInvalidArgument);
}

TEST_F(ServerTest, TracePartOfAStrangerClosesTheConnection) {
  Start();
  control::ToMaster part;
  part.mutable_trace_part()->set_number(1);
  std::string out;
  AppendFrame(part, out);
  Write(out);
  EXPECT_FALSE(Receive());
}

TEST_F(ServerTest, JournalThatIsDeletedUnderItIsInTheStatusUntilItIsBack) {
  std::string directory = testing::TempDir() + "server_XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/master.db";
  auto journal = Journal::Open(path);
  ASSERT_TRUE(journal.ok()) << journal.status().text();
  Start(std::chrono::seconds(30), 3000, std::move(journal).value());
  const auto says = [&](const std::string& what) {
    return RunUntil([&] { return AskStatus()->status().json().find(what) != std::string::npos; });
  };
  EXPECT_TRUE(says("\"journal\":\"ok\""));
  std::filesystem::rename(path, path + ".away");
  EXPECT_TRUE(says("was deleted"));
  std::filesystem::rename(path + ".away", path);
  EXPECT_TRUE(says("\"journal\":\"ok\""));
  std::filesystem::remove_all(directory);
}

TEST_F(ServerTest, PlanOfNoGroupIsATypedErrorAndTheConnectionStays) {
  Start();
  std::string out;
  control::ToMaster message;
  message.mutable_plan()->set_group("nobody");
  message.mutable_plan()->set_bytes(1);
  AppendFrame(message, out);
  for (int i = 0; i < 2; ++i) {
    Write(out);
    const auto reply = Receive();
    ASSERT_TRUE(reply && reply->has_plan());
    EXPECT_EQ(static_cast<Code>(reply->plan().code()), Code::kInvalidArgument);
    EXPECT_NE(reply->plan().text().find("no group"), std::string::npos) << reply->plan().text();
    EXPECT_EQ(reply->plan().json(), "");
  }
}

TEST_F(ServerTest, EvictionFromAnotherHostIsRefused) {
  Start();
  control::ToMaster message;
  message.mutable_evict()->set_group("nobody");
  message.mutable_evict()->set_peer("p");
  std::string out;
  AppendFrame(message, out);
  for (const bool within_host : {true, false}) {
    net::MemoryPair pair({.peer = {.source = "192.0.2.1", .within_host = within_host}});
    server_->Take(std::move(pair.b));
    const auto reply = net::AskOver(*pair.a, out, io_);
    ASSERT_TRUE(reply && reply->has_order());
    EXPECT_EQ(static_cast<Code>(reply->order().code()), Code::kInvalidArgument);
    const char* const why = within_host ? "no group nobody" : "the master's own host only";
    EXPECT_NE(reply->order().text().find(why), std::string::npos) << reply->order().text();
  }
}

TEST_F(ServerTest, OtherVersionIsRefusedByNameAndClosed) {
  Start();
  std::string out;
  AppendFrame(HelloMessage(99), out);
  Write(out);
  const auto reply = Receive();
  ASSERT_TRUE(reply && reply->has_refusal());
  EXPECT_EQ(static_cast<Code>(reply->refusal().code()), Code::kVersionMismatch);
  EXPECT_FALSE(Receive());
}

TEST_F(ServerTest, Version1IsRefusedInItsOwnWords) {
  Start();
  std::string out, answer;
  AppendVersion1Frame(HelloMessage(1), out);
  Write(out);
  bool ended = false;
  asio::async_read(client_, asio::dynamic_buffer(answer), [&](std::error_code, std::size_t) { ended = true; });
  EXPECT_TRUE(RunUntil([&] { return ended; }));
  control::FromMaster reply;
  ASSERT_GT(answer.size(), 4U);
  ASSERT_TRUE(reply.ParseFromString(answer.substr(4)));
  EXPECT_EQ(static_cast<Code>(reply.refusal().code()), Code::kVersionMismatch);
}

TEST_F(ServerTest, OversizedLengthClosesTheConnectionBeforeAnythingIsAllocated) {
  Start();
  Write(std::string("\xff\xff\xff\x7f", 4));
  EXPECT_FALSE(Receive());
  EXPECT_EQ(server_->connections(), 0u);
}

TEST_F(ServerTest, GarbageClosesTheConnection) {
  Start();
  Write("GET / HTTP/1.1");
  EXPECT_FALSE(Receive());
}

TEST_F(ServerTest, SilentConnectionIsClosedAfterItsTime) {
  Start(std::chrono::milliseconds(20));
  EXPECT_FALSE(Receive());
  EXPECT_EQ(server_->connections(), 0u);
}

// A stopped process, or a disk that takes its time: the daemons' silence is the server's own.
TEST_F(ServerTest, DaemonIsNotSilentWhileTheServerDoesNotRun) {
  constexpr std::uint32_t kDetectMs = 400;
  Start(std::chrono::seconds(30), kDetectMs);
  std::string out;
  AppendFrame(HelloMessage(kProtocolVersionMax), out);
  Write(out);
  ASSERT_TRUE(Receive()->has_hello_reply());
  std::this_thread::sleep_for(std::chrono::milliseconds(2 * kDetectMs));  // what is tested, not a wait
  for (int i = 0; i < 100; ++i) io_.poll();
  EXPECT_EQ(server_->connections(), 1u);
  EXPECT_TRUE(RunUntil([&] { return server_->connections() == 0; })) << "now it is";
}

TEST_F(ServerTest, FrameCutIntoBytesIsReadWhole) {
  Start();
  std::string out;
  AppendFrame(HelloMessage(kProtocolVersionMax), out);
  for (const char byte : out) {
    Write(std::string(1, byte));
    io_.poll();
  }
  const auto reply = Receive();
  ASSERT_TRUE(reply && reply->has_hello_reply());
}

TEST_F(ServerTest, StatusClientThatStaysWithoutAskingIsClosed) {
  Start(std::chrono::milliseconds(20));
  const auto reply = AskStatus();
  ASSERT_TRUE(reply && reply->has_status());
  EXPECT_FALSE(Receive());
  EXPECT_EQ(server_->connections(), 0u);
}

TEST_F(ServerTest, DaemonIsNotClosedByTheTimeForItsHello) {
  Start(std::chrono::milliseconds(20));
  std::string out;
  AppendFrame(HelloMessage(kProtocolVersionMax), out);
  Write(out);
  ASSERT_TRUE(Receive()->has_hello_reply());
  asio::steady_timer later(io_, std::chrono::milliseconds(60));  // three times the limit
  bool passed = false;
  later.async_wait([&](std::error_code) { passed = true; });
  ASSERT_TRUE(RunUntil([&] { return passed; }));
  EXPECT_EQ(server_->connections(), 1u);
}

TEST_F(ServerTest, RefusedClientThatNeverReadsIsClosedAfterItsTime) {
  Start(std::chrono::milliseconds(20));
  std::string out;
  control::ToMaster join;
  join.mutable_join()->set_group("g");
  AppendFrame(join, out);
  Write(out);
  EXPECT_TRUE(RunUntil([&] { return server_->coordinator().ignored_messages() == 1; }));
  EXPECT_TRUE(RunUntil([&] { return server_->connections() == 0; }));
}

TEST_F(ServerTest, VanishedDaemonIsShownAsDisconnected) {
  Start();
  std::string out;
  AppendFrame(HelloMessage(kProtocolVersionMax), out);
  Write(out);
  ASSERT_TRUE(Receive()->has_hello_reply());
  client_.close();
  ASSERT_TRUE(RunUntil([&] { return server_->connections() == 0; }));
  EXPECT_FALSE(server_->coordinator().daemons().begin()->second.connection);
}

TEST_F(ServerTest, BusyAddressIsAnError) {
  Start();
  const auto busy = net::ResolveBlocking({.host = "127.0.0.1", .port = address_.port()}, true);
  EXPECT_EQ(net::ListenTcp(busy.value()).status().code(), Code::kIo);
}

}  // namespace
}  // namespace ringway
