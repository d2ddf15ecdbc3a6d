#include "daemon/transfer/message_queue.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/daemon/transfer/pair.h"

namespace ringway::transfer {
namespace {

std::vector<PeerId> PeersWithWork(const MessageQueue& queue) {
  std::vector<PeerId> peers;
  queue.ForEachPeerWithWork([&](PeerId peer) { peers.push_back(peer); });
  return peers;
}

TEST(MessageQueue, AMessageIsSentAsLongAsItIsThere) {
  Pair pair;
  MessageQueue queue;
  StreamName last;
  EXPECT_FALSE(queue.Next(Pair::kTo, kPayloadBytesMax, last));
  queue.Add(pair.sender);
  EXPECT_EQ(PeersWithWork(queue), std::vector<PeerId>{Pair::kTo});
  EXPECT_FALSE(queue.Next(Pair::kFrom, kPayloadBytesMax, last));
  EXPECT_FALSE(queue.Next(Pair::kTo, 1, last)) << "it does not fit";
  const auto popped = queue.Next(Pair::kTo, kPayloadBytesMax, last);
  ASSERT_TRUE(popped);
  EXPECT_EQ(popped->attempt, &pair.sender);
  EXPECT_EQ(last, pair.sender.name.stream);
  EXPECT_TRUE(PeersWithWork(queue).empty()) << "all of it is sent";
  pair.sender.executor().Requeue(popped->ready);
  queue.Remove(pair.sender.name.message());
  EXPECT_FALSE(queue.Next(Pair::kTo, kPayloadBytesMax, last));
}

TEST(MessageQueue, StreamsTakeTurnsAndOneStreamGoesInOrder) {
  Pair pair;
  Attempt second;
  pair.Begin(second, 2, true);
  Attempt other;
  pair.Begin(other, 1, true);
  other.name.stream.tag = 1;
  MessageQueue queue;
  for (Attempt* attempt : {&second, &pair.sender, &other}) queue.Add(*attempt);
  StreamName last;
  std::vector<Attempt*> order;
  while (const auto popped = queue.Next(Pair::kTo, kPayloadBytesMax, last)) order.push_back(popped->attempt);
  EXPECT_EQ(order, (std::vector<Attempt*>{&pair.sender, &other, &second}));
}

}  // namespace
}  // namespace ringway::transfer
