/* Shared states in C, as shared_state.hpp documents them. Errors, threads and struct sizes are as in ringway.h.
 *
 *   ringwayStateTensor_t tensors[] = {{"weights", weights, sizeof weights}};
 *   ringwaySharedState_t state = NULL;
 *   ringwaySharedStateInit(&state, tensors, 1, NULL);
 *   ringwayCommInit(&comm, &config);
 *   ringwaySharedStateSync(state, comm);  // first of all, and after ringwayRejoined
 *   ...
 *   ringwaySharedStateAdvance(state, comm, info.updateWaits);  // after each step
 *
 * client/examples/shortest/shortest.c is a whole trainer.
 */
#ifndef RINGWAY_SHARED_STATE_H_
#define RINGWAY_SHARED_STATE_H_

/* A C header: NOLINTBEGIN(modernize-*) */
#include <ringway/ringway.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ringwaySharedState* ringwaySharedState_t;

/* Memory of the host or a device, which stays the caller's; the same names and sizes in the same order on all ranks.
 * `descriptions` say what the bytes mean, apart, since this struct has no size member to grow by. */
typedef struct {
  const char* name; /* unique */
  void* data;
  size_t bytes;
} ringwayStateTensor_t;

typedef struct {
  size_t size;       /* sizeof(ringwaySharedStateConfig_t), set by the initializer */
  uint64_t revision; /* that of the tensors as they are */
  const char* path;  /* a file for this rank alone, read by Init and written as the training goes on; NULL: none */
  uint64_t every;    /* revisions from one write to the next */
  /* ringway::StateTensor::description of each tensor, such as "float32[3, 4]"; NULL, the list or an entry: none. */
  const char* const* descriptions;
} ringwaySharedStateConfig_t;

#define RINGWAY_SHARED_STATE_CONFIG_INITIALIZER \
  { sizeof(ringwaySharedStateConfig_t), 0, NULL, 1, NULL }

/* Reads the file, if there is one. `config` may be NULL: its initializer. */
RINGWAY_C_API ringwayResult_t ringwaySharedStateInit(ringwaySharedState_t* state, const ringwayStateTensor_t* tensors,
                                                     size_t count, const ringwaySharedStateConfig_t* config);

/* Makes the tensors the same on all ranks; the others call Sync or Advance. */
RINGWAY_C_API ringwayResult_t ringwaySharedStateSync(ringwaySharedState_t state, ringwayComm_t comm);

/* Ends a step on every rank: the tensors are one revision further. `updateWaits` is from the step's result; nonzero
 * admits newcomers, which fetch the state. ringwayIoError: the file was not written, all else is done. */
RINGWAY_C_API ringwayResult_t ringwaySharedStateAdvance(ringwaySharedState_t state, ringwayComm_t comm,
                                                        uint32_t updateWaits);

RINGWAY_C_API ringwayResult_t ringwaySharedStateRevision(ringwaySharedState_t state, uint64_t* revision);

/* NULL is ignored. */
RINGWAY_C_API ringwayResult_t ringwaySharedStateDestroy(ringwaySharedState_t state);

/* ringway::StateStrategy. */
typedef enum {
  ringwayStatePopular = 0,
  ringwayStateSend = 1,
  ringwayStateReceive = 2,
  ringwayStateStrategyAnyInt = 0x7fffffff
} ringwayStateStrategy_t;

/* One exchange, without a ringwaySharedState_t. *revision: that of these tensors, and afterwards that of the state. */
RINGWAY_C_API ringwayResult_t ringwaySyncState(const ringwayStateTensor_t* tensors, size_t count,
                                               ringwayStateStrategy_t strategy, ringwayComm_t comm, uint64_t* revision);

/* The same with a description of each tensor, as in ringwaySharedStateConfig_t. */
RINGWAY_C_API ringwayResult_t ringwaySyncDescribedState(const ringwayStateTensor_t* tensors,
                                                        const char* const* descriptions, size_t count,
                                                        ringwayStateStrategy_t strategy, ringwayComm_t comm,
                                                        uint64_t* revision);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*) */
#endif /* RINGWAY_SHARED_STATE_H_ */
