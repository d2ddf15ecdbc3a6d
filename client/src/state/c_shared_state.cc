// The C API of shared states.
#include <ringway/shared_state.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <ringway/shared_state.hpp>
#include <string>
#include <utility>
#include <vector>

#include "client/src/c_api.h"

struct ringwaySharedState {
  ringway::SharedState state;
};

namespace {

using ringway::c::Refuse;
using ringway::c::Report;

constexpr std::size_t kConfigBytesMin = offsetof(ringwaySharedStateConfig_t, descriptions);  // of the first release

// Nothing: the arguments are impossible.
std::optional<std::vector<ringway::StateTensor>> TensorsOf(const ringwayStateTensor_t* tensors,
                                                           const char* const* descriptions, std::size_t count) {
  std::vector<ringway::StateTensor> list;
  if (tensors == nullptr && count > 0) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    if (tensors[i].name == nullptr) return std::nullopt;
    const char* const description = descriptions != nullptr ? descriptions[i] : nullptr;
    list.push_back(
        {tensors[i].name, tensors[i].data, tensors[i].bytes, description != nullptr ? description : std::string()});
  }
  return list;
}

ringwayResult_t RefuseTensors() { return Refuse("tensors, or the name of one, is NULL"); }

}  // namespace

ringwayResult_t ringwaySharedStateInit(ringwaySharedState_t* state, const ringwayStateTensor_t* tensors, size_t count,
                                       const ringwaySharedStateConfig_t* config) {
  return ringway::c::Guarded([&] {
    if (state == nullptr) return Refuse("state is NULL");
    *state = nullptr;
    const ringwaySharedStateConfig_t defaults = RINGWAY_SHARED_STATE_CONFIG_INITIALIZER;
    const auto whole = ringway::c::Whole(config != nullptr ? config : &defaults, defaults, kConfigBytesMin);
    if (!whole) return Refuse("start config from RINGWAY_SHARED_STATE_CONFIG_INITIALIZER");
    auto list = TensorsOf(tensors, whole->descriptions, count);
    if (!list) return RefuseTensors();
    auto made = ringway::SharedState::Make(
        std::move(*list),
        {.revision = whole->revision, .path = whole->path != nullptr ? whole->path : "", .every = whole->every});
    if (!made.ok()) return Report(made.status());
    *state = std::make_unique<ringwaySharedState>(ringwaySharedState{std::move(*made)}).release();
    return ringwaySuccess;
  });
}

ringwayResult_t ringwaySharedStateSync(ringwaySharedState_t state, ringwayComm_t comm) {
  return ringway::c::Guarded([&] {
    if (state == nullptr || comm == nullptr) return Refuse("state or comm is NULL");
    return Report(state->state.Sync(*comm->session).status());
  });
}

ringwayResult_t ringwaySharedStateAdvance(ringwaySharedState_t state, ringwayComm_t comm, uint32_t updateWaits) {
  return ringway::c::Guarded([&] {
    if (state == nullptr || comm == nullptr) return Refuse("state or comm is NULL");
    return Report(state->state.Advance(*comm->session, updateWaits != 0).status());
  });
}

ringwayResult_t ringwaySharedStateRevision(ringwaySharedState_t state, uint64_t* revision) {
  return ringway::c::Guarded([&] {
    if (state == nullptr || revision == nullptr) return Refuse("state or revision is NULL");
    *revision = state->state.revision();
    return ringwaySuccess;
  });
}

ringwayResult_t ringwaySharedStateDestroy(ringwaySharedState_t state) {
  return ringway::c::Guarded([&] {
    delete state;
    return ringwaySuccess;
  });
}

ringwayResult_t ringwaySyncState(const ringwayStateTensor_t* tensors, size_t count, ringwayStateStrategy_t strategy,
                                 ringwayComm_t comm, uint64_t* revision) {
  return ringwaySyncDescribedState(tensors, nullptr, count, strategy, comm, revision);
}

ringwayResult_t ringwaySyncDescribedState(const ringwayStateTensor_t* tensors, const char* const* descriptions,
                                          size_t count, ringwayStateStrategy_t strategy, ringwayComm_t comm,
                                          uint64_t* revision) {
  return ringway::c::Guarded([&] {
    if (comm == nullptr || revision == nullptr) return Refuse("comm or revision is NULL");
    const auto list = TensorsOf(tensors, descriptions, count);
    if (!list) return RefuseTensors();
    const auto converted = ringway::c::Convert<ringway::StateStrategy>(strategy);
    const auto result = ringway::SyncState(*comm->session, *list, {.revision = *revision, .strategy = converted});
    if (!result.ok()) return Report(result.status());
    *revision = result->revision;
    return ringwaySuccess;
  });
}
