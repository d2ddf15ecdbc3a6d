#include "daemon/net/in_process_control.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/proto/stream/net_fixture.h"

namespace ringway::net {
namespace {

class KeepingSink final : public ControlSink {
 public:
  Status OnControlMessage(PeerId from, const control::PeerMessage& message) override {
    froms.push_back(from);
    epochs.push_back(message.abort().epoch());
    if (at_message) at_message();
    return verdict;
  }
  void OnControlClosed(PeerId, const std::string& why) override { closed.push_back(why); }
  std::vector<PeerId> froms;
  std::vector<std::uint64_t> epochs;
  std::vector<std::string> closed;
  std::function<void()> at_message;
  Status verdict;
};

class InProcessControlTest : public NetTest {
 protected:
  void SetUp() override {
    InProcessControl::Join(here_, there_);
    here_->Start(&sink_here_);
    there_->Start(&sink_there_);
  }
  void TearDown() override {
    here_->Close();
    there_->Close();
    Settle();
  }
  static control::PeerMessage AbortOf(std::uint64_t epoch) {
    control::PeerMessage message;
    message.mutable_abort()->set_epoch(epoch);
    return message;
  }
  KeepingSink sink_here_;
  KeepingSink sink_there_;
  std::shared_ptr<InProcessControl> here_ = std::make_shared<InProcessControl>(context_, PeerId(2));
  std::shared_ptr<InProcessControl> there_ = std::make_shared<InProcessControl>(context_, PeerId(1));
};

TEST_F(InProcessControlTest, MessagesArriveInOrderOnceFlushed) {
  here_->Send(AbortOf(1));
  here_->Send(AbortOf(2));
  Settle();
  EXPECT_TRUE(sink_there_.epochs.empty());
  here_->Flush();
  EXPECT_TRUE(sink_there_.epochs.empty()) << "delivered from within Flush";
  here_->Send(AbortOf(3));
  here_->Flush();
  Settle();
  EXPECT_EQ(sink_there_.epochs, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(sink_there_.froms.front(), PeerId(1));
}

TEST_F(InProcessControlTest, AnswersFromWithinACallArrive) {
  sink_there_.at_message = [this] {
    there_->Send(AbortOf(9));
    there_->Flush();
  };
  here_->Send(AbortOf(1));
  here_->Flush();
  Settle();
  EXPECT_EQ(sink_here_.epochs, std::vector<std::uint64_t>{9});
}

TEST_F(InProcessControlTest, WhatWasFlushedBeforeTheEndArrives) {
  here_->Send(AbortOf(1));
  here_->Flush();
  here_->Close();
  Settle();
  EXPECT_EQ(sink_there_.epochs, std::vector<std::uint64_t>{1});
  EXPECT_EQ(sink_there_.closed.size(), 1U);
  EXPECT_TRUE(sink_here_.closed.empty());
}

TEST_F(InProcessControlTest, MessageThatItsSinkRefusesClosesBothEnds) {
  sink_there_.verdict = Status(Code::kProtocol, "refused by the test");
  here_->Send(AbortOf(1));
  here_->Send(AbortOf(2));
  here_->Flush();
  Settle();
  EXPECT_EQ(sink_there_.epochs, std::vector<std::uint64_t>{1});
  EXPECT_EQ(sink_there_.closed, std::vector<std::string>{"refused by the test"});
  EXPECT_EQ(sink_here_.closed.size(), 1U);
}

TEST_F(InProcessControlTest, EndThatTakesNothingIsClosedAtTheBound) {
  control::PeerMessage large;
  large.mutable_point_to_point()->set_text(std::string(1 << 20, 'x'));
  const std::size_t most = ControlLink::kQueueBytesMax / large.ByteSizeLong();
  for (std::size_t i = 0; i <= most; ++i) {
    here_->Send(large);
    here_->Flush();
  }
  Settle();
  EXPECT_EQ(sink_here_.closed.size(), 1U);
  EXPECT_EQ(sink_there_.closed.size(), 1U);
}

}  // namespace
}  // namespace ringway::net
