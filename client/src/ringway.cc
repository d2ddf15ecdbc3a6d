// The handles of ringway.hpp: guard against empty handles and exceptions, and forward to the session.
#include <algorithm>
#include <new>
#include <ringway/ringway.hpp>
#include <utility>

#include "client/src/no_throw.h"
#include "client/src/session.h"
#include "client/src/tensor_list.h"

namespace ringway {
namespace {

Status NoHandle() { return Status(Code::kInvalidArgument, "this handle is empty (moved from or never set)"); }

// The one place where the options of a call become its spec.
internal::Request RequestOf(OpKind kind, const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                            const OpOptions& options, std::uint32_t root = 0) {
  internal::Request request;
  request.spec.kind = kind;
  request.spec.count = count;
  request.spec.dtype = dtype;
  request.spec.op = op;
  request.spec.channel = options.channel;
  request.spec.codec = CodeOf(options.codec);
  request.spec.algorithm = abi::CodeOf(options.algorithm);
  request.spec.priority = options.priority;
  request.spec.quorum = options.quorum.code;
  request.spec.grace_ms = internal::GraceMs(options.grace);
  request.spec.weight = options.weight;
  request.spec.late = options.late;
  if (!options.error_feedback.empty()) request.spec.feedback = abi::FeedbackOf(options.error_feedback);
  request.input = input;
  request.output = output;
  request.root = root;
  request.submit_timeout = options.submit_timeout;
  request.as_peer = options.as_peer;
  request.stream = options.stream;
  return request;
}

internal::Request Moving(OpKind kind, const void* input, void* output, std::size_t count, DType dtype,
                         const OpOptions& options, std::uint32_t root = 0) {
  return RequestOf(kind, input, output, count, dtype, ReduceOp::kSum, options, root);
}

// What a codec encodes together does not reach from one tensor into the next.
Result<internal::Request> ManyRequest(const std::vector<Tensor>& tensors, DType dtype, ReduceOp op,
                                      const OpOptions& options) {
  const std::size_t align = options.codec == Codec::kNone ? 1 : std::max<std::size_t>(options.codec.block, 1);
  auto list = internal::TensorList::Make(tensors, std::max<std::size_t>(SizeOf(dtype), 1), align);
  if (!list.ok()) return list.status();
  internal::Request request = RequestOf(OpKind::kAllReduce, nullptr, nullptr, list->count(), dtype, op, options);
  request.tensors = std::make_shared<const internal::TensorList>(std::move(*list));
  return request;
}

internal::Request AllToAllVOf(const void* input, const std::vector<Part>& sends, void* output,
                              const std::vector<std::size_t>& receives, DType dtype, const OpOptions& options) {
  internal::Request request = Moving(OpKind::kAllToAllV, input, output, 0, dtype, options);
  // Lists of different lengths fit no world.
  for (std::size_t rank = 0; rank < std::max(sends.size(), receives.size()); ++rank) {
    if (rank >= std::min(sends.size(), receives.size())) return request.counts.clear(), request;
    request.counts.push_back({receives[rank], sends[rank].begin, sends[rank].count});
  }
  return request;
}

internal::Request WithCounts(internal::Request request, const std::vector<std::size_t>& counts) {
  for (const std::size_t count : counts) request.counts.push_back({count, 0, 0});
  return request;
}

}  // namespace

// Programs compiled against other sizes, or other members in what was padding, must not load this library: its soname
// is the version's first two parts.
#if defined(__GLIBCXX__) && defined(__x86_64__) && _GLIBCXX_USE_CXX11_ABI
static_assert(RINGWAY_VERSION_CODE / 100 == 10 && sizeof(JoinOptions) == 224 && sizeof(OpOptions) == 96 &&
                  offsetof(OpOptions, priority) == 12 && sizeof(OpResult) == 128 && sizeof(Member) == 72,
              "the C++ ABI has changed: raise the version in version.h, then these numbers");
#endif

int Version() { return RINGWAY_VERSION_CODE; }

Buffer::Buffer() = default;
Buffer::Buffer(Buffer&&) noexcept = default;
Buffer& Buffer::operator=(Buffer&&) noexcept = default;
Buffer::~Buffer() = default;
Buffer::Buffer(std::shared_ptr<internal::RegionImpl> region) : region_(std::move(region)) {}

void* Buffer::data() const { return region_ ? region_->data : nullptr; }
std::size_t Buffer::size_bytes() const { return region_ ? region_->bytes : 0; }

Work::Work() = default;
Work::Work(Work&&) noexcept = default;
Work::Work(std::shared_ptr<internal::WorkImpl> impl) : impl_(std::move(impl)) {}

Work& Work::operator=(Work&& other) noexcept {
  if (this == &other) return *this;
  if (impl_) impl_->session->Detach(impl_->operation);
  impl_ = std::move(other.impl_);
  return *this;
}

Work::~Work() {
  if (impl_) impl_->session->Detach(impl_->operation);
}

Result<OpResult> Work::Wait(Milliseconds timeout) {
  if (!impl_) return NoHandle();
  return internal::NoThrow([&] { return impl_->session->Wait(&impl_->operation, impl_->session->Within(timeout)); });
}

Result<std::size_t> Work::WaitAny(const std::vector<Work*>& works, Milliseconds timeout) {
  return internal::NoThrow([&]() -> Result<std::size_t> {
    if (works.empty()) return Status(Code::kInvalidArgument, "WaitAny of no works");
    std::vector<internal::Operation*> operations;
    for (const Work* const work : works) {
      if (work == nullptr || !work->impl_) return NoHandle();
      if (work->impl_->session != works[0]->impl_->session) {
        return Status(Code::kInvalidArgument, "WaitAny of works of different sessions; wait in a thread for each");
      }
      operations.push_back(&work->impl_->operation);
    }
    auto& session = *works[0]->impl_->session;
    return session.WaitAny(operations, session.Within(timeout));
  });
}

bool Work::Test() { return !impl_ || impl_->session->Test(&impl_->operation); }

Status Work::WaitOnStream(void* stream, Milliseconds timeout) {
  if (!impl_) return NoHandle();
  return internal::NoThrow(
      [&] { return impl_->session->WaitOnStream(&impl_->operation, stream, impl_->session->Within(timeout)); });
}

Status Work::Cancel() {
  if (!impl_) return NoHandle();
  return internal::NoThrow([&] { return impl_->session->Cancel(impl_->operation); });
}

Status Work::SetDeadline(Milliseconds after) {
  if (!impl_) return NoHandle();
  return internal::NoThrow([&] { return impl_->session->SetDeadline(impl_->operation, after); });
}

Session::Session(std::shared_ptr<internal::SessionImpl> impl) : impl_(std::move(impl)) {}

Session::~Session() {
  if (impl_) impl_->Abandon();
}

Result<std::unique_ptr<Session>> Session::Join(const JoinOptions& options) {
  return internal::NoThrow([&]() -> Result<std::unique_ptr<Session>> {
    auto impl = internal::SessionImpl::Join(options);
    if (!impl.ok()) return impl.status();
    return std::unique_ptr<Session>(new Session(std::move(impl.value())));
  });
}

Result<Buffer> Session::Allocate(std::size_t bytes) {
  return internal::NoThrow([&] { return impl_->Allocate(bytes); });
}

Result<Work> Session::AllReduceAsync(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                                     const OpOptions& options) {
  return internal::NoThrow(
      [&] { return impl_->Start(RequestOf(OpKind::kAllReduce, input, output, count, dtype, op, options)); });
}

Result<Work> Session::AllReduceManyAsync(const std::vector<Tensor>& tensors, DType dtype, ReduceOp op,
                                         const OpOptions& options) {
  return internal::NoThrow([&]() -> Result<Work> {
    auto request = ManyRequest(tensors, dtype, op, options);
    return request.ok() ? impl_->Start(*request) : request.status();
  });
}

Result<Work> Session::AllGatherAsync(const void* input, std::size_t count, void* output, std::size_t output_count,
                                     DType dtype, const OpOptions& options) {
  return internal::NoThrow([&] {
    auto request = Moving(OpKind::kAllGather, input, output, count, dtype, options);
    request.output_room = output_count;
    return impl_->Start(request);
  });
}

Result<Work> Session::ReduceScatterAsync(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                                         const OpOptions& options) {
  return internal::NoThrow(
      [&] { return impl_->Start(RequestOf(OpKind::kReduceScatter, input, output, count, dtype, op, options)); });
}

Result<Work> Session::BroadcastAsync(void* data, std::size_t count, DType dtype, std::uint32_t root,
                                     const OpOptions& options) {
  return internal::NoThrow(
      [&] { return impl_->Start(Moving(OpKind::kBroadcast, data, data, count, dtype, options, root)); });
}

Result<Work> Session::ReduceAsync(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                                  std::uint32_t root, const OpOptions& options) {
  return internal::NoThrow(
      [&] { return impl_->Start(RequestOf(OpKind::kReduce, input, output, count, dtype, op, options, root)); });
}

Result<Work> Session::GatherAsync(const void* input, std::size_t count, void* output, std::size_t output_count,
                                  DType dtype, std::uint32_t root, const OpOptions& options) {
  return internal::NoThrow([&] {
    auto request = Moving(OpKind::kGather, input, output, count, dtype, options, root);
    request.output_room = output_count;
    return impl_->Start(request);
  });
}

Result<Work> Session::ScatterAsync(const void* input, std::size_t input_count, void* output, std::size_t count,
                                   DType dtype, std::uint32_t root, const OpOptions& options) {
  return internal::NoThrow([&] {
    auto request = Moving(OpKind::kScatter, input, output, count, dtype, options, root);
    request.input_room = input_count;
    return impl_->Start(request);
  });
}

Result<Work> Session::AllToAllAsync(const void* input, void* output, std::size_t count, DType dtype,
                                    const OpOptions& options) {
  return internal::NoThrow([&] {
    auto request = Moving(OpKind::kAllToAll, input, output, count, dtype, options);
    request.input_room = count;  // the world decides what a part is
    return impl_->Start(request);
  });
}

Result<Work> Session::AllToAllVAsync(const void* input, const std::vector<Part>& sends, void* output,
                                     const std::vector<std::size_t>& receives, DType dtype, const OpOptions& options) {
  return internal::NoThrow([&] { return impl_->Start(AllToAllVOf(input, sends, output, receives, dtype, options)); });
}

Result<Work> Session::AllGatherVAsync(const void* input, void* output, const std::vector<std::size_t>& counts,
                                      DType dtype, const OpOptions& options) {
  return internal::NoThrow(
      [&] { return impl_->Start(WithCounts(Moving(OpKind::kAllGatherV, input, output, 0, dtype, options), counts)); });
}

Result<Work> Session::ReduceScatterVAsync(const void* input, void* output, const std::vector<std::size_t>& counts,
                                          DType dtype, ReduceOp op, const OpOptions& options) {
  return internal::NoThrow([&] {
    return impl_->Start(WithCounts(RequestOf(OpKind::kReduceScatterV, input, output, 0, dtype, op, options), counts));
  });
}

Result<Work> Session::SendAsync(const void* data, std::size_t count, DType dtype, std::uint32_t to, std::uint32_t tag,
                                const OpOptions& options) {
  return internal::NoThrow([&] {
    auto request = Moving(OpKind::kSend, data, nullptr, count, dtype, options, to);
    request.spec.tag = tag;
    return impl_->Start(request);
  });
}

Result<Work> Session::RecvAsync(void* data, std::size_t count, DType dtype, std::uint32_t from, std::uint32_t tag,
                                const OpOptions& options) {
  return internal::NoThrow([&] {
    auto request = Moving(OpKind::kRecv, nullptr, data, count, dtype, options, from);
    request.spec.tag = tag;
    return impl_->Start(request);
  });
}

Result<Work> Session::BarrierAsync(const OpOptions& options) {
  return internal::NoThrow(
      [&] { return impl_->Start(Moving(OpKind::kBarrier, nullptr, nullptr, 0, DType::kU8, options)); });
}

Result<OpResult> Session::Finish(Result<Work> work) {
  return internal::NoThrow([&]() -> Result<OpResult> { return work.ok() ? work->Wait() : work.status(); });
}

Result<OpResult> Session::UpdateView(Milliseconds timeout) {
  return internal::NoThrow([&] { return impl_->UpdateView(impl_->Within(timeout)); });
}

Status Session::Leave(Milliseconds timeout) {
  return internal::NoThrow([&] { return impl_->Leave(impl_->Within(timeout)); });
}

void Session::Abort() {
  // A woken thread may destroy the Session before this returns.
  const std::shared_ptr<internal::SessionImpl> session = impl_;
  session->Abandon();
}

Result<std::vector<Member>> Session::Members() const {
  return internal::NoThrow([&] { return impl_->Members(); });
}

std::uint64_t Session::peer_id() const { return impl_->view().peer_id; }
std::uint32_t Session::rank() const { return impl_->view().rank; }
std::uint32_t Session::world_size() const { return impl_->view().world_size; }
std::uint64_t Session::epoch() const { return impl_->view().epoch; }

}  // namespace ringway
