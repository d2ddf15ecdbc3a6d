/* The C header is C11, and a C trainer can say everything with it. Called by c_api_test.cc. */
#include <ringway/ringway.h>
#include <stddef.h>
#include <string.h>

/* Returns the line of the first call that gave something unexpected, 0 if none. */
#define EXPECT(condition)              \
  do {                                 \
    if (!(condition)) return __LINE__; \
  } while (0)

int RunCTrainer(const char* socket_path) {
  ringwayConfig_t config = RINGWAY_CONFIG_INITIALIZER;
  ringwayComm_t comm = NULL;
  EXPECT(ringwayCommInit(&comm, &config) == ringwayInvalidArgument); /* no group */
  EXPECT(strstr(ringwayGetLastError(NULL), "group") != NULL);
  config.socketPath = socket_path;
  config.group = "job";
  EXPECT(ringwayCommInit(&comm, &config) == ringwayInvalidArgument); /* nobody said with how many */
  config.waitWorld = 1;
  config.size = sizeof config + 1; /* a caller whose header knows more */
  EXPECT(ringwayCommInit(&comm, &config) == ringwayInvalidArgument);
  config.size = offsetof(ringwayConfig_t, endWhenEvicted); /* one of the first release, and what stands behind */
  config.endWhenEvicted = 12345;
  EXPECT(ringwayCommInit(&comm, &config) == ringwaySuccess);

  int rank = -1;
  int count = -1;
  uint64_t peer_id = 0;
  EXPECT(ringwayCommRank(comm, &rank) == ringwaySuccess && rank == 0);
  EXPECT(ringwayCommCount(comm, &count) == ringwaySuccess && count == 1);
  EXPECT(ringwayCommPeerId(comm, &peer_id) == ringwaySuccess && peer_id == 77);

  ringwayMember_t members[2];
  size_t member_count = 0;
  const size_t member_size = sizeof(ringwayMember_t);
  EXPECT(ringwayCommMembers(comm, members, 2, member_size, &member_count) == ringwaySuccess && member_count == 1);
  EXPECT(members[0].peerId == 77 && strcmp(members[0].name, "trainer0") == 0 && strcmp(members[0].site, "eu") == 0);
  memset(members, 7, sizeof members); /* whose header has no sites */
  const size_t small_member = offsetof(ringwayMember_t, site);
  EXPECT(ringwayCommMembers(comm, members, 1, small_member, &member_count) == ringwaySuccess);
  EXPECT(members[0].peerId == 77 && strcmp(members[0].name, "trainer0") == 0 && members[0].site[0] == 7);
  EXPECT(ringwayCommMembers(comm, members, 1, member_size + 1, &member_count) == ringwayInvalidArgument);
  EXPECT(ringwayCommMembers(comm, members, 1, small_member - 1, &member_count) == ringwayInvalidArgument);
  EXPECT(ringwayCommMembers(comm, NULL, 0, member_size, &member_count) == ringwaySuccess && member_count == 1);
  EXPECT(ringwayCommMembers(comm, NULL, 1, member_size, &member_count) == ringwayInvalidArgument);

  uint64_t epoch = 0;
  EXPECT(ringwayCommEpoch(comm, &epoch) == ringwaySuccess && epoch > 0);
  int version = 0;
  EXPECT(ringwayGetVersion(&version) == ringwaySuccess && version == RINGWAY_VERSION_CODE);

  void* memory = NULL;
  EXPECT(ringwayAlloc(comm, 100, &memory) == ringwaySuccess);
  memset(memory, 7, 100);
  EXPECT(ringwayAllReduce(memory, memory, 100, ringwayUint8, ringwaySum, comm) == ringwaySuccess);
  EXPECT(((const unsigned char*)memory)[99] == 8);

  unsigned char small[4] = {1, 2, 3, 4};
  ringwayWork_t work = NULL;
  ringwayOpInfo_t info = RINGWAY_OP_INFO_INITIALIZER;
  EXPECT(ringwayAllReduceAsync(small, small, 4, ringwayInt8, ringwayMax, comm, &work) == ringwaySuccess);
  size_t first = 9;
  EXPECT(ringwayWorkWaitAny(&work, 1, RINGWAY_FOREVER, &first) == ringwaySuccess && first == 0);
  EXPECT(ringwayWorkWait(work, RINGWAY_FOREVER, &info) == ringwaySuccess);
  EXPECT(info.worldSize == 1 && info.contributors[0] == 77 && small[3] == 5);
  int done = 0;
  EXPECT(ringwayWorkTest(work, &done) == ringwaySuccess && done == 1);
  EXPECT(ringwayWorkCancel(work) == ringwaySuccess);
  EXPECT(ringwayWorkFree(work) == ringwaySuccess);

  EXPECT(info.algorithm == ringwayDirect); /* this daemon's choice */
  ringwayOpOptions_t options = RINGWAY_OP_OPTIONS_INITIALIZER;
  options.channel = 3;
  options.algorithm = ringwayHalvingDoubling;
  options.size = offsetof(ringwayOpOptions_t, submitTimeoutMs); /* of the first release, and what stands behind */
  options.asPeer = 12345;
  EXPECT(ringwayAllReduceAsyncWith(small, small, 4, ringwayInt8, ringwayMax, &options, comm, &work) == ringwaySuccess);
  info.size = 1;
  EXPECT(ringwayWorkWait(work, RINGWAY_FOREVER, &info) == ringwayInvalidArgument);
  EXPECT(strstr(ringwayGetLastError(comm), "RINGWAY_OP_INFO_INITIALIZER") != NULL);
  info.size = sizeof info + 1; /* a caller whose header knows more */
  EXPECT(ringwayWorkWait(work, RINGWAY_FOREVER, &info) == ringwayInvalidArgument);
  EXPECT(ringwayAllReduceWith(small, small, 4, ringwayInt8, ringwayMax, &options, comm, &info) ==
         ringwayInvalidArgument); /* and nothing is submitted */
  EXPECT(ringwayCommUpdateView(comm, RINGWAY_FOREVER, &info) == ringwayInvalidArgument);
  info.size = offsetof(ringwayOpInfo_t, contributors); /* one whose header knows less */
  info.contributors[0] = 12345;
  EXPECT(ringwayWorkWait(work, RINGWAY_FOREVER, &info) == ringwaySuccess);
  EXPECT(info.algorithm == ringwayHalvingDoubling && info.contributors[0] == 12345);
  EXPECT(ringwayWorkFree(work) == ringwaySuccess);
  options.algorithm = (ringwayAlgorithm_t)(ringwayRings + 1);
  EXPECT(ringwayAllReduceAsyncWith(small, small, 4, ringwayInt8, ringwayMax, &options, comm, &work) ==
         ringwayNotSupported);
  EXPECT(strstr(ringwayGetLastError(comm), "algorithm") != NULL);
  options.size = 1;
  EXPECT(ringwayAllReduceAsyncWith(small, small, 4, ringwayInt8, ringwayMax, &options, comm, &work) ==
         ringwayInvalidArgument);

  EXPECT(ringwayAllReduce(small, small, 1, ringwayInt8, ringwayAvg, comm) == ringwayNotSupported);
  EXPECT(strstr(ringwayGetLastError(comm), "avg") != NULL);

  EXPECT(ringwayAllGather(small, 2, small + 2, 1, ringwayInt8, NULL, comm, NULL) == ringwayInvalidArgument);
  EXPECT(ringwayAllGatherAsync(small, 2, small, 16, ringwayInt8, NULL, comm, &work) == ringwayInvalidArgument);
  EXPECT(ringwayReduceScatter(small, small, 2, ringwayInt8, ringwayAvg, NULL, comm, NULL) == ringwayNotSupported);
  EXPECT(ringwayReduceScatterAsync(small, small, 2, ringwayInt8, ringwaySum, NULL, comm, NULL) ==
         ringwayInvalidArgument);
  info.size = sizeof info;
  EXPECT(ringwayReduceScatter(small, small, 4, ringwayInt8, ringwaySum, NULL, comm, &info) == ringwaySuccess);
  EXPECT(info.partBegin == info.rank * ((4 + info.worldSize - 1) / info.worldSize) && info.partCount >= 1);
  EXPECT(ringwayAllReduce(small, small, 1, (ringwayDataType_t)77, ringwaySum, comm) == ringwayNotSupported);
  EXPECT(strcmp(ringwayGetErrorString(ringwayNotSupported), "not_supported") == 0);
  EXPECT(ringwayGetErrorString((ringwayResult_t)99) != NULL);

  EXPECT(ringwayFree(comm, small) == ringwayInvalidArgument);
  EXPECT(ringwayFree(comm, memory) == ringwaySuccess);
  EXPECT(ringwayCommUpdateView(comm, RINGWAY_FOREVER, NULL) == ringwaySuccess);
  EXPECT(ringwayCommLeave(comm, 30000) == ringwaySuccess);
  EXPECT(ringwayCommDestroy(comm) == ringwaySuccess);
  EXPECT(ringwayCommDestroy(NULL) == ringwaySuccess && ringwayWorkFree(NULL) == ringwaySuccess);
  return 0;
}
