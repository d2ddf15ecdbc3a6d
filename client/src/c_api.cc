// The C API: ringway.hpp's calls with C signatures; the sentence of the last error is kept per thread. Its collectives
// are in c_collectives.cc.
#include "client/src/c_api.h"

#include <ringway/ringway.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/src/session.h"

using ringway::c::Guarded;
using ringway::c::IsWritable;
using ringway::c::Refuse;
using ringway::c::RefuseInfo;
using ringway::c::Report;
using ringway::c::Whole;

namespace {

thread_local std::string last_error;

// Struct sizes of the first release: the fields up to here.
constexpr std::size_t kConfigBytesMin = offsetof(ringwayConfig_t, endWhenEvicted);
constexpr std::size_t kOpOptionsBytesMin = offsetof(ringwayOpOptions_t, submitTimeoutMs);
constexpr std::size_t kOpInfoBytesMin = offsetof(ringwayOpInfo_t, contributors);
constexpr std::size_t kMemberBytesMin = offsetof(ringwayMember_t, site);

ringway::Milliseconds Timeout(int64_t timeout_ms) {
  return timeout_ms < 0 ? ringway::kForever : ringway::Milliseconds(timeout_ms);
}

// Writes only the fields that the caller's header has.
void Fill(const ringway::OpResult& result, ringwayOpInfo_t* info) {
  if (info == nullptr) return;
  ringwayOpInfo_t whole{};
  whole.size = info->size;
  whole.epoch = result.epoch;
  whole.wireBytes = result.wire_bytes;
  whole.rank = result.rank;
  whole.worldSize = result.world_size;
  whole.retries = result.retries;
  whole.updateWaits = result.update_waits ? 1 : 0;
  whole.algorithm = static_cast<std::uint32_t>(result.algorithm);
  whole.errorBound = result.error_bound;
  const std::size_t count = std::min<std::size_t>(result.contributors.size(), RINGWAY_MAX_WORLD_SIZE);
  std::copy_n(result.contributors.begin(), count, whole.contributors);
  const std::size_t absent = std::min<std::size_t>(result.absent.size(), RINGWAY_MAX_WORLD_SIZE - count);
  std::copy_n(result.absent.begin(), absent, whole.contributors + count);
  whole.contributorCount = static_cast<std::uint32_t>(count);
  whole.isLate = result.is_late ? 1 : 0;
  whole.isKept = result.is_kept ? 1 : 0;
  whole.behind = result.behind;
  whole.weight = result.weight;
  whole.partBegin = result.part.begin;
  whole.partCount = result.part.count;
  std::memcpy(info, &whole, info->size);
}

}  // namespace

namespace ringway::c {
namespace {

// Returns what an operation's or a group's options say; numbers out of range become codes out of range.
template <typename Options>
std::optional<Quorum> QuorumOf(const Options& options) {
  if (options.quorumPercent > 0) return Quorum::Percent(std::min<std::uint32_t>(options.quorumPercent, 101));
  if (options.quorum > 0) return Quorum::Ranks(std::min<std::uint32_t>(options.quorum, Quorum::kRanksMax + 1));
  return std::nullopt;
}

}  // namespace

ringwayResult_t Report(const Status& error) {
  if (!error.ok()) last_error = error.text();
  return static_cast<ringwayResult_t>(error.code());
}

ringwayResult_t Refuse(const char* text) { return Report(Status(Code::kInvalidArgument, text)); }
ringwayResult_t RefuseInfo() { return Refuse("start info from RINGWAY_OP_INFO_INITIALIZER"); }

// Checked before the operation is submitted.
bool IsWritable(const ringwayOpInfo_t* info) {
  return info == nullptr || (info->size >= kOpInfoBytesMin && info->size <= sizeof *info);
}

std::optional<OpOptions> OpOptionsOf(const ringwayOpOptions_t* given) {
  if (given == nullptr) return OpOptions();
  const auto options = Whole<ringwayOpOptions_t>(given, RINGWAY_OP_OPTIONS_INITIALIZER, kOpOptionsBytesMin);
  if (!options) return std::nullopt;
  OpOptions out{.channel = options->channel, .codec = Convert<Codec>(options->codec)};
  if (options->codecBlock > 0)
    out.codec.block = static_cast<std::uint16_t>(std::min<std::uint32_t>(options->codecBlock, UINT16_MAX));
  out.codec.rounding = Convert<Rounding>(options->rounding);
  if (options->errorFeedback != nullptr) out.error_feedback = options->errorFeedback;
  out.stream = options->stream;
  out.priority = options->priority;
  out.quorum = options->quorum == RINGWAY_QUORUM_ALL ? Quorum::All() : QuorumOf(*options).value_or(Quorum::OfGroup());
  out.grace = ringway::Milliseconds(options->graceMs);
  out.weight = options->weight;
  out.late = static_cast<Late>(std::min<std::uint32_t>(options->keepLate, kLateCount));
  out.submit_timeout = Timeout(options->submitTimeoutMs);
  out.as_peer = options->asPeer;
  if (options->algorithm != ringwayAlgorithmOfPlan) out.algorithm = Convert<Algorithm>(options->algorithm);
  return out;
}

}  // namespace ringway::c

ringwayResult_t ringwayCommInit(ringwayComm_t* comm, const ringwayConfig_t* config) {
  return Guarded([&] {
    if (comm == nullptr || config == nullptr) return Refuse("comm or config is NULL");
    *comm = nullptr;
    const auto whole = Whole<ringwayConfig_t>(config, RINGWAY_CONFIG_INITIALIZER, kConfigBytesMin);
    if (!whole) return Refuse("start config from RINGWAY_CONFIG_INITIALIZER");
    config = &*whole;
    if (config->group == nullptr) return Refuse("config->group is NULL; name the group to join");
    ringway::JoinOptions options;
    if (config->socketPath != nullptr) options.socket_path = config->socketPath;
    options.group = config->group;
    if (config->name != nullptr) options.name = config->name;
    options.wait_world = config->waitWorld;
    options.min_world = config->minWorld;
    options.fail_on_peer_loss = config->failOnPeerLoss != 0;
    if (config->opDeadlineMs < 0) return Refuse("opDeadlineMs is negative; 0 means no deadline");
    options.op_deadline = ringway::Milliseconds(config->opDeadlineMs);
    options.timeout = Timeout(config->timeoutMs);
    options.reconnect = Timeout(config->reconnectMs);
    options.rejoin_when_evicted = config->endWhenEvicted == 0;
    if (config->onWaiting != nullptr) {
      options.on_waiting = [report = config->onWaiting,
                            context = config->onWaitingContext](const ringway::Status& cause) {
        report(context, static_cast<ringwayResult_t>(cause.code()), cause.text().c_str());
      };
    }
    if (config->interrupted != nullptr) {
      options.interrupted = [asked = config->interrupted, context = config->interruptedContext] {
        return asked(context) != 0;
      };
    }
    options.evict_hung_after = ringway::Milliseconds(config->evictHungAfterMs);
    options.quorum = ringway::c::QuorumOf(*config).value_or(ringway::Quorum::All());
    options.grace = ringway::Milliseconds(config->graceMs);
    options.late = static_cast<ringway::Late>(std::min<std::uint32_t>(config->keepLate, ringway::kLateCount));
    auto session = ringway::Session::Join(options);
    if (!session.ok()) return Report(session.status());
    auto created = std::make_unique<ringwayComm>();
    created->session = std::move(session.value());
    *comm = created.release();
    return ringwaySuccess;
  });
}

ringwayResult_t ringwayCommUpdateView(ringwayComm_t comm, int64_t timeoutMs, ringwayOpInfo_t* info) {
  return Guarded([&] {
    if (comm == nullptr) return Refuse("comm is NULL");
    if (!IsWritable(info)) return RefuseInfo();
    const auto result = comm->session->UpdateView(Timeout(timeoutMs));
    if (result.ok()) Fill(result.value(), info);
    return Report(result.status());
  });
}

ringwayResult_t ringwayCommLeave(ringwayComm_t comm, int64_t timeoutMs) {
  return Guarded([&] {
    if (comm == nullptr) return Refuse("comm is NULL");
    return Report(comm->session->Leave(Timeout(timeoutMs)));
  });
}

ringwayResult_t ringwayCommAbort(ringwayComm_t comm) {
  return Guarded([&] {
    if (comm == nullptr) return Refuse("comm is NULL");
    comm->session->Abort();
    return ringwaySuccess;
  });
}

ringwayResult_t ringwayGetVersion(int* version) {
  if (version == nullptr) return Guarded([] { return Refuse("version is NULL"); });
  *version = ringway::Version();
  return ringwaySuccess;
}

ringwayResult_t ringwayCommEpoch(ringwayComm_t comm, uint64_t* epoch) {
  if (comm == nullptr || epoch == nullptr) return Guarded([] { return Refuse("comm or epoch is NULL"); });
  *epoch = comm->session->epoch();
  return ringwaySuccess;
}

ringwayResult_t ringwayCommDestroy(ringwayComm_t comm) {
  delete comm;
  return ringwaySuccess;
}

ringwayResult_t ringwayCommRank(ringwayComm_t comm, int* rank) {
  if (comm == nullptr || rank == nullptr) return Guarded([] { return Refuse("comm or rank is NULL"); });
  *rank = static_cast<int>(comm->session->rank());
  return ringwaySuccess;
}

ringwayResult_t ringwayCommCount(ringwayComm_t comm, int* count) {
  if (comm == nullptr || count == nullptr) return Guarded([] { return Refuse("comm or count is NULL"); });
  *count = static_cast<int>(comm->session->world_size());
  return ringwaySuccess;
}

ringwayResult_t ringwayCommPeerId(ringwayComm_t comm, uint64_t* peerId) {
  if (comm == nullptr || peerId == nullptr) return Guarded([] { return Refuse("comm or peerId is NULL"); });
  *peerId = comm->session->peer_id();
  return ringwaySuccess;
}

ringwayResult_t ringwayAlloc(ringwayComm_t comm, size_t bytes, void** memory) {
  return Guarded([&] {
    if (comm == nullptr || memory == nullptr) return Refuse("comm or memory is NULL");
    *memory = nullptr;
    auto buffer = comm->session->Allocate(bytes);
    if (!buffer.ok()) return Report(buffer.status());
    void* const address = buffer->data();
    const std::lock_guard<std::mutex> lock(comm->mutex);
    comm->buffers[address] = std::move(buffer.value());
    *memory = address;
    return ringwaySuccess;
  });
}

ringwayResult_t ringwayFree(ringwayComm_t comm, void* memory) {
  return Guarded([&] {
    if (memory == nullptr) return ringwaySuccess;
    if (comm == nullptr) return Refuse("comm is NULL");
    if (comm->generation != ringway::internal::ForkGeneration()) return Report(ringway::internal::ForkedError());
    const std::lock_guard<std::mutex> lock(comm->mutex);
    return comm->buffers.erase(memory) == 1 ? ringwaySuccess : Refuse("memory is not of this comm's ringwayAlloc");
  });
}

ringwayResult_t ringwayCommMembers(ringwayComm_t comm, ringwayMember_t* members, size_t capacity, size_t memberSize,
                                   size_t* count) {
  return Guarded([&] {
    if (comm == nullptr || count == nullptr) return Refuse("comm or count is NULL");
    if (members == nullptr && capacity > 0) return Refuse("members is NULL though capacity is not 0");
    if (memberSize < kMemberBytesMin || memberSize > sizeof(ringwayMember_t)) {
      return Refuse("memberSize is not sizeof(ringwayMember_t)");
    }
    const auto all = comm->session->Members();
    if (!all.ok()) return Report(all.status());
    *count = all->size();
    for (size_t i = 0; i < std::min(capacity, all->size()); ++i) {
      const ringway::Member& member = (*all)[i];
      ringwayMember_t whole{};
      whole.peerId = member.peer_id;
      member.name.copy(whole.name, sizeof whole.name - 1);
      member.site.copy(whole.site, sizeof whole.site - 1);
      std::memcpy(reinterpret_cast<std::byte*>(members) + i * memberSize, &whole, memberSize);
    }
    return ringwaySuccess;
  });
}

ringwayResult_t ringwayWorkWait(ringwayWork_t work, int64_t timeoutMs, ringwayOpInfo_t* info) {
  return Guarded([&] {
    if (work == nullptr) return Refuse("work is NULL");
    if (!IsWritable(info)) return RefuseInfo();
    const auto result = work->work.Wait(Timeout(timeoutMs));
    if (result.ok()) Fill(result.value(), info);
    return Report(result.status());
  });
}

ringwayResult_t ringwayWorkWaitAny(const ringwayWork_t* works, size_t count, int64_t timeoutMs, size_t* index) {
  return Guarded([&] {
    if (works == nullptr || index == nullptr) return Refuse("works or index is NULL");
    std::vector<ringway::Work*> all;
    for (size_t i = 0; i < count; ++i) all.push_back(works[i] == nullptr ? nullptr : &works[i]->work);
    const auto first = ringway::Work::WaitAny(all, Timeout(timeoutMs));
    if (first.ok()) *index = *first;
    return Report(first.status());
  });
}

ringwayResult_t ringwayWorkTest(ringwayWork_t work, int* done) {
  return Guarded([&] {
    if (work == nullptr || done == nullptr) return Refuse("work or done is NULL");
    *done = work->work.Test() ? 1 : 0;
    return ringwaySuccess;
  });
}

ringwayResult_t ringwayWorkWaitOnStream(ringwayWork_t work, void* stream) {
  return Guarded([&] {
    if (work == nullptr) return Refuse("work is NULL");
    return Report(work->work.WaitOnStream(stream));
  });
}

ringwayResult_t ringwayWorkCancel(ringwayWork_t work) {
  return Guarded([&] {
    if (work == nullptr) return Refuse("work is NULL");
    return Report(work->work.Cancel());
  });
}

ringwayResult_t ringwayWorkSetDeadline(ringwayWork_t work, int64_t afterMs) {
  return Guarded([&] {
    if (work == nullptr) return Refuse("work is NULL");
    return Report(work->work.SetDeadline(ringway::Milliseconds(afterMs)));
  });
}

ringwayResult_t ringwayWorkFree(ringwayWork_t work) {
  delete work;
  return ringwaySuccess;
}

const char* ringwayGetErrorString(ringwayResult_t result) {
  return ringway::NameOf(static_cast<ringway::Code>(result));
}

const char* ringwayGetLastError(ringwayComm_t /*comm*/) { return last_error.c_str(); }
