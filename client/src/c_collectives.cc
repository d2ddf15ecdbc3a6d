// The C API's collectives: each submits by the Session's Async call; the blocking ones wait for that.
#include <ringway/ringway.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/src/c_api.h"

using ringway::DType;
using ringway::ReduceOp;
using ringway::Session;
using ringway::c::Convert;
using ringway::c::RunWork;
using ringway::c::StartWork;

namespace {

// Not a rank: the session refuses it.
std::uint32_t RankOf(int root) { return root < 0 ? UINT32_MAX : static_cast<std::uint32_t>(root); }

// A list of NULL fits no world.
std::vector<std::size_t> ListOf(const size_t* counts, int ranks) {
  return counts == nullptr || ranks < 0 ? std::vector<std::size_t>() : std::vector<std::size_t>(counts, counts + ranks);
}

std::vector<ringway::Part> SendsOf(const size_t* counts, const size_t* begins, int ranks) {
  std::vector<ringway::Part> sends = ringway::PartsOf(ListOf(counts, ranks));
  for (std::size_t rank = 0; begins != nullptr && rank < sends.size(); ++rank) sends[rank].begin = begins[rank];
  return sends;
}

}  // namespace

ringwayResult_t ringwayAllReduce(const void* sendbuff, void* recvbuff, size_t count, ringwayDataType_t datatype,
                                 ringwayRedOp_t op, ringwayComm_t comm) {
  return ringwayAllReduceWith(sendbuff, recvbuff, count, datatype, op, nullptr, comm, nullptr);
}

ringwayResult_t ringwayAllReduceWith(const void* sendbuff, void* recvbuff, size_t count, ringwayDataType_t datatype,
                                     ringwayRedOp_t op, const ringwayOpOptions_t* options, ringwayComm_t comm,
                                     ringwayOpInfo_t* info) {
  return RunWork(info, ringwayAllReduceAsyncWith, sendbuff, recvbuff, count, datatype, op, options, comm);
}

ringwayResult_t ringwayAllReduceAsync(const void* sendbuff, void* recvbuff, size_t count, ringwayDataType_t datatype,
                                      ringwayRedOp_t op, ringwayComm_t comm, ringwayWork_t* work) {
  return ringwayAllReduceAsyncWith(sendbuff, recvbuff, count, datatype, op, nullptr, comm, work);
}

ringwayResult_t ringwayAllReduceAsyncWith(const void* sendbuff, void* recvbuff, size_t count,
                                          ringwayDataType_t datatype, ringwayRedOp_t op,
                                          const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayWork_t* work) {
  return StartWork(options, comm, work, &Session::AllReduceAsync, sendbuff, recvbuff, count, Convert<DType>(datatype),
                   Convert<ReduceOp>(op));
}

ringwayResult_t ringwayAllReduceMany(const ringwayTensor_t* tensors, size_t tensorCount, ringwayDataType_t datatype,
                                     ringwayRedOp_t op, const ringwayOpOptions_t* options, ringwayComm_t comm,
                                     ringwayOpInfo_t* info) {
  return RunWork(info, ringwayAllReduceManyAsync, tensors, tensorCount, datatype, op, options, comm);
}

ringwayResult_t ringwayAllReduceManyAsync(const ringwayTensor_t* tensors, size_t tensorCount,
                                          ringwayDataType_t datatype, ringwayRedOp_t op,
                                          const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayWork_t* work) {
  using ringway::Status, ringway::Result, ringway::OpOptions, ringway::Work;
  return StartWork(options, comm, work, [&](Session& session, const OpOptions& converted) -> Result<Work> {
    if (tensors == nullptr && tensorCount > 0) {
      return Status(ringway::Code::kInvalidArgument, "tensors is NULL though tensorCount is not 0");
    }
    std::vector<ringway::Tensor> list;
    for (std::size_t i = 0; i < tensorCount; ++i) {
      list.push_back({tensors[i].sendbuff, tensors[i].recvbuff, tensors[i].count});
    }
    return session.AllReduceManyAsync(list, Convert<DType>(datatype), Convert<ReduceOp>(op), converted);
  });
}

ringwayResult_t ringwayAllGather(const void* sendbuff, size_t sendcount, void* recvbuff, size_t recvcount,
                                 ringwayDataType_t datatype, const ringwayOpOptions_t* options, ringwayComm_t comm,
                                 ringwayOpInfo_t* info) {
  return RunWork(info, ringwayAllGatherAsync, sendbuff, sendcount, recvbuff, recvcount, datatype, options, comm);
}

ringwayResult_t ringwayAllGatherAsync(const void* sendbuff, size_t sendcount, void* recvbuff, size_t recvcount,
                                      ringwayDataType_t datatype, const ringwayOpOptions_t* options, ringwayComm_t comm,
                                      ringwayWork_t* work) {
  return StartWork(options, comm, work, &Session::AllGatherAsync, sendbuff, sendcount, recvbuff, recvcount,
                   Convert<DType>(datatype));
}

ringwayResult_t ringwayReduceScatter(const void* sendbuff, void* recvbuff, size_t count, ringwayDataType_t datatype,
                                     ringwayRedOp_t op, const ringwayOpOptions_t* options, ringwayComm_t comm,
                                     ringwayOpInfo_t* info) {
  return RunWork(info, ringwayReduceScatterAsync, sendbuff, recvbuff, count, datatype, op, options, comm);
}

ringwayResult_t ringwayReduceScatterAsync(const void* sendbuff, void* recvbuff, size_t count,
                                          ringwayDataType_t datatype, ringwayRedOp_t op,
                                          const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayWork_t* work) {
  return StartWork(options, comm, work, &Session::ReduceScatterAsync, sendbuff, recvbuff, count,
                   Convert<DType>(datatype), Convert<ReduceOp>(op));
}

ringwayResult_t ringwayBroadcast(void* buff, size_t count, ringwayDataType_t datatype, int root,
                                 const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayOpInfo_t* info) {
  return RunWork(info, ringwayBroadcastAsync, buff, count, datatype, root, options, comm);
}

ringwayResult_t ringwayBroadcastAsync(void* buff, size_t count, ringwayDataType_t datatype, int root,
                                      const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayWork_t* work) {
  return StartWork(options, comm, work, &Session::BroadcastAsync, buff, count, Convert<DType>(datatype), RankOf(root));
}

ringwayResult_t ringwayReduce(const void* sendbuff, void* recvbuff, size_t count, ringwayDataType_t datatype,
                              ringwayRedOp_t op, int root, const ringwayOpOptions_t* options, ringwayComm_t comm,
                              ringwayOpInfo_t* info) {
  return RunWork(info, ringwayReduceAsync, sendbuff, recvbuff, count, datatype, op, root, options, comm);
}

ringwayResult_t ringwayReduceAsync(const void* sendbuff, void* recvbuff, size_t count, ringwayDataType_t datatype,
                                   ringwayRedOp_t op, int root, const ringwayOpOptions_t* options, ringwayComm_t comm,
                                   ringwayWork_t* work) {
  return StartWork(options, comm, work, &Session::ReduceAsync, sendbuff, recvbuff, count, Convert<DType>(datatype),
                   Convert<ReduceOp>(op), RankOf(root));
}

ringwayResult_t ringwayGather(const void* sendbuff, size_t sendcount, void* recvbuff, size_t recvcount,
                              ringwayDataType_t datatype, int root, const ringwayOpOptions_t* options,
                              ringwayComm_t comm, ringwayOpInfo_t* info) {
  return RunWork(info, ringwayGatherAsync, sendbuff, sendcount, recvbuff, recvcount, datatype, root, options, comm);
}

ringwayResult_t ringwayGatherAsync(const void* sendbuff, size_t sendcount, void* recvbuff, size_t recvcount,
                                   ringwayDataType_t datatype, int root, const ringwayOpOptions_t* options,
                                   ringwayComm_t comm, ringwayWork_t* work) {
  return StartWork(options, comm, work, &Session::GatherAsync, sendbuff, sendcount, recvbuff, recvcount,
                   Convert<DType>(datatype), RankOf(root));
}

ringwayResult_t ringwayScatter(const void* sendbuff, size_t sendcount, void* recvbuff, size_t recvcount,
                               ringwayDataType_t datatype, int root, const ringwayOpOptions_t* options,
                               ringwayComm_t comm, ringwayOpInfo_t* info) {
  return RunWork(info, ringwayScatterAsync, sendbuff, sendcount, recvbuff, recvcount, datatype, root, options, comm);
}

ringwayResult_t ringwayScatterAsync(const void* sendbuff, size_t sendcount, void* recvbuff, size_t recvcount,
                                    ringwayDataType_t datatype, int root, const ringwayOpOptions_t* options,
                                    ringwayComm_t comm, ringwayWork_t* work) {
  return StartWork(options, comm, work, &Session::ScatterAsync, sendbuff, sendcount, recvbuff, recvcount,
                   Convert<DType>(datatype), RankOf(root));
}

ringwayResult_t ringwayAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ringwayDataType_t datatype,
                                const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayOpInfo_t* info) {
  return RunWork(info, ringwayAlltoAllAsync, sendbuff, recvbuff, count, datatype, options, comm);
}

ringwayResult_t ringwayAlltoAllAsync(const void* sendbuff, void* recvbuff, size_t count, ringwayDataType_t datatype,
                                     const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayWork_t* work) {
  return StartWork(options, comm, work, &Session::AllToAllAsync, sendbuff, recvbuff, count, Convert<DType>(datatype));
}

ringwayResult_t ringwayAlltoAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls, void* recvbuff,
                                 const size_t* recvcounts, int ranks, ringwayDataType_t datatype,
                                 const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayOpInfo_t* info) {
  return RunWork(info, ringwayAlltoAllVAsync, sendbuff, sendcounts, sdispls, recvbuff, recvcounts, ranks, datatype,
                 options, comm);
}

ringwayResult_t ringwayAlltoAllVAsync(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls,
                                      void* recvbuff, const size_t* recvcounts, int ranks, ringwayDataType_t datatype,
                                      const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayWork_t* work) {
  return StartWork(options, comm, work, [&](ringway::Session& session, const ringway::OpOptions& converted) {
    return session.AllToAllVAsync(sendbuff, SendsOf(sendcounts, sdispls, ranks), recvbuff, ListOf(recvcounts, ranks),
                                  Convert<ringway::DType>(datatype), converted);
  });
}

ringwayResult_t ringwayAllGatherV(const void* sendbuff, void* recvbuff, const size_t* counts, int ranks,
                                  ringwayDataType_t datatype, const ringwayOpOptions_t* options, ringwayComm_t comm,
                                  ringwayOpInfo_t* info) {
  return RunWork(info, ringwayAllGatherVAsync, sendbuff, recvbuff, counts, ranks, datatype, options, comm);
}

ringwayResult_t ringwayAllGatherVAsync(const void* sendbuff, void* recvbuff, const size_t* counts, int ranks,
                                       ringwayDataType_t datatype, const ringwayOpOptions_t* options,
                                       ringwayComm_t comm, ringwayWork_t* work) {
  return StartWork(options, comm, work, [&](ringway::Session& session, const ringway::OpOptions& converted) {
    return session.AllGatherVAsync(sendbuff, recvbuff, ListOf(counts, ranks), Convert<ringway::DType>(datatype),
                                   converted);
  });
}

ringwayResult_t ringwayReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* counts, int ranks,
                                      ringwayDataType_t datatype, ringwayRedOp_t op, const ringwayOpOptions_t* options,
                                      ringwayComm_t comm, ringwayOpInfo_t* info) {
  return RunWork(info, ringwayReduceScatterVAsync, sendbuff, recvbuff, counts, ranks, datatype, op, options, comm);
}

ringwayResult_t ringwayReduceScatterVAsync(const void* sendbuff, void* recvbuff, const size_t* counts, int ranks,
                                           ringwayDataType_t datatype, ringwayRedOp_t op,
                                           const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayWork_t* work) {
  return StartWork(options, comm, work, [&](ringway::Session& session, const ringway::OpOptions& converted) {
    return session.ReduceScatterVAsync(sendbuff, recvbuff, ListOf(counts, ranks), Convert<ringway::DType>(datatype),
                                       Convert<ringway::ReduceOp>(op), converted);
  });
}

ringwayResult_t ringwaySend(const void* sendbuff, size_t count, ringwayDataType_t datatype, int peer, uint32_t tag,
                            const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayOpInfo_t* info) {
  return RunWork(info, ringwaySendAsync, sendbuff, count, datatype, peer, tag, options, comm);
}

ringwayResult_t ringwaySendAsync(const void* sendbuff, size_t count, ringwayDataType_t datatype, int peer, uint32_t tag,
                                 const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayWork_t* work) {
  return StartWork(options, comm, work, &Session::SendAsync, sendbuff, count, Convert<DType>(datatype), RankOf(peer),
                   tag);
}

ringwayResult_t ringwayRecv(void* recvbuff, size_t count, ringwayDataType_t datatype, int peer, uint32_t tag,
                            const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayOpInfo_t* info) {
  return RunWork(info, ringwayRecvAsync, recvbuff, count, datatype, peer, tag, options, comm);
}

ringwayResult_t ringwayRecvAsync(void* recvbuff, size_t count, ringwayDataType_t datatype, int peer, uint32_t tag,
                                 const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayWork_t* work) {
  return StartWork(options, comm, work, &Session::RecvAsync, recvbuff, count, Convert<DType>(datatype), RankOf(peer),
                   tag);
}

ringwayResult_t ringwayBarrier(const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayOpInfo_t* info) {
  return RunWork(info, ringwayBarrierAsync, options, comm);
}

ringwayResult_t ringwayBarrierAsync(const ringwayOpOptions_t* options, ringwayComm_t comm, ringwayWork_t* work) {
  return StartWork(options, comm, work, &Session::BarrierAsync);
}
