// The C API's collectives on real daemons: three ranks, each root in turn.
#include <gtest/gtest.h>
#include <ringway/ringway.h>

#include <cstdint>
#include <future>
#include <vector>

#include "tests/e2e/cluster.h"

namespace ringway::e2e {
namespace {

constexpr int kPeersInC = 3;
constexpr std::size_t kElements = 1000;

using Values = std::vector<std::int32_t>;

// Rank r sends 10 r + t elements to rank t, and its list of parts has 5, 0 and 7.
void CallWithCounts(ringwayComm_t comm, int rank) {
  std::size_t sent[kPeersInC], begins[kPeersInC], received[kPeersInC];
  std::size_t total = 0;
  for (std::size_t other = 0; other < kPeersInC; ++other) {
    sent[other] = 10 * static_cast<std::size_t>(rank) + other;
    received[other] = 10 * other + static_cast<std::size_t>(rank);
    begins[other] = 100 * other;
    total += received[other];
  }
  Values from(300), to(total), expected;
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = 1000 * rank + static_cast<int>(i);
  for (int other = 0; other < kPeersInC; ++other) {
    for (int i = 0; i < 10 * other + rank; ++i) expected.push_back(1000 * other + 100 * rank + i);
  }
  const auto type = ringwayInt32;
  EXPECT_EQ(ringwayAlltoAllV(from.data(), sent, begins, to.data(), received, kPeersInC, type, nullptr, comm, nullptr),
            ringwaySuccess)
      << ringwayGetLastError(comm);
  EXPECT_EQ(to, expected);
  EXPECT_EQ(ringwayAlltoAllV(from.data(), sent, nullptr, to.data(), received, 2, type, nullptr, comm, nullptr),
            ringwayInvalidArgument);
  EXPECT_EQ(ringwayAlltoAllV(from.data(), nullptr, nullptr, to.data(), nullptr, 3, type, nullptr, comm, nullptr),
            ringwayInvalidArgument);
  const std::size_t parts[] = {5, 0, 7};
  Values all(12);
  EXPECT_EQ(ringwayAllGatherV(from.data(), all.data(), parts, kPeersInC, type, nullptr, comm, nullptr), ringwaySuccess);
  EXPECT_EQ(all, (Values{0, 1, 2, 3, 4, 2000, 2001, 2002, 2003, 2004, 2005, 2006}));
  ringwayOpInfo_t info = RINGWAY_OP_INFO_INITIALIZER;
  EXPECT_EQ(
      ringwayReduceScatterV(Values(12, 1).data(), all.data(), parts, kPeersInC, type, ringwaySum, nullptr, comm, &info),
      ringwaySuccess);
  EXPECT_EQ(info.partCount, parts[rank]);
}

void CallAll(ringwayComm_t comm, int rank, int root) {
  const bool is_root = rank == root;
  Values mine(kElements, rank + 1), out(kElements, -1), all(kPeersInC * kElements);
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<std::int32_t>(100 * rank + static_cast<int>(i / kElements));
  const auto type = ringwayInt32;
  EXPECT_EQ(ringwayReduce(mine.data(), is_root ? out.data() : nullptr, kElements, type, ringwaySum, root, nullptr, comm,
                          nullptr),
            ringwaySuccess)
      << ringwayGetLastError(comm);
  EXPECT_EQ(out, Values(kElements, is_root ? 6 : -1));
  EXPECT_EQ(ringwayBroadcast(mine.data(), kElements, type, root, nullptr, comm, nullptr), ringwaySuccess);
  EXPECT_EQ(mine, Values(kElements, root + 1));
  ringwayOpInfo_t info = RINGWAY_OP_INFO_INITIALIZER;
  Values gathered(is_root ? kPeersInC * kElements : 0);
  EXPECT_EQ(ringwayGather(Values(kElements, rank).data(), kElements, gathered.data(), gathered.size(), type, root,
                          nullptr, comm, &info),
            ringwaySuccess);
  EXPECT_EQ(info.partCount, gathered.size());
  for (std::size_t i = 0; i < gathered.size(); ++i) ASSERT_EQ(gathered[i], static_cast<int>(i / kElements));
  EXPECT_EQ(ringwayScatter(all.data(), all.size(), out.data(), kElements, type, root, nullptr, comm, nullptr),
            ringwaySuccess);
  EXPECT_EQ(out, Values(kElements, 100 * root + rank));
  Values turned(all.size());
  EXPECT_EQ(ringwayAlltoAll(all.data(), turned.data(), all.size(), type, nullptr, comm, nullptr), ringwaySuccess);
  for (std::size_t i = 0; i < turned.size(); ++i) ASSERT_EQ(turned[i], 100 * static_cast<int>(i / kElements) + rank);
  EXPECT_EQ(ringwayBarrier(nullptr, comm, nullptr), ringwaySuccess);
  EXPECT_EQ(ringwayBroadcast(mine.data(), kElements, type, -1, nullptr, comm, nullptr), ringwayInvalidArgument);
  EXPECT_EQ(ringwayReduce(mine.data(), out.data(), kElements, type, static_cast<ringwayRedOp_t>(77), root, nullptr,
                          comm, nullptr),
            ringwayNotSupported);
}

// Around: each sends to the next, and receives from the one before.
void CallMessages(ringwayComm_t comm, int rank) {
  const int next = (rank + 1) % kPeersInC, before = (rank + kPeersInC - 1) % kPeersInC;
  const Values mine(kElements, rank);
  Values theirs(kElements);
  ringwayWork_t send = nullptr, receive = nullptr;
  ringwayOpInfo_t info = RINGWAY_OP_INFO_INITIALIZER;
  EXPECT_EQ(ringwaySendAsync(mine.data(), kElements, ringwayInt32, next, 7, nullptr, comm, &send), ringwaySuccess);
  EXPECT_EQ(ringwayRecvAsync(theirs.data(), kElements, ringwayInt32, before, 7, nullptr, comm, &receive),
            ringwaySuccess);
  EXPECT_EQ(ringwayWorkWait(receive, RINGWAY_FOREVER, &info), ringwaySuccess);
  EXPECT_EQ(info.partCount, kElements);
  EXPECT_EQ(theirs, Values(kElements, before));
  EXPECT_EQ(ringwayWorkWait(send, RINGWAY_FOREVER, nullptr), ringwaySuccess);
  ringwayWorkFree(send);
  ringwayWorkFree(receive);
  if (rank == 0) {
    EXPECT_EQ(ringwaySend(mine.data(), 5, ringwayInt32, 1, 0, nullptr, comm, nullptr), ringwaySuccess);
  } else if (rank == 1) {
    EXPECT_EQ(ringwayRecv(theirs.data(), 5, ringwayInt32, 0, 0, nullptr, comm, nullptr), ringwaySuccess);
  }
  EXPECT_EQ(ringwaySend(mine.data(), 5, ringwayInt32, rank, 0, nullptr, comm, nullptr), ringwayInvalidArgument);
}

void RunRank(const std::string& socket) {
  ringwayConfig_t config = RINGWAY_CONFIG_INITIALIZER;
  config.socketPath = socket.c_str();
  config.group = "c";
  config.waitWorld = kPeersInC;
  ringwayComm_t comm = nullptr;
  ASSERT_EQ(ringwayCommInit(&comm, &config), ringwaySuccess);
  int rank = -1;
  EXPECT_EQ(ringwayCommRank(comm, &rank), ringwaySuccess);
  for (int root = 0; root < kPeersInC; ++root) CallAll(comm, rank, root);
  CallWithCounts(comm, rank);
  CallMessages(comm, rank);
  EXPECT_EQ(ringwayCommDestroy(comm), ringwaySuccess);
}

TEST(CCollectives, AreTheSessionsOwn) {
  Cluster cluster({.daemons = kPeersInC});
  std::vector<std::future<void>> ranks;
  for (std::size_t i = 0; i < kPeersInC; ++i) {
    const std::string socket = cluster.socket(i);
    ranks.push_back(std::async(std::launch::async, [socket] { RunRank(socket); }));
  }
  for (auto& rank : ranks) rank.get();
}

}  // namespace
}  // namespace ringway::e2e
