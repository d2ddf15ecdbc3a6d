/* shortest.cc in C, step by step: the two can train together. `shortest_c SOCKET GROUP WORLD` */
#include <ringway/shared_state.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { kCount = 1000 };
static volatile sig_atomic_t stop_requested = 0;
static void on_term(int signal) {
  (void)signal;
  stop_requested = stop_requested + 1;
}
/* In training the first signal is a vote. */
static int give_up(void* joined) { return stop_requested > *(int*)joined; }

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

/* [readme] */
static ringwayResult_t train(ringwayComm_t comm, ringwaySharedState_t state, float* mine, float* mean, model_t* model) {
  ringwayOpInfo_t info = RINGWAY_OP_INFO_INITIALIZER;
  for (;;) {
    compute_gradients(model, mine);
    mine[kCount] = stop_requested ? 1 : 0;
    ringwayResult_t result =
        ringwayAllReduceWith(mine, mean, kCount + 1, ringwayFloat32, ringwayAvg, NULL, comm, &info);
    if (result != ringwaySuccess) return result;
    apply(model, mean);                          /* info.worldSize ranks took part: the same bytes on all */
    if (mean[kCount] > 0) return ringwaySuccess; /* a rank has to stop: all see it and stop here */
    result = ringwaySharedStateAdvance(state, comm, info.updateWaits); /* admits newcomers, which fetch the state */
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
  ringwayStateTensor_t tensors[] = {{"weights", model.weights, sizeof model.weights},
                                    {"steps", &model.steps, sizeof model.steps}};
  ringwaySharedState_t state = NULL;
  ringwayResult_t result = ringwaySharedStateInit(&state, tensors, 2, NULL);
  if (result == ringwaySuccess) result = ringwayCommInit(&comm, &config);
  joined = result == ringwaySuccess;
  if (result == ringwaySuccess) result = ringwayAlloc(comm, (kCount + 1) * sizeof(float), &mine);
  if (result == ringwaySuccess) result = ringwayAlloc(comm, (kCount + 1) * sizeof(float), &mean);
  if (result == ringwaySuccess) {
    do {
      result = ringwaySharedStateSync(state, comm); /* fetches the state of the members */
      if (result == ringwaySuccess) result = train(comm, state, mine, mean, &model);
    } while (result == ringwayRejoined); /* daemon restarted, or evicted: it is a newcomer with an old state */
  }
  if (result != ringwaySuccess) fprintf(stderr, "%s: %s\n", ringwayGetErrorString(result), ringwayGetLastError(NULL));
  ringwayCommDestroy(comm);
  ringwaySharedStateDestroy(state);
  if (result == ringwaySuccess) printf("done steps %.0f weight %a\n", (double)model.steps, (double)model.weights[0]);
  return result == ringwaySuccess ? 0 : 1;
}
