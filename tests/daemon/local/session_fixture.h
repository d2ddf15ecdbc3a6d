// A session over a socket pair: tests speak for its client, and its host and its peer record what is reported to them.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/local/trainer_session.h"
#include "tests/daemon/local/client_packets.h"
#include "tests/daemon/local/memfd.h"

namespace ringway::local {

class RecordingRequests : public RequestSink {
 public:
  Status Submit(buffers::Submission submission) override {
    submissions.push_back(std::move(submission));
    return submit_status;
  }
  void OnStaged(std::uint64_t, std::uint64_t bytes) override { staged.push_back(bytes); }
  void Cancel(std::uint64_t token) override { cancelled.push_back(token); }
  void SetDeadline(std::uint64_t, Duration) override {}
  void OnStateTaken(PeerId newcomer) override { states_taken.push_back(newcomer); }
  void Leave() override { ++leaves; }
  void OnTrainerGone(bool inputs_whole) override { gone.push_back(inputs_whole); }

  Status submit_status;
  std::vector<buffers::Submission> submissions;
  std::vector<std::uint64_t> staged, cancelled;
  std::vector<bool> gone;
  int leaves = 0;
  std::vector<PeerId> states_taken;
};

class RecordingSessions : public SessionSink {
 public:
  Status MayJoin(const TrainerSession&, const std::optional<std::string>& group) override {
    return group ? may_join_group : may_join_any;
  }
  void OnJoin(const std::shared_ptr<TrainerSession>&, const JoinOrder& order) override { joins.push_back(order); }
  void OnSessionOver(const std::shared_ptr<TrainerSession>&) override { ++over; }
  std::string StatusJson() override { return status; }
  std::string FlightImage(const std::string& group, std::uint32_t last) override {
    return group + " " + std::to_string(last);
  }
  std::uint64_t Instance() const override { return 17; }

  Status may_join_any, may_join_group;
  std::vector<JoinOrder> joins;
  std::string status = "{}";
  int over = 0;
};

constexpr std::uint64_t kRegionBytes = 64 * 1024;

class SessionFixture : public testing::Test {
 protected:
  void TearDown() override {
    if (session_ != nullptr) session_->End(Code::kLeft, "");
    Settle();
    if (page_ != nullptr) ::munmap(page_, sizeof *page_);
  }

  // Begins a session, the only one; null: as its constructor says.
  void Open(const SessionLimits& limits, std::shared_ptr<MemoryBudget> memory = nullptr,
            std::shared_ptr<UserShares> users = nullptr) {
    int fds[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    session_ = std::make_shared<TrainerSession>(context_, &host_, limits, nullptr, std::move(memory), nullptr,
                                                std::move(users));
    ASSERT_TRUE(session_->Start(net::UniqueFd(fds[0])).ok());
    client_.Reset(fds[1]);
  }
  void MakePage() {
    if (page_ != nullptr) ::munmap(page_, sizeof *page_);
    page_fd_ = MakeMemfd(sizeof(abi::SessionPage));
    void* page = ::mmap(nullptr, sizeof(abi::SessionPage), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd_.get(), 0);
    ASSERT_NE(page, MAP_FAILED);
    page_ = static_cast<abi::SessionPage*>(page);
  }
  void Greet() {
    MakePage();
    Send(HelloPacket(), {page_fd_.get()});
    EXPECT_EQ(Receive<abi::HelloReply>(abi::PacketType::kHelloReply).code, Code::kOk);
  }
  // Joins, with regions 0 and 1.
  void BecomeMember(const abi::Join& join = JoinPacket()) {
    Greet();
    Send(join);
    session_->Attach(&port_);
    session_->Joined({.peer = PeerId(5), .epoch = Epoch(1), .rank = 0, .world_size = 1});
    EXPECT_EQ(Receive<abi::JoinReply>(abi::PacketType::kJoinReply).peer_id, 5U);
    for (const std::uint32_t id : {0U, 1U}) Register(id);
  }

  void Settle() {
    for (int i = 0; i < 8; ++i) {
      context_.restart();
      context_.poll();
    }
  }
  void SendBytes(std::span<const std::byte> bytes, const std::vector<int>& fds = {}) {
    EXPECT_EQ(SendRaw(client_.get(), bytes, fds), static_cast<ssize_t>(bytes.size()));
    Settle();
  }
  template <typename T>
  void Send(const T& packet, const std::vector<int>& fds = {}) {
    SendBytes(BytesOf(packet), fds);
  }
  void Register(std::uint32_t id, std::uint64_t bytes = kRegionBytes) {
    Send(RegisterPacket(id, bytes), {MakeMemfd(bytes).get()});
  }
  void Unregister(std::uint32_t id) {
    auto unregister = MakePacket<abi::UnregisterRegion>(abi::PacketType::kUnregisterRegion);
    unregister.region_id = id;
    Send(unregister);
  }
  // The next packet, which must be a T.
  template <typename T>
  T Receive(abi::PacketType type) {
    T packet{};
    EXPECT_EQ(::recv(client_.get(), &packet, sizeof packet, MSG_DONTWAIT), static_cast<ssize_t>(sizeof packet));
    EXPECT_EQ(packet.header.type, type);
    return packet;
  }
  bool NothingToReceive() {
    char byte = 0;
    return ::recv(client_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
  }

  asio::io_context context_;
  RecordingSessions host_;
  RecordingRequests port_;
  std::shared_ptr<TrainerSession> session_;
  net::UniqueFd client_;
  net::UniqueFd page_fd_;
  abi::SessionPage* page_ = nullptr;
};

}  // namespace ringway::local
