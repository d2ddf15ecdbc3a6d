/* shortest.cc in C, step by step: the two can train together. `shortest_c SOCKET GROUP WORLD` */
#include <ringway/ringway.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCount = 1000 };
static volatile sig_atomic_t told_to_stop = 0;
static void on_term(int signal) {
  (void)signal;
  told_to_stop = told_to_stop + 1;
}
/* In training the first signal is a vote. */
static int give_up(void* joined) { return told_to_stop > *(int*)joined; }

static void tell(void* context, ringwayResult_t cause, const char* text) {
  (void)context;
  fprintf(stderr, "waiting: %s: %s\n", ringwayGetErrorString(cause), text);
}

typedef struct {
  float weights[kCount];
  float steps;
} model_t;

static void compute_gradients(const model_t* model, float* gradients) {
  for (int i = 0; i < kCount; ++i) gradients[i] = model->weights[i] - 1.0f;
}

static void apply(model_t* model, const float* gradients) {
  for (int i = 0; i < kCount; ++i) model->weights[i] -= 0.01f * gradients[i];
  printf("step %.0f\n", (double)++model->steps);
  fflush(stdout);
}

/* Newcomers, and ranks that rejoined, take the state of those who have trained longest. Every rank calls it. */
static ringwayResult_t share_state(ringwayComm_t comm, model_t* model) {
  float state[kCount + 1] = {0};
  while (state[kCount] == 0) { /* retry if all who had it died meanwhile */
    float newest = model->steps;
    ringwayResult_t result = ringwayAllReduce(&newest, &newest, 1, ringwayFloat32, ringwayMax, comm);
    if (result != ringwaySuccess) return result;
    if (model->steps == newest) {
      memcpy(state, model->weights, sizeof model->weights);
      state[kCount] = 1;
    }
    result = ringwayAllReduce(state, state, kCount + 1, ringwayFloat32, ringwaySum, comm);
    if (result != ringwaySuccess) return result;
    if (state[kCount] > 0) model->steps = newest;
  }
  for (int i = 0; i < kCount; ++i) model->weights[i] = state[i] / state[kCount];
  return ringwaySuccess;
}

/* [readme] */
static ringwayResult_t train(ringwayComm_t comm, float* mine, float* mean, model_t* model) {
  for (;;) {
    ringwayResult_t result = share_state(comm, model);
    if (result != ringwaySuccess) return result;
    ringwayOpInfo_t info = RINGWAY_OP_INFO_INITIALIZER;
    while (!info.updateWaits) {
      compute_gradients(model, mine);
      mine[kCount] = told_to_stop ? 1 : 0;
      result = ringwayAllReduceWith(mine, mean, kCount + 1, ringwayFloat32, ringwayAvg, NULL, comm, &info);
      if (result != ringwaySuccess) return result;
      apply(model, mean);                          /* info.worldSize ranks took part: the same bytes on all */
      if (mean[kCount] > 0) return ringwaySuccess; /* somebody was told to stop, and all know it */
    }
    result = ringwayCommUpdateView(comm, RINGWAY_FOREVER, NULL); /* on all ranks at once: admits newcomers */
    if (result != ringwaySuccess) return result;
  }
}
/* [/readme] */

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s SOCKET GROUP WORLD\n", argv[0]);
    return 2;
  }
  signal(SIGTERM, on_term);
  ringwayConfig_t config = RINGWAY_CONFIG_INITIALIZER;
  config.socketPath = argv[1];
  config.group = argv[2];
  config.waitWorld = (uint32_t)atoi(argv[3]);
  config.onWaiting = tell;
  int joined = 0;
  config.interrupted = give_up;
  config.interruptedContext = &joined;
  ringwayComm_t comm = NULL;
  void *mine = NULL, *mean = NULL; /* shared memory: read and written without a copy */
  model_t model = {{0}, 0};
  ringwayResult_t result = ringwayCommInit(&comm, &config);
  joined = result == ringwaySuccess;
  if (result == ringwaySuccess) result = ringwayAlloc(comm, (kCount + 1) * sizeof(float), &mine);
  if (result == ringwaySuccess) result = ringwayAlloc(comm, (kCount + 1) * sizeof(float), &mean);
  if (result == ringwaySuccess) {
    do result = train(comm, mine, mean, &model);
    while (result == ringwayRejoined); /* daemon restarted, or evicted: a newcomer with an old state */
  }
  if (result != ringwaySuccess) fprintf(stderr, "%s: %s\n", ringwayGetErrorString(result), ringwayGetLastError(NULL));
  ringwayCommDestroy(comm);
  if (result == ringwaySuccess) printf("done steps %.0f weight %a\n", (double)model.steps, (double)model.weights[0]);
  return result == ringwaySuccess ? 0 : 1;
}
