#include "tests/examples/fake_session.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace ringway {
namespace internal {

struct RegionImpl {
  std::vector<std::byte> bytes;
};

class SessionImpl {
 public:
  explicit SessionImpl(std::uint64_t id) : peer_id(id) {}
  static Buffer MakeBuffer(std::size_t bytes) {
    auto region = std::make_shared<RegionImpl>();
    region->bytes.resize(bytes);
    return Buffer(std::move(region));
  }
  const std::uint64_t peer_id;
};

}  // namespace internal

namespace {

// Where the threads meet. Everything is under the mutex.
struct Hub {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t next_peer = 1;
  std::vector<std::uint64_t> peers;                        // alive
  std::map<std::uint64_t, std::uint32_t> dies_at;          // operation number
  std::map<std::uint64_t, std::uint32_t> operations;       // done so far
  std::map<std::uint64_t, std::vector<std::byte>> inputs;  // of the operation that is meeting
  DType dtype = DType::kU32;
  ReduceOp op = ReduceOp::kSum;
  std::vector<std::uint64_t> contributors;
  std::vector<std::byte> result;
  std::uint64_t round = 0;
};

Hub& TheHub() {
  static Hub hub;
  return hub;
}

template <typename T>
void Combine(std::vector<std::byte>* sum, const std::vector<std::byte>& input, ReduceOp op) {
  for (std::size_t at = 0; at < input.size(); at += sizeof(T)) {
    T a;
    T b;
    std::memcpy(&a, sum->data() + at, sizeof(T));
    std::memcpy(&b, input.data() + at, sizeof(T));
    const T c = op == ReduceOp::kMin ? std::min(a, b) : static_cast<T>(a + b);
    std::memcpy(sum->data() + at, &c, sizeof(T));
  }
}

// Called with the mutex held. Ends the operation if everybody alive has come.
void FinishIfAllAreHere(Hub* hub) {
  if (hub->inputs.empty() || hub->inputs.size() < hub->peers.size()) return;
  hub->contributors = hub->peers;
  hub->result = hub->inputs.begin()->second;
  for (auto other = std::next(hub->inputs.begin()); other != hub->inputs.end(); ++other) {
    if (hub->dtype == DType::kU32) Combine<std::uint32_t>(&hub->result, other->second, hub->op);
    if (hub->dtype == DType::kU64) Combine<std::uint64_t>(&hub->result, other->second, hub->op);
  }
  hub->inputs.clear();
  ++hub->round;
  hub->changed.notify_all();
}

}  // namespace

Buffer::Buffer() = default;
Buffer::Buffer(Buffer&&) noexcept = default;
Buffer& Buffer::operator=(Buffer&&) noexcept = default;
Buffer::~Buffer() = default;
Buffer::Buffer(std::shared_ptr<internal::RegionImpl> region) : region_(std::move(region)) {}
void* Buffer::data() const { return region_->bytes.data(); }
std::size_t Buffer::size_bytes() const { return region_->bytes.size(); }

Session::Session(std::shared_ptr<internal::SessionImpl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;
std::uint64_t Session::peer_id() const { return impl_->peer_id; }
Expected<Buffer> Session::Allocate(std::size_t bytes) { return internal::SessionImpl::MakeBuffer(bytes); }

Expected<std::unique_ptr<Session>> Session::Join(const JoinOptions& options) {
  Hub& hub = TheHub();
  std::unique_lock lock(hub.mutex);
  const std::uint64_t peer_id = hub.next_peer++;
  hub.peers.push_back(peer_id);
  hub.changed.notify_all();
  hub.changed.wait(lock, [&] { return hub.next_peer > options.wait_world; });
  return std::unique_ptr<Session>(new Session(std::make_shared<internal::SessionImpl>(peer_id)));
}

Expected<OpResult> Session::AllReduce(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                                      const OpOptions& /*options*/) {
  Hub& hub = TheHub();
  std::unique_lock lock(hub.mutex);
  const auto dies_at = hub.dies_at.find(peer_id());
  if (++hub.operations[peer_id()] == (dies_at == hub.dies_at.end() ? 0 : dies_at->second)) {
    std::erase(hub.peers, peer_id());
    FinishIfAllAreHere(&hub);
    return Error(Code::kDaemonLost, "the test killed this peer");
  }
  const auto* bytes = static_cast<const std::byte*>(input);
  hub.inputs[peer_id()].assign(bytes, bytes + count * SizeOf(dtype));
  hub.dtype = dtype;
  hub.op = op;
  const std::uint64_t round = hub.round;
  FinishIfAllAreHere(&hub);
  hub.changed.wait(lock, [&] { return hub.round != round; });
  std::memcpy(output, hub.result.data(), hub.result.size());
  OpResult result;
  result.contributors = hub.contributors;
  result.world_size = static_cast<std::uint32_t>(hub.contributors.size());
  result.wire_bytes = hub.result.size();
  return result;
}

}  // namespace ringway

namespace train_text {

void ResetFakeGroup() {
  ringway::Hub& hub = ringway::TheHub();
  const std::lock_guard lock(hub.mutex);
  hub.next_peer = 1;
  hub.peers.clear();
  hub.dies_at.clear();
  hub.operations.clear();
}

std::unique_ptr<ringway::Session> JoinFakeGroup(std::uint32_t world) {
  ringway::JoinOptions options;
  options.wait_world = world;
  return std::move(ringway::Session::Join(options).value());
}

void KillFakePeerAt(std::uint64_t peer_id, std::uint32_t operations) {
  ringway::Hub& hub = ringway::TheHub();
  const std::lock_guard lock(hub.mutex);
  hub.dies_at[peer_id] = operations;
}

}  // namespace train_text
