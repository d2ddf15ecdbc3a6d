/* Ringway client library, C API (C11): ringway.hpp for C and for foreign-function interfaces, with NCCL's signatures.
 *
 *   ringwayConfig_t config = RINGWAY_CONFIG_INITIALIZER;
 *   config.group = "job";
 *   config.waitWorld = 4;
 *   ringwayComm_t comm = NULL;
 *   if (ringwayCommInit(&comm, &config) != ringwaySuccess) return fail(ringwayGetLastError(NULL));
 *   ringwayOpInfo_t info = RINGWAY_OP_INFO_INITIALIZER;
 *   if (ringwayAllReduceWith(mine, mean, count, ringwayFloat32, ringwayAvg, NULL, comm, &info) != ringwaySuccess)
 *     return fail(ringwayGetLastError(comm));
 *   if (info.updateWaits) ringwayCommUpdateView(comm, RINGWAY_FOREVER, NULL);  // then share the state with newcomers
 *   ringwayCommDestroy(comm);
 *
 * client/examples/shortest/shortest.c is the shortest complete trainer: without UpdateView no newcomer is admitted.
 *
 * Differences from NCCL: a comm is made by ringwayCommInit from a config (no unique id, no rank: the master assigns
 * them, and they change with the view); buffers are in host or device memory, and calls block (the Async calls return
 * a work, for which a stream may wait: ringwayWorkWaitOnStream); the works of one channel run in the order of their
 * submission; a rank that dies does not end the comm of the others. The world may shrink, so ringwayAllGather takes the
 * capacity of recvbuff, and ringwayReduceScatter takes the count of the whole buffer (not recvcount) and leaves the
 * rank's part at its place in it (not at the beginning); ringwayAllGather is never in place.
 *
 * Errors: every call returns a ringwayResult_t. ringwayGetErrorString names the code; ringwayGetLastError returns a
 * sentence with advice.
 *
 * Threads: a comm may be used from several threads, each submitting on its own channel; a work belongs to one thread at
 * a time. Forks: calls in a child return ringwayForked.
 *
 * Restarts: a comm whose daemon went away, or that the others evicted, rejoins automatically within config.reconnectMs,
 * as a new peer with another id and rank. Calls that submit block meanwhile, then return ringwayRejoined, once to each
 * thread: operations in flight have no result; take the training state from the others, then submit again. Threads that
 * share a channel pass options.asPeer. Memory of ringwayAlloc is kept.
 *
 * Memory: send and receive buffers may be any memory, or equal (in place: copied; not in an all-gather). Two of
 * ringwayAlloc are not. They belong to an operation until its work has been waited for or freed. An unfinished
 * operation whose work is freed goes on with the input as it is then; its memory of ringwayAlloc is refused to later
 * operations: free it and allocate anew (for devices see ringway.hpp). Writing to memory of an operation in flight
 * ends the comm with ringwayBufferModified if it is detected, and the others go on without this peer; if not, the
 * result is made of what was read, the same bytes on all other ranks (see ringway.hpp).
 */
#ifndef RINGWAY_RINGWAY_H_
#define RINGWAY_RINGWAY_H_

/* A C header: NOLINTBEGIN(modernize-*) */
#include <ringway/version.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define RINGWAY_C_API __attribute__((visibility("default")))
#else
#define RINGWAY_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ringway::Code, value by value (ringway/types.h documents each). */
typedef enum {
  ringwaySuccess = 0,
  ringwayInvalidArgument = 1,
  ringwayDaemonUnreachable = 2,
  ringwayVersionMismatch = 3,
  ringwayDaemonLost = 4,
  ringwayTimeout = 5,
  ringwayMismatch = 6,
  ringwayPeerLost = 7,
  ringwayWorldTooSmall = 8,
  ringwayCancelled = 9,
  ringwayEvicted = 10,
  ringwayJoinRefused = 11,
  ringwayPeerUnreachable = 12,
  ringwayResourceExhausted = 13,
  ringwayNotSupported = 14,
  ringwayForked = 15,
  ringwayLeft = 16,
  ringwayShuttingDown = 17,
  ringwayMasterUnreachable = 18,
  ringwayProtocolError = 19,
  ringwayIoError = 20,
  ringwayInternalError = 21,
  ringwayDeadline = 22,
  ringwayRejoined = 23,
  ringwayBufferModified = 24,
  ringwayInterrupted = 25,
  ringwayDeviceFailed = 26
} ringwayResult_t;

typedef enum {
  ringwayUint8 = 0,
  ringwayInt8 = 1,
  ringwayUint16 = 2,
  ringwayInt16 = 3,
  ringwayUint32 = 4,
  ringwayInt32 = 5,
  ringwayUint64 = 6,
  ringwayInt64 = 7,
  ringwayFloat16 = 8,
  ringwayBfloat16 = 9,
  ringwayFloat32 = 10,
  ringwayFloat64 = 11,
  ringwayDataTypeAnyInt = 0x7fffffff /* any int may be passed: a wrong one is an error, not undefined */
} ringwayDataType_t;

typedef enum {
  ringwaySum = 0,
  ringwayAvg = 1,
  ringwayProd = 2,
  ringwayMin = 3,
  ringwayMax = 4,
  ringwayRedOpAnyInt = 0x7fffffff
} ringwayRedOp_t;

/* Encoding of elements on the wire: ringway::kCodecs (ringway/types.h). */
typedef enum {
  ringwayCodecNone = 0,
  ringwayCodecBf16 = 1,
  ringwayCodecInt8 = 2,
  ringwayCodecF16 = 3,
  ringwayCodecInt4 = 4,
  ringwayCodecInt8Zp = 5,
  ringwayCodecInt4Zp = 6,
  ringwayCodecFp8E4m3 = 7,
  ringwayCodecFp8E5m2 = 8,
  ringwayCodecAnyInt = 0x7fffffff
} ringwayCodec_t;

/* How a codec rounds. */
typedef enum { ringwayRoundNearest = 0, ringwayRoundStochastic = 1, ringwayRoundAnyInt = 0x7fffffff } ringwayRounding_t;

/* Schedule of a collective: ringway::Algorithm (ringway/types.h). */
typedef enum {
  ringwayAlgorithmOfPlan = -1, /* the plan's choice for the size */
  ringwayRing = 0,
  ringwayTwoRings = 1,
  ringwayDirect = 2,
  ringwayOneShot = 3,
  ringwayTree = 4,
  ringwayHalvingDoubling = 5,
  ringwayNaive = 6,
  ringwayHierarchical = 7,
  ringwayRings = 8,
  ringwayAlgorithmAnyInt = 0x7fffffff
} ringwayAlgorithm_t;

typedef struct ringwayComm* ringwayComm_t;
typedef struct ringwayWork* ringwayWork_t;

/* Structs carry their size: for fields that the caller's header does not have, the library assumes the initializers'
 * values, and writes nothing beyond the size. Times are milliseconds; a negative timeout (timeoutMs, reconnectMs,
 * submitTimeoutMs and those of calls) waits for ever; opDeadlineMs and evictHungAfterMs cannot be negative. */
#define RINGWAY_FOREVER (-1)
#define RINGWAY_MAX_WORLD_SIZE 64
#define RINGWAY_QUORUM_ALL 0xffffffffu /* of an operation: all ranks' inputs, whatever the group's quorum */

typedef struct {
  size_t size;            /* sizeof(ringwayConfig_t), set by the initializer */
  const char* socketPath; /* NULL: /run/ringway/ringwayd.sock */
  const char* group;      /* required */
  const char* name;       /* unique in the group, for logs; NULL: the daemon chooses */
  uint32_t waitWorld;     /* required: a new group forms with at least this many peers; 1: this one alone */
  uint32_t minWorld;      /* below it operations fail with ringwayWorldTooSmall */
  int32_t failOnPeerLoss; /* nonzero: an operation that loses a peer fails instead of being retried */
  int32_t opDeadlineMs;   /* an operation that takes longer fails on all ranks with ringwayDeadline; 0: none */
  int64_t timeoutMs;      /* limits ringwayCommInit, which then returns the last cause, as ringwayPeerUnreachable */
  int64_t reconnectMs;    /* how long to look for a daemon after losing one; 0: the comm ends with its daemon */
  int32_t endWhenEvicted; /* nonzero: an eviction ends the comm with ringwayEvicted */
  int32_t reserved;
  int64_t evictHungAfterMs; /* a rank that submits nothing for this long (1 s to 24 days) while others wait is
                             * evicted; 0: never */
  /* Called within ringwayCommInit, on its thread, when what it waits for changes. `cause`: ringwaySuccess for other
   * peers, else a problem to fix. NULL: not called. */
  void (*onWaiting)(void* context, ringwayResult_t cause, const char* text);
  void* onWaitingContext;
  /* Polled by each thread that waits in a call, after a signal and every 100 ms: nonzero ends that call with
   * ringwayInterrupted, as a timeout would. It must not block. NULL: not polled. */
  int (*interrupted)(void* context);
  void* interruptedContext;
  /* Of sums and averages that name no quorum (ringwayOpOptions_t; keepLate: with errorFeedback); the same on all peers */
  uint32_t quorum, quorumPercent, graceMs, keepLate;
} ringwayConfig_t;

#define RINGWAY_CONFIG_INITIALIZER                                                                                    \
  {                                                                                                                   \
    sizeof(ringwayConfig_t), NULL, NULL, NULL, 0, 1, 0, 0, 300000, 30000, 0, 0, 600000, NULL, NULL, NULL, NULL, 0, 0, \
        0, 0                                                                                                          \
  }

/* Result of a successful operation; epoch, contributors and updateWaits are the same on all ranks. */
typedef struct {
  size_t size;          /* sizeof(ringwayOpInfo_t), set by the initializer */
  uint64_t epoch;       /* of the view: term * 2^32 + counter; status and logs print 4294967313 as 1.17 */
  uint64_t wireBytes;   /* sent by this peer until the report, headers and retries included */
  uint32_t rank;        /* in the view of the operation */
  uint32_t worldSize;   /* members of the view: contributors and absent ones */
  uint32_t retries;     /* attempts aborted before */
  uint32_t updateWaits; /* 1: call ringwayCommUpdateView on every rank */
  uint32_t algorithm;   /* a ringwayAlgorithm_t: used for the result */
  float errorBound;     /* times the largest magnitude contributed (ringway.hpp): a codec's error at most */
  uint64_t contributors[RINGWAY_MAX_WORLD_SIZE];
  uint64_t partBegin; /* offset of the result in recvbuff, in elements */
  uint64_t partCount;
  /* With a quorum: the contributors' number, and the members whose inputs came too late, behind them in
   * `contributors`; whether this rank is one of those; and how many later operations of the channel went on without it
   * and are done (ringway.hpp, OpResult::behind). */
  uint32_t contributorCount;
  uint32_t isLate;
  uint64_t behind;
  double weight;   /* sum of the weights of the inputs; without weights their number */
  uint32_t isKept; /* 1: it is late, and added to this rank's next one of its errorFeedback */
} ringwayOpInfo_t;

#define RINGWAY_OP_INFO_INITIALIZER \
  { sizeof(ringwayOpInfo_t), 0, 0, 0, 0, 0, 0, 0, 0, {0}, 0, 0, 0, 0, 0, 0, 0 }

/* A peer of the view. Texts are NUL-terminated, longer ones truncated. */
typedef struct {
  uint64_t peerId;
  char name[64]; /* config.name, or what its daemon chose */
  char site[64]; /* of its daemon */
} ringwayMember_t;

/* One tensor of ringwayAllReduceMany: the buffers may be equal, else they may not overlap. */
typedef struct {
  const void* sendbuff;
  void* recvbuff;
  size_t count;
} ringwayTensor_t;

/* Options of one operation; codec and algorithm are the same on all ranks, else ringwayMismatch. */
typedef struct {
  size_t size;      /* sizeof(ringwayOpOptions_t), set by the initializer */
  uint32_t channel; /* 0 to 63 */
  ringwayCodec_t codec;
  ringwayAlgorithm_t algorithm;
  int64_t submitTimeoutMs; /* while the comm rejoins, or (30 s at most) while the daemon does not read; then
                            * ringwayTimeout, and nothing was submitted */
  uint64_t asPeer;     /* not 0: submit only as this peer (ringwayCommPeerId), else ringwayRejoined: for thread pools */
  uint32_t codecBlock; /* elements that share a scale, a power of two, 32 to 1024; 0: the codec's */
  ringwayRounding_t rounding;
  const char* errorFeedback; /* the tensor's name (ringway.hpp, OpOptions::error_feedback), copied; NULL: none */
  void* stream;              /* cudaStream_t, for buffers in device memory (ringway.hpp); NULL: the default stream */
  uint32_t priority;         /* 0 to 255: this rank sends those of the highest first (ringway.hpp) */
  uint32_t quorum;           /* of an all-reduce: go on with so many inputs, 1 to 64 (ringway.hpp); 0: the config's */
  uint32_t quorumPercent;    /* the same as a share, 1 to 100; 0: none */
  uint32_t graceMs;          /* after the quorum is there */
  double weight;             /* of this rank's input in an average (ringway.hpp); 0: all weigh the same */
  uint32_t keepLate;         /* 1: an input that comes late is added to the next one of errorFeedback; 0: dropped */
  uint32_t reserved;         /* 0 */
} ringwayOpOptions_t;

#define RINGWAY_OP_OPTIONS_INITIALIZER                                                              \
  {                                                                                                 \
    sizeof(ringwayOpOptions_t), 0, ringwayCodecNone, ringwayAlgorithmOfPlan, RINGWAY_FOREVER, 0, 0, \
        ringwayRoundNearest, NULL, NULL, 0, 0, 0, 0, 0, 0, 0                                        \
  }

/* Version of the loaded library; compare with RINGWAY_VERSION_CODE of the header. */
RINGWAY_C_API ringwayResult_t ringwayGetVersion(int* version);

/* Joins a group; returns when this peer is a member. */
RINGWAY_C_API ringwayResult_t ringwayCommInit(ringwayComm_t* comm, const ringwayConfig_t* config);

/* Adopts newcomers on all ranks at once; a collective with nothing else in flight (it waits for operations whose work
 * was freed). `info` may be NULL. */
RINGWAY_C_API ringwayResult_t ringwayCommUpdateView(ringwayComm_t comm, int64_t timeoutMs, ringwayOpInfo_t* info);

/* Finishes what is running, then leaves the group. The comm must still be destroyed. */
RINGWAY_C_API ringwayResult_t ringwayCommLeave(ringwayComm_t comm, int64_t timeoutMs);

/* Leaves without waiting, from any thread: blocked calls of all threads return ringwayLeft at once, later ones too. The
 * daemon finishes submitted operations for the others, with the inputs as they were. The comm must still be destroyed;
 * a woken thread may do so even before this returns. Not async-signal-safe. */
RINGWAY_C_API ringwayResult_t ringwayCommAbort(ringwayComm_t comm);

/* Frees the comm and all memory of ringwayAlloc that is left; leaves without waiting if that was not done. Works of the
 * comm may be freed later. NULL is ignored. */
RINGWAY_C_API ringwayResult_t ringwayCommDestroy(ringwayComm_t comm);

RINGWAY_C_API ringwayResult_t ringwayCommRank(ringwayComm_t comm, int* rank);
RINGWAY_C_API ringwayResult_t ringwayCommCount(ringwayComm_t comm, int* count);
RINGWAY_C_API ringwayResult_t ringwayCommPeerId(ringwayComm_t comm, uint64_t* peerId);
RINGWAY_C_API ringwayResult_t ringwayCommEpoch(ringwayComm_t comm, uint64_t* epoch);

/* Members of the newest view known from the daemon, in rank order: the first `capacity` of them; *count is their total
 * number (at most RINGWAY_MAX_WORLD_SIZE). memberSize is sizeof(ringwayMember_t). Never blocks. */
RINGWAY_C_API ringwayResult_t ringwayCommMembers(ringwayComm_t comm, ringwayMember_t* members, size_t capacity,
                                                 size_t memberSize, size_t* count);

/* Shared memory that the daemon reads without a copy. */
RINGWAY_C_API ringwayResult_t ringwayAlloc(ringwayComm_t comm, size_t bytes, void** memory);
RINGWAY_C_API ringwayResult_t ringwayFree(ringwayComm_t comm, void* memory);

/* recvbuff[i] = op over all contributors of sendbuff[i]; blocks until the outcome is known. Channel 0, no codec.
 * After ringwayInterrupted the operation goes on with the other ranks, as if its work had been freed: a repeated call
 * is the rank's next operation, unless the text says that nothing was submitted. */
RINGWAY_C_API ringwayResult_t ringwayAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                               ringwayDataType_t datatype, ringwayRedOp_t op, ringwayComm_t comm);

/* The same with options (NULL: the initializer's) and with the result's info (may be NULL): check updateWaits. */
RINGWAY_C_API ringwayResult_t ringwayAllReduceWith(const void* sendbuff, void* recvbuff, size_t count,
                                                   ringwayDataType_t datatype, ringwayRedOp_t op,
                                                   const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                   ringwayOpInfo_t* info);

/* The same without waiting; the work must be freed. */
RINGWAY_C_API ringwayResult_t ringwayAllReduceAsync(const void* sendbuff, void* recvbuff, size_t count,
                                                    ringwayDataType_t datatype, ringwayRedOp_t op, ringwayComm_t comm,
                                                    ringwayWork_t* work);

/* The same with options; NULL: the initializer's. */
RINGWAY_C_API ringwayResult_t ringwayAllReduceAsyncWith(const void* sendbuff, void* recvbuff, size_t count,
                                                        ringwayDataType_t datatype, ringwayRedOp_t op,
                                                        const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                        ringwayWork_t* work);

/* Reduces each tensor as ringwayAllReduce does, all in one operation with the delays of one. All ranks pass as many, of
 * the same counts, in the same order; only the sum of the counts is compared. The sendbuffs are the caller's again when
 * the submission returns. Host memory only. Options and info may be NULL. */
RINGWAY_C_API ringwayResult_t ringwayAllReduceMany(const ringwayTensor_t* tensors, size_t tensorCount,
                                                   ringwayDataType_t datatype, ringwayRedOp_t op,
                                                   const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                   ringwayOpInfo_t* info);

/* The same without waiting; the work must be freed. */
RINGWAY_C_API ringwayResult_t ringwayAllReduceManyAsync(const ringwayTensor_t* tensors, size_t tensorCount,
                                                        ringwayDataType_t datatype, ringwayRedOp_t op,
                                                        const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                        ringwayWork_t* work);

/* recvbuff receives sendcount elements of each of the info.worldSize contributors, in rank order. recvcount: capacity
 * of recvbuff in elements, at least sendcount * ringwayCommCount. The buffers may not overlap. Options and info may be
 * NULL. */
RINGWAY_C_API ringwayResult_t ringwayAllGather(const void* sendbuff, size_t sendcount, void* recvbuff, size_t recvcount,
                                               ringwayDataType_t datatype, const ringwayOpOptions_t* options,
                                               ringwayComm_t comm, ringwayOpInfo_t* info);
/* The same without waiting; the work must be freed. */
RINGWAY_C_API ringwayResult_t ringwayAllGatherAsync(const void* sendbuff, size_t sendcount, void* recvbuff,
                                                    size_t recvcount, ringwayDataType_t datatype,
                                                    const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                    ringwayWork_t* work);

/* As an all-reduce of `count` elements, but each rank receives only its part, at its place in recvbuff:
 * [info.partBegin, info.partBegin + info.partCount), that is whole = ceil(count / info.worldSize) elements from
 * info.rank * whole on, fewer at the end. recvbuff has room for `count`. Options and info may be NULL. */
RINGWAY_C_API ringwayResult_t ringwayReduceScatter(const void* sendbuff, void* recvbuff, size_t count,
                                                   ringwayDataType_t datatype, ringwayRedOp_t op,
                                                   const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                   ringwayOpInfo_t* info);
/* The same without waiting; the work must be freed. */
RINGWAY_C_API ringwayResult_t ringwayReduceScatterAsync(const void* sendbuff, void* recvbuff, size_t count,
                                                        ringwayDataType_t datatype, ringwayRedOp_t op,
                                                        const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                        ringwayWork_t* work);

/* Move data from or to one rank, or from each to each. The Async forms' works must be freed. `root` is a rank among
 * the members that comm knows, and stays that peer; if it is gone all ranks get ringwayPeerLost. Options and info may
 * be NULL. ringway.hpp says more. */

/* The root's buff becomes that of all. */
RINGWAY_C_API ringwayResult_t ringwayBroadcast(void* buff, size_t count, ringwayDataType_t datatype, int root,
                                               const ringwayOpOptions_t* options, ringwayComm_t comm,
                                               ringwayOpInfo_t* info);
RINGWAY_C_API ringwayResult_t ringwayBroadcastAsync(void* buff, size_t count, ringwayDataType_t datatype, int root,
                                                    const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                    ringwayWork_t* work);

/* The result is the root's alone; recvbuff of the others is NULL, or work space. */
RINGWAY_C_API ringwayResult_t ringwayReduce(const void* sendbuff, void* recvbuff, size_t count,
                                            ringwayDataType_t datatype, ringwayRedOp_t op, int root,
                                            const ringwayOpOptions_t* options, ringwayComm_t comm,
                                            ringwayOpInfo_t* info);
RINGWAY_C_API ringwayResult_t ringwayReduceAsync(const void* sendbuff, void* recvbuff, size_t count,
                                                 ringwayDataType_t datatype, ringwayRedOp_t op, int root,
                                                 const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                 ringwayWork_t* work);

/* As ringwayAllGather, at the root alone. */
RINGWAY_C_API ringwayResult_t ringwayGather(const void* sendbuff, size_t sendcount, void* recvbuff, size_t recvcount,
                                            ringwayDataType_t datatype, int root, const ringwayOpOptions_t* options,
                                            ringwayComm_t comm, ringwayOpInfo_t* info);
RINGWAY_C_API ringwayResult_t ringwayGatherAsync(const void* sendbuff, size_t sendcount, void* recvbuff,
                                                 size_t recvcount, ringwayDataType_t datatype, int root,
                                                 const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                 ringwayWork_t* work);

/* Each rank receives recvcount elements of the root's sendbuff, which has sendcount = ringwayCommCount * recvcount.
 * ringwayPeerLost on all if the world is smaller than that when it runs. */
RINGWAY_C_API ringwayResult_t ringwayScatter(const void* sendbuff, size_t sendcount, void* recvbuff, size_t recvcount,
                                             ringwayDataType_t datatype, int root, const ringwayOpOptions_t* options,
                                             ringwayComm_t comm, ringwayOpInfo_t* info);
RINGWAY_C_API ringwayResult_t ringwayScatterAsync(const void* sendbuff, size_t sendcount, void* recvbuff,
                                                  size_t recvcount, ringwayDataType_t datatype, int root,
                                                  const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                  ringwayWork_t* work);

/* Both buffers have `count` elements (not count * ranks), ringwayCommCount equal parts: part r goes to rank r, and
 * comes from it. A loss ends it as it does ringwayScatter. */
RINGWAY_C_API ringwayResult_t ringwayAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                                              ringwayDataType_t datatype, const ringwayOpOptions_t* options,
                                              ringwayComm_t comm, ringwayOpInfo_t* info);
RINGWAY_C_API ringwayResult_t ringwayAlltoAllAsync(const void* sendbuff, void* recvbuff, size_t count,
                                                   ringwayDataType_t datatype, const ringwayOpOptions_t* options,
                                                   ringwayComm_t comm, ringwayWork_t* work);

/* With counts by rank: lists of `ranks` entries, ringwayCommCount of them (else ringwayInvalidArgument). If the
 * operation runs in another world, all ranks get ringwayPeerLost. */

/* Rank r receives sendcounts[r] elements of sendbuff from sdispls[r] on; `sdispls` NULL: without gaps. This
 * rank receives recvcounts[r] elements from rank r, in rank order without gaps. Counts may be 0, and the parts sent may
 * overlap; the two ends of each pair must agree (else ringwayMismatch). */
RINGWAY_C_API ringwayResult_t ringwayAlltoAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls,
                                               void* recvbuff, const size_t* recvcounts, int ranks,
                                               ringwayDataType_t datatype, const ringwayOpOptions_t* options,
                                               ringwayComm_t comm, ringwayOpInfo_t* info);
RINGWAY_C_API ringwayResult_t ringwayAlltoAllVAsync(const void* sendbuff, const size_t* sendcounts,
                                                    const size_t* sdispls, void* recvbuff, const size_t* recvcounts,
                                                    int ranks, ringwayDataType_t datatype,
                                                    const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                    ringwayWork_t* work);

/* As ringwayAllGather, but rank r contributes counts[r] elements: the same list on all ranks. recvbuff has their sum.
 */
RINGWAY_C_API ringwayResult_t ringwayAllGatherV(const void* sendbuff, void* recvbuff, const size_t* counts, int ranks,
                                                ringwayDataType_t datatype, const ringwayOpOptions_t* options,
                                                ringwayComm_t comm, ringwayOpInfo_t* info);
RINGWAY_C_API ringwayResult_t ringwayAllGatherVAsync(const void* sendbuff, void* recvbuff, const size_t* counts,
                                                     int ranks, ringwayDataType_t datatype,
                                                     const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                     ringwayWork_t* work);

/* As ringwayReduceScatter, but rank r's part has counts[r] elements: the same list on all ranks. Both buffers have
 * their sum. */
RINGWAY_C_API ringwayResult_t ringwayReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* counts,
                                                    int ranks, ringwayDataType_t datatype, ringwayRedOp_t op,
                                                    const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                    ringwayOpInfo_t* info);
RINGWAY_C_API ringwayResult_t ringwayReduceScatterVAsync(const void* sendbuff, void* recvbuff, const size_t* counts,
                                                         int ranks, ringwayDataType_t datatype, ringwayRedOp_t op,
                                                         const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                         ringwayWork_t* work);

/* Sends a message to another rank, or receives one: `peer` is a rank among the members that comm knows, and stays that
 * peer. Messages of a pair, a channel and a tag are matched in the order of their submission. Both ends get the same
 * result: ringwaySuccess of a send says that the receiver has it. ringwayPeerLost if the other one is gone. */
RINGWAY_C_API ringwayResult_t ringwaySend(const void* sendbuff, size_t count, ringwayDataType_t datatype, int peer,
                                          uint32_t tag, const ringwayOpOptions_t* options, ringwayComm_t comm,
                                          ringwayOpInfo_t* info);
RINGWAY_C_API ringwayResult_t ringwaySendAsync(const void* sendbuff, size_t count, ringwayDataType_t datatype, int peer,
                                               uint32_t tag, const ringwayOpOptions_t* options, ringwayComm_t comm,
                                               ringwayWork_t* work);
RINGWAY_C_API ringwayResult_t ringwayRecv(void* recvbuff, size_t count, ringwayDataType_t datatype, int peer,
                                          uint32_t tag, const ringwayOpOptions_t* options, ringwayComm_t comm,
                                          ringwayOpInfo_t* info);
RINGWAY_C_API ringwayResult_t ringwayRecvAsync(void* recvbuff, size_t count, ringwayDataType_t datatype, int peer,
                                               uint32_t tag, const ringwayOpOptions_t* options, ringwayComm_t comm,
                                               ringwayWork_t* work);

/* Succeeds when all ranks have submitted it. */
RINGWAY_C_API ringwayResult_t ringwayBarrier(const ringwayOpOptions_t* options, ringwayComm_t comm,
                                             ringwayOpInfo_t* info);
RINGWAY_C_API ringwayResult_t ringwayBarrierAsync(const ringwayOpOptions_t* options, ringwayComm_t comm,
                                                  ringwayWork_t* work);

/* ringwayTimeout is local: the operation goes on, wait again. `info` may be NULL. */
RINGWAY_C_API ringwayResult_t ringwayWorkWait(ringwayWork_t work, int64_t timeoutMs, ringwayOpInfo_t* info);
/* Blocks until ringwayWorkWait of one of `count` works of one comm would return at once; *index is the first one. */
RINGWAY_C_API ringwayResult_t ringwayWorkWaitAny(const ringwayWork_t* works, size_t count, int64_t timeoutMs,
                                                 size_t* index);
/* *done = 1 if ringwayWorkWait would return at once. */
RINGWAY_C_API ringwayResult_t ringwayWorkTest(ringwayWork_t work, int* done);
/* Makes a stream (cudaStream_t; NULL: the default stream) wait for the result, whose recvbuff is in device memory: what
 * is enqueued there afterwards sees it or, if the operation fails, recvbuff as it was (unspecified if it is the device
 * that failed); ringwayWorkWait says which. Blocks until this input and those before have been read, and as
 * ringwayWorkWait does where no stream may wait. Work::WaitOnStream in ringway.hpp says more, also what a thread that
 * waits for the stream inside the driver blocks. The work may be freed before. */
RINGWAY_C_API ringwayResult_t ringwayWorkWaitOnStream(ringwayWork_t work, void* stream);
/* Asks all ranks to cancel; ringwayWorkWait returns the agreed outcome, which may be success. */
RINGWAY_C_API ringwayResult_t ringwayWorkCancel(ringwayWork_t work);
/* Replaces config.opDeadlineMs for this operation: if it is not over so long from now, ringwayWorkWait returns
 * ringwayDeadline on all ranks, or success. */
RINGWAY_C_API ringwayResult_t ringwayWorkSetDeadline(ringwayWork_t work, int64_t afterMs);
/* Does not wait. An unfinished operation goes on with the other ranks, with the input as it is now; its result is
 * dropped. NULL is ignored. */
RINGWAY_C_API ringwayResult_t ringwayWorkFree(ringwayWork_t work);

/* The name of a code; never NULL. */
RINGWAY_C_API const char* ringwayGetErrorString(ringwayResult_t result);

/* The sentence of this thread's last failed call on any comm ("" if none); `comm` may be NULL. Valid until the thread's
 * next failed call. */
RINGWAY_C_API const char* ringwayGetLastError(ringwayComm_t comm);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*) */
#endif /* RINGWAY_RINGWAY_H_ */
