// One runtime on a real event loop, with a real session and no network.
#include "daemon/runtime/peer_runtime.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/local/trainer_session.h"
#include "proto/lane_roles.h"
#include "tests/daemon/local/client_packets.h"
#include "tests/daemon/local/memfd.h"
#include "tests/proto/stream/memory_stream.h"

namespace ringway::daemon {
namespace {

class Host final : public RuntimeSink, public local::SessionSink {
 public:
  void SendToMaster(control::ToMaster) override {}
  void Dial(net::DialRequest, std::uint64_t) override {}
  void Log(const agreement::Note&, PeerId, const std::string&) override {}
  void OnPeerEnded(PeerId) override {}
  flow::HostFlow& flow() override { return flow_; }
  void Keep(net::KeptConnection) override {}
  std::shared_ptr<void> CountRetiring() override { return nullptr; }
  Status MayJoin(const local::TrainerSession&, const std::optional<std::string>&) override { return Status::Ok(); }
  void OnJoin(const std::shared_ptr<local::TrainerSession>&, const local::JoinOrder&) override {}
  void OnSessionOver(const std::shared_ptr<local::TrainerSession>&) override {}
  std::string StatusJson() override { return "{}"; }
  std::string FlightImage(const std::string&, std::uint32_t) override { return ""; }
  std::uint64_t Instance() const override { return 1; }

 private:
  flow::HostFlow flow_;
};

// A member of a group of one.
class PeerRuntimeTest : public testing::Test {
 protected:
  void SetUp() override {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    auto memory = FlightMemory::Open("");
    ASSERT_TRUE(memory.ok()) << memory.status().text();
    flight_ = std::make_shared<FlightDeck>(std::move(memory).value(), flight::Origin{.daemon = "d"},
                                           [this](FlightDump) { ++dumps_; });
    session_ = std::make_shared<local::TrainerSession>(context_, &host_, local::SessionLimits{});
    ASSERT_TRUE(session_->Start(net::UniqueFd(fds[0])).ok());
    client_.Reset(fds[1]);
    const net::UniqueFd page_fd = local::MakeMemfd(sizeof(abi::SessionPage));
    page_ = static_cast<abi::SessionPage*>(
        ::mmap(nullptr, sizeof(abi::SessionPage), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd.get(), 0));
    Send(local::HelloPacket(), {page_fd.get()});
    Send(local::JoinPacket("g"));
    context_.poll();
    RuntimeOptions options{.self = PeerId(1), .join = {}, .flight = flight_};
    options.join.set_group("g");
    runtime_ = std::make_unique<PeerRuntime>(context_, lane_threads_, &host_, std::move(options), session_);
    control::FromMaster message;
    message.mutable_view()->set_peer(1);
    control::View& view = *message.mutable_view()->mutable_view();
    view.set_epoch(Epoch::Of(1, 1).value);
    view.add_members()->set_peer_id(1);
    view.add_ring(0);
    view.set_min_world(1);
    runtime_->OnMasterMessage(message);
  }
  void TearDown() override {
    runtime_.reset();
    session_->End(Code::kLeft, "");
    context_.poll();
    ::munmap(page_, sizeof(abi::SessionPage));
  }
  template <typename T>
  void Send(const T& packet, const std::vector<int>& fds = {}) {
    ASSERT_GT(local::SendRaw(client_.get(), local::BytesOf(packet), fds), 0);
  }

  asio::io_context context_{1};
  Host host_;
  net::LaneThreads lane_threads_{context_, 0};
  std::shared_ptr<local::TrainerSession> session_;
  int dumps_ = 0;
  std::shared_ptr<FlightDeck> flight_;
  std::unique_ptr<PeerRuntime> runtime_;
  net::UniqueFd client_;
  abi::SessionPage* page_ = nullptr;
};

// The other events stand for heartbeats and lanes of other groups: each comes back as soon as it has had its turn.
TEST_F(PeerRuntimeTest, OtherEventsGetTheirTurnBetweenTheSlicesOfALargeCopy) {
  constexpr std::uint64_t kBytes = 64 << 20;
  constexpr int kSlices = kBytes >> 20;
  const net::UniqueFd input = local::MakeMemfd(kBytes);
  const net::UniqueFd result = local::MakeMemfd(kBytes);
  const char last[] = "the last bytes";
  ASSERT_EQ(::pwrite(input.get(), last, sizeof last, kBytes - sizeof last), static_cast<ssize_t>(sizeof last));
  Send(local::RegisterPacket(0, kBytes), {input.get()});
  Send(local::RegisterPacket(1, kBytes), {result.get()});
  auto submit = local::SubmitPacket(0);
  submit.spec.count = submit.input_count = submit.result_count = kBytes / 4;
  Send(submit);
  int turns = 0;
  bool done = false;
  const std::function<void()> other = [&] {
    done = page_->slots[0].state.load() == abi::SlotState::kDone;
    if (done) return;
    ++turns;
    asio::post(context_, other);
  };
  asio::post(context_, other);
  while (!done && turns < 100'000) context_.run_one();
  EXPECT_TRUE(done);
  EXPECT_EQ(page_->slots[0].outcome.code, Code::kOk) << page_->slots[0].text;
  EXPECT_GE(turns, kSlices - 1);
  char copied[sizeof last] = {};
  EXPECT_EQ(::pread(result.get(), copied, sizeof copied, kBytes - sizeof copied), static_cast<ssize_t>(sizeof copied));
  EXPECT_STREQ(copied, last);
}

TEST_F(PeerRuntimeTest, OnlyAnAbortThatFreezesTheViewDumpsTheFlightRecorder) {
  control::PeerMessage stranger;
  stranger.mutable_abort()->set_epoch(Epoch::Of(1, 1).value);
  (void)runtime_->OnControlMessage(PeerId(9), stranger);
  control::FromMaster old;
  old.mutable_abort()->set_epoch(1);
  runtime_->OnMasterMessage(old);
  EXPECT_EQ(dumps_, 0);
  control::FromMaster abort;
  abort.mutable_abort()->set_epoch(Epoch::Of(1, 1).value);
  runtime_->OnMasterMessage(abort);
  EXPECT_EQ(dumps_, 1);
}

// A connection may have an open window: it is never let loose on a path whose rate is known.
TEST_F(PeerRuntimeTest, ALaneToAKnownHostIsPacedBeforeItsFirstSegment) {
  const flow::PathKey before{.self = PeerId(1), .other = PeerId(9)};
  const flow::PathSample sample{
      // an eighth is lost
      .other = before.other,
      .traffic = {.delivered = 5e6, .resent = 625e3, .queueing = std::chrono::milliseconds(80)},
      .unsent = true,
      .round_trip = std::chrono::milliseconds(100)};
  const TimePoint begin = MonotonicNow();
  host_.flow().OnLinked(before, "@far", sample.round_trip, begin);
  for (int tick = 0; tick < 50; ++tick) {
    host_.flow().Add(before.self, sample);
    host_.flow().Decide(begin + tick * std::chrono::milliseconds(100));
  }
  const double rate = host_.flow().rate(before);
  ASSERT_GT(rate, 0);
  host_.flow().Forget(before.self);
  net::MemoryPair ends({.peer = {.source = "far", .address = "far"}});
  runtime_->AddLink({.id = LaneOf(PeerId(2), LaneId(kLanesRemote - 1)),
                     .terms = {.lanes = kLanesRemote},
                     .stream = std::move(ends.a),
                     .answer = {}});
  EXPECT_GE(ends.a_to_b->pace(), rate);
}

}  // namespace
}  // namespace ringway::daemon
