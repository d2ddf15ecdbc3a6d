#include "daemon/local/trainer_session.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <vector>

#include "tests/daemon/local/session_fixture.h"

namespace ringway::local {
namespace {

class TrainerSessionTest : public SessionFixture {
 protected:
  void SetUp() override { Open(); }
  void Open() { SessionFixture::Open({.region_bytes_max = 4 * kRegionBytes}); }
  bool RunUntil(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      context_.restart();
      context_.run_one_for(std::chrono::milliseconds(10));
    }
    return true;
  }
  static abi::RegisterRegion RegisterPacket(std::uint32_t id, std::uint64_t bytes = kRegionBytes) {
    return local::RegisterPacket(id, bytes);
  }
  void ExpectEnded(Code code, const char* what) {
    abi::Ended ended{};
    // Replies before it are skipped.
    while (::recv(client_.get(), &ended, sizeof ended, MSG_DONTWAIT) > 0 &&
           ended.header.type != abi::PacketType::kEnded) {
    }
    EXPECT_EQ(ended.header.type, abi::PacketType::kEnded) << what;
    EXPECT_EQ(ended.code, code) << what << ": " << ended.text;
    EXPECT_NE(ended.text[0], '\0') << what;
    EXPECT_FALSE(session_->open()) << what;
  }

  struct Lie {
    const char* name;
    Code code;
    bool member;
    std::function<void()> tell;
  };
  // Each in a session of its own.
  void ExpectAllEnd(const std::vector<Lie>& lies) {
    for (const Lie& lie : lies) {
      session_->End(Code::kLeft, "");
      Open();
      port_ = {};
      if (lie.member) BecomeMember();
      lie.tell();
      ExpectEnded(lie.code, lie.name);
      EXPECT_TRUE(port_.submissions.empty()) << lie.name;
      EXPECT_EQ(port_.gone.size(), lie.member ? 1U : 0U) << lie.name;
    }
  }
};

TEST_F(TrainerSessionTest, OperationRunsFromSubmitToDoorbell) {
  BecomeMember();
  Send(SubmitPacket(3));
  ASSERT_EQ(port_.submissions.size(), 1U);
  EXPECT_EQ(port_.submissions[0].token, 3U);
  EXPECT_EQ(port_.submissions[0].buffers->input_ready(), 4096U);
  const std::vector<PeerId> contributors = {PeerId(5), PeerId(9)};
  buffers::Complete completion;
  completion.token = 3;
  completion.contributors = contributors;
  completion.outcome.sequence = 8;
  completion.text = std::string(1000, 'x');
  session_->Complete(completion);
  EXPECT_TRUE(NothingToReceive()) << "reported by the page; the doorbell waits for the batch";
  EXPECT_EQ(page_->slots[3].state.load(), abi::SlotState::kDone);
  EXPECT_EQ(page_->slots[3].outcome.world_size, 2U);
  EXPECT_EQ(page_->slots[3].contributors[1], 9U);
  EXPECT_EQ(page_->slots[3].text[abi::kTextBytes - 1], '\0');
  session_->Flush();
  session_->Flush();
  (void)Receive<abi::Doorbell>(abi::PacketType::kDoorbell);
  EXPECT_TRUE(NothingToReceive()) << "one doorbell a batch";
}

TEST_F(TrainerSessionTest, OpDeadlineIsOfTrainersOperationsAlone) {
  auto join = JoinPacket();
  join.op_deadline_ms = 500;
  BecomeMember(join);
  Send(SubmitPacket(3));
  auto of_state = SubmitPacket(4);
  of_state.spec.channel = abi::kStateChannel;
  Send(of_state);
  ASSERT_EQ(port_.submissions.size(), 2U);
  EXPECT_EQ(port_.submissions[0].time_limit, std::chrono::milliseconds(500));
  EXPECT_EQ(port_.submissions[1].time_limit, Duration::zero());
}

TEST_F(TrainerSessionTest, SlotInUseMayNotBeSubmittedAgainButADoneOneMay) {
  BecomeMember();
  Send(SubmitPacket(3));
  buffers::Complete completion;
  completion.token = 3;
  session_->Complete(completion);
  Send(SubmitPacket(3));
  EXPECT_EQ(port_.submissions.size(), 2U);
  // The page is the client's to scribble on: what counts is the daemon's own book.
  page_->slots[3].state.store(abi::SlotState::kFree);
  Send(SubmitPacket(3));
  EXPECT_EQ(port_.submissions.size(), 2U);
  ExpectEnded(Code::kProtocol, "slot in use");
  EXPECT_EQ(port_.gone, std::vector<bool>{true});
}

TEST_F(TrainerSessionTest, CountsOfAsManyRanksAsThereMayBeAreTaken) {
  BecomeMember();
  struct {
    abi::Submit submit = SubmitPacket(0);
    std::array<abi::RankCounts, abi::kWorldSizeMax> counts;
  } packet;
  packet.counts.fill({1024 / abi::kWorldSizeMax, 0, 0});
  packet.submit.spec.kind = OpKind::kAllGatherV;
  packet.submit.spec.world_size = abi::kWorldSizeMax;
  packet.submit.spec.members = 99;
  packet.submit.input_count = packet.counts[0].count;
  Send(packet);
  EXPECT_EQ(port_.submissions.size(), 1U);
}

TEST_F(TrainerSessionTest, UnsupportedCombinationCompletesItsSlotOnly) {
  BecomeMember();
  auto submit = SubmitPacket(0);
  submit.spec.dtype = DType::kI32;
  submit.spec.op = ReduceOp::kAvg;
  Send(submit);
  EXPECT_TRUE(port_.submissions.empty());
  EXPECT_EQ(page_->slots[0].state.load(), abi::SlotState::kDone);
  EXPECT_EQ(page_->slots[0].outcome.code, Code::kNotSupported);
  (void)Receive<abi::Doorbell>(abi::PacketType::kDoorbell);
}

TEST_F(TrainerSessionTest, RefusalOfThePeerCompletesTheSlot) {
  BecomeMember();
  port_.submit_status = Status(Code::kShuttingDown, "stopping");
  Send(SubmitPacket(0));
  EXPECT_EQ(page_->slots[0].outcome.code, Code::kShuttingDown);
}

TEST_F(TrainerSessionTest, StagedBytesAreClampedAndOnlyGrow) {
  BecomeMember();
  auto submit = SubmitPacket(0);
  submit.staged = 1;
  page_->slots[0].staged_bytes.store(100);
  Send(submit);
  ASSERT_EQ(port_.submissions.size(), 1U);
  EXPECT_EQ(port_.submissions[0].buffers->input_ready(), 100U);
  auto progress = MakePacket<abi::Progress>(abi::PacketType::kProgress);
  for (const std::uint64_t staged : {std::uint64_t{200}, std::uint64_t{50}, ~std::uint64_t{0}}) {
    page_->slots[0].staged_bytes.store(staged);
    Send(progress);
  }
  EXPECT_EQ(port_.staged, (std::vector<std::uint64_t>{200, 4096}));
}

TEST_F(TrainerSessionTest, TrainerThatDiesWhileStagingIsReportedAsSuch) {
  BecomeMember();
  auto submit = SubmitPacket(0);
  submit.staged = 1;
  Send(submit);
  client_.Reset();
  ASSERT_TRUE(RunUntil([&] { return !port_.gone.empty(); }));
  EXPECT_FALSE(port_.gone[0]);
}

TEST_F(TrainerSessionTest, TrainerThatDiesAfterStagingLeavesItsOperationWhole) {
  BecomeMember();
  auto submit = SubmitPacket(0);
  submit.staged = 1;
  Send(submit);
  page_->slots[0].staged_bytes.store(4096);  // no Progress packet was sent any more
  client_.Reset();
  ASSERT_TRUE(RunUntil([&] { return !port_.gone.empty(); }));
  EXPECT_TRUE(port_.gone[0]);
  // Its operation still completes into the page, which lives as long as the session object.
  buffers::Complete completion;
  completion.token = 0;
  session_->Complete(completion);
  session_->Flush();
  EXPECT_EQ(page_->slots[0].state.load(), abi::SlotState::kDone);
}

TEST_F(TrainerSessionTest, LeaveIsAnsweredWhenThePeerHasLeft) {
  BecomeMember();
  Send(MakePacket<abi::Leave>(abi::PacketType::kLeave));
  EXPECT_EQ(port_.leaves, 1);
  EXPECT_TRUE(NothingToReceive());
  session_->End(Code::kLeft, "left");
  (void)Receive<abi::LeaveReply>(abi::PacketType::kLeaveReply);
  EXPECT_EQ(host_.over, 1);
}

TEST_F(TrainerSessionTest, EvictionIsReportedWithItsText) {
  BecomeMember();
  session_->End(Code::kEvicted, "the others went on");
  EXPECT_STREQ(Receive<abi::Ended>(abi::PacketType::kEnded).text, "the others went on");
}

TEST_F(TrainerSessionTest, RefusedJoinMayBeRepeated) {
  Greet();
  Send(JoinPacket());
  session_->JoinProgress(Code::kOk, "1 of 2 peers are here");
  session_->JoinRefused(Status(Code::kMasterUnreachable, "down"));
  EXPECT_STREQ(Receive<abi::JoinProgress>(abi::PacketType::kJoinProgress).text, "1 of 2 peers are here");
  EXPECT_EQ(Receive<abi::JoinReply>(abi::PacketType::kJoinReply).code, Code::kMasterUnreachable);
  Send(JoinPacket());
  EXPECT_EQ(host_.joins.size(), 2U);
}

TEST_F(TrainerSessionTest, NewcomerGetsTheMembersWhoseStateItMayTakeAndSaysWhenItHasIt) {
  Greet();
  auto join = JoinPacket();
  join.takes_state = 1;
  Send(join);
  EXPECT_TRUE(session_->takes_state());
  session_->Attach(&port_);
  session_->HoldForState(PeerId(9), std::vector<PeerId>(2 * abi::kWorldSizeMax, PeerId(3)));
  const auto held = Receive<abi::StateHeld>(abi::PacketType::kStateHeld);
  EXPECT_EQ(held.peer_id, 9U);
  EXPECT_EQ(held.member_count, abi::kWorldSizeMax);
  EXPECT_EQ(held.members[abi::kWorldSizeMax - 1], 3U);
  EXPECT_TRUE(port_.states_taken.empty());
  auto taken = MakePacket<abi::StateTaken>(abi::PacketType::kStateTaken);
  taken.peer_id = held.peer_id;
  Send(taken);
  EXPECT_EQ(port_.states_taken, std::vector{PeerId(9)});
  session_->Joined({.peer = PeerId(9), .epoch = Epoch(1), .rank = 0, .world_size = 1});
  (void)Receive<abi::JoinReply>(abi::PacketType::kJoinReply);
  session_->HoldForState(PeerId(9), {PeerId(3)});
  EXPECT_TRUE(NothingToReceive()) << "it is a member";
}

TEST_F(TrainerSessionTest, MemberFindsNewcomersInItsPageInEntriesThatAreFree) {
  BecomeMember();
  for (std::uint64_t i = 0; i < abi::kNewcomersMax; ++i) session_->NameNewcomer(PeerId(100 + i), true);
  EXPECT_EQ(page_->newcomers.count.load(), abi::kNewcomersMax);
  session_->NameNewcomer(PeerId(101), false);
  EXPECT_EQ(page_->newcomers.peers[1].load(), 0U);
  session_->NameNewcomer(PeerId(200), true);
  EXPECT_EQ(page_->newcomers.count.load(), abi::kNewcomersMax + 1);
  EXPECT_EQ(page_->newcomers.peers[0].load(), 100U) << "it asks still";
  EXPECT_EQ(page_->newcomers.peers[1].load(), 200U);
}

TEST_F(TrainerSessionTest, JoinWithBadValuesIsRefusedButTheSessionStays) {
  Greet();
  for (const auto& change : std::vector<std::function<void(abi::Join&)>>{
           [](auto& j) { SetText(j.group, ""); }, [](auto& j) { SetText(j.group, "caf\xc3\xa9"); },
           [](auto& j) { j.wait_world = 0; }, [](auto& j) { j.min_world = 65; },
           [](auto& j) { j.fail_on_peer_loss = 2; }, [](auto& j) { j.takes_state = 2; }}) {
    auto join = JoinPacket();
    change(join);
    Send(join);
    EXPECT_EQ(Receive<abi::JoinReply>(abi::PacketType::kJoinReply).code, Code::kInvalidArgument);
  }
  EXPECT_TRUE(host_.joins.empty());
}

TEST_F(TrainerSessionTest, OtherVersionIsReportedAndEnded) {
  auto hello = HelloPacket();
  hello.version_min = hello.version_max = abi::kVersion + 1;
  Send(hello);
  EXPECT_EQ(Receive<abi::HelloReply>(abi::PacketType::kHelloReply).code, Code::kVersionMismatch);
  ExpectEnded(Code::kVersionMismatch, "version");
}

TEST_F(TrainerSessionTest, StatusClientGetsLongTextsInParts) {
  host_.status = std::string(300'000, 'j');
  Send(HelloPacket());
  (void)Receive<abi::HelloReply>(abi::PacketType::kHelloReply);
  Send(MakePacket<abi::Status>(abi::PacketType::kStatus));
  std::string text;
  std::vector<char> buffer(abi::kPacketBytesMax);
  std::uint64_t remaining = 1;
  ASSERT_TRUE(RunUntil([&] {
    const ssize_t got = ::recv(client_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) {
      abi::StatusReply reply{};
      std::memcpy(&reply, buffer.data(), sizeof reply);
      remaining = reply.remaining_bytes;
      text.append(buffer.data() + sizeof reply, static_cast<std::size_t>(got) - sizeof reply);
    }
    return remaining == 0;
  }));
  EXPECT_EQ(text, host_.status);
}

TEST_F(TrainerSessionTest, StatusClientGetsTheTraceOfAGroup) {
  Send(HelloPacket());
  (void)Receive<abi::HelloReply>(abi::PacketType::kHelloReply);
  auto trace = MakePacket<abi::Trace>(abi::PacketType::kTrace);
  SetText(trace.group, "job");
  trace.last = 3;
  Send(trace);
  std::vector<char> buffer(abi::kPacketBytesMax);
  ssize_t got = 0;
  ASSERT_TRUE(RunUntil([&] { return (got = ::recv(client_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT)) > 0; }));
  const auto begin = static_cast<std::ptrdiff_t>(sizeof(abi::StatusReply));
  EXPECT_EQ(std::string(buffer.begin() + begin, buffer.begin() + got), "job 3");
  std::memset(trace.group, 'x', sizeof trace.group);
  Send(trace);
  ExpectEnded(Code::kProtocol, "not NUL-terminated");
}

TEST_F(TrainerSessionTest, TraceOfNoGroupIsRefused) {
  Send(HelloPacket());
  (void)Receive<abi::HelloReply>(abi::PacketType::kHelloReply);
  Send(MakePacket<abi::Trace>(abi::PacketType::kTrace));
  ExpectEnded(Code::kInvalidArgument, "names no group");
}

TEST_F(TrainerSessionTest, ForkedChildThatKeepsTheSocketDoesNotHideTheDeath) {
  session_->End(Code::kLeft, "");
  // SO_PEERCRED names the maker of a socketpair: let a child make it.
  int fds[2];
  int pass[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pass), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    int made[2];
    char byte = 0;
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, made) != 0) ::_exit(1);
    alignas(cmsghdr) char ancillary[CMSG_SPACE(2 * sizeof(int))] = {};
    iovec part{.iov_base = &byte, .iov_len = 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = ancillary;
    message.msg_controllen = sizeof ancillary;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(2 * sizeof(int));
    std::memcpy(CMSG_DATA(header), made, sizeof made);
    (void)::sendmsg(pass[1], &message, 0);
    (void)::recv(pass[1], &byte, 1, 0);  // lives until it gets a byte
    ::_exit(0);
  }
  char byte = 0;
  alignas(cmsghdr) char ancillary[CMSG_SPACE(2 * sizeof(int))] = {};
  iovec part{.iov_base = &byte, .iov_len = 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary;
  message.msg_controllen = sizeof ancillary;
  ASSERT_EQ(::recvmsg(pass[0], &message, 0), 1);
  std::memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fds);
  session_ = std::make_shared<TrainerSession>(context_, &host_, SessionLimits{.region_bytes_max = kRegionBytes});
  ASSERT_TRUE(session_->Start(net::UniqueFd(fds[0])).ok());
  client_.Reset(fds[1]);  // this process plays the forked worker that keeps the socket
  Settle();
  EXPECT_TRUE(session_->open());
  EXPECT_EQ(::send(pass[0], &byte, 1, 0), 1);
  EXPECT_TRUE(RunUntil([&] { return !session_->open(); }));
  ::waitpid(child, nullptr, 0);
  ::close(pass[0]);
  ::close(pass[1]);
}

TEST_F(TrainerSessionTest, LieInAGreetingEndsTheSession) {
  ExpectAllEnd({
      {"no hello first", Code::kProtocol, false, [&] { Send(JoinPacket()); }},
      {"short packet", Code::kProtocol, false, [&] { SendBytes(BytesOf('a')); }},
      {"no magic", Code::kProtocol, false, [&] { Send(abi::Hello{}); }},
      {"cut hello", Code::kProtocol, false,
       [&] {
         const auto hello = HelloPacket();
         SendBytes(BytesOf(hello).first(sizeof hello - 1));
       }},
      {"packet longer than any", Code::kProtocol, false, [&] { SendBytes(std::vector<std::byte>(5000)); }},
      {"page without seals", Code::kProtocol, false,
       [&] { Send(HelloPacket(), {MakeMemfd(sizeof(abi::SessionPage), 0).get()}); }},
      {"page too short", Code::kProtocol, false, [&] { Send(HelloPacket(), {MakeMemfd(4096).get()}); }},
      {"two descriptors", Code::kProtocol, false,
       [&] {
         Send(HelloPacket(), {client_.get(), client_.get()});
       }},
  });
}

TEST_F(TrainerSessionTest, PacketOutOfPlaceEndsTheSession) {
  ExpectAllEnd({
      {"descriptor where none belongs", Code::kProtocol, true, [&] { Send(SubmitPacket(0), {client_.get()}); }},
      {"unknown type", Code::kProtocol, true, [&] { Send(MakePacket<abi::Leave>(static_cast<abi::PacketType>(99))); }},
      {"second hello", Code::kProtocol, true, [&] { Send(HelloPacket()); }},
      {"second join", Code::kProtocol, true, [&] { Send(JoinPacket()); }},
      {"leave with more in it", Code::kProtocol, true,
       [&] {
         Send(std::array{MakePacket<abi::Leave>(abi::PacketType::kLeave), abi::Leave{}});
       }},
      {"state where none is taken", Code::kProtocol, true,
       [&] { Send(MakePacket<abi::StateTaken>(abi::PacketType::kStateTaken)); }},
      {"question of a trainer", Code::kProtocol, true,
       [&] { Send(MakePacket<abi::Status>(abi::PacketType::kStatus)); }},
      {"trace for a trainer", Code::kProtocol, true, [&] { Send(MakePacket<abi::Trace>(abi::PacketType::kTrace)); }},
  });
}

TEST_F(TrainerSessionTest, LieAboutARegionEndsTheSession) {
  ExpectAllEnd({
      {"region id out of range", Code::kProtocol, true,
       [&] { Send(RegisterPacket(abi::kRegionCountMax), {MakeMemfd(kRegionBytes).get()}); }},
      {"region id in use", Code::kProtocol, true, [&] { Send(RegisterPacket(0), {MakeMemfd(kRegionBytes).get()}); }},
      {"region without descriptor", Code::kProtocol, true, [&] { Send(RegisterPacket(7)); }},
      {"region without seals", Code::kProtocol, true,
       [&] { Send(RegisterPacket(7), {MakeMemfd(kRegionBytes, 0).get()}); }},
      {"region of another size", Code::kProtocol, true,
       [&] { Send(RegisterPacket(7, kRegionBytes + 1), {MakeMemfd(kRegionBytes).get()}); }},
      {"region is a socket", Code::kProtocol, true, [&] { Send(RegisterPacket(7), {client_.get()}); }},
      {"unregister of nothing", Code::kProtocol, true,
       [&] {
         auto packet = MakePacket<abi::UnregisterRegion>(abi::PacketType::kUnregisterRegion);
         packet.region_id = 9;
         Send(packet);
       }},
  });
}

TEST_F(TrainerSessionTest, NoDescriptorLeftIsNotTheTrainersFault) {
  ExpectAllEnd({{"region", Code::kResourceExhausted, true, [&] {
                   const net::UniqueFd region = MakeMemfd(kRegionBytes);
                   rlimit before{};
                   ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
                   const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
                   ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
                   Send(RegisterPacket(7), {region.get()});
                   ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
                 }}});
}

TEST_F(TrainerSessionTest, LieAboutAnOperationEndsTheSession) {
  const auto submit = [this](const std::function<void(abi::Submit&)>& change) {
    return [this, change] {
      auto packet = SubmitPacket(0);
      change(packet);
      Send(packet);
    };
  };
  ExpectAllEnd({
      {"slot", Code::kProtocol, true, submit([](auto& s) { s.slot = abi::kSlotCount; })},
      {"dtype", Code::kProtocol, true, submit([](auto& s) { s.spec.dtype = static_cast<DType>(99); })},
      {"region", Code::kProtocol, true, submit([](auto& s) { s.input_region = 5; })},
      {"offset overflow", Code::kProtocol, true, submit([](auto& s) { s.input_offset_bytes = ~std::uint64_t{3}; })},
      {"count overflow", Code::kProtocol, true,
       submit([](auto& s) { s.spec.count = s.result_count = ~std::uint64_t{0}; })},
      {"progress of a slot out of range", Code::kProtocol, true,
       [&] {
         auto packet = MakePacket<abi::Progress>(abi::PacketType::kProgress);
         packet.slot = 4096;
         Send(packet);
       }},
      {"cancel of a slot out of range", Code::kProtocol, true,
       [&] {
         auto packet = MakePacket<abi::Cancel>(abi::PacketType::kCancel);
         packet.slot = ~0U;
         Send(packet);
       }},
  });
}

}  // namespace
}  // namespace ringway::local
