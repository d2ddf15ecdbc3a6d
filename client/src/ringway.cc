// The handles of ringway.hpp: guard against empty handles and exceptions, and forward to the session.
#include <algorithm>
#include <new>
#include <ringway/ringway.hpp>
#include <utility>

#include "client/src/session.h"
#include "client/src/tensor_list.h"

namespace ringway {
namespace {

Error NoHandle() { return Error(Code::kInvalidArgument, "this handle is empty (moved from or never set)"); }

// No exception leaves the library. Only failed allocations can throw below.
template <typename Function>
auto Guarded(Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return Error(Code::kResourceExhausted, "out of memory");
  } catch (const std::exception& exception) {
    return Error(Code::kInternal, exception.what());
  }
}

// What a codec encodes together does not reach from one tensor into the next.
Expected<internal::Request> ManyRequest(const std::vector<Tensor>& tensors, DType dtype, ReduceOp op,
                                        const OpOptions& options) {
  const std::size_t align = options.codec == Codec::kNone ? 1 : std::max<std::size_t>(options.codec.block, 1);
  auto list = internal::TensorList::Make(tensors, std::max<std::size_t>(SizeOf(dtype), 1), align);
  if (!list.ok()) return list.error();
  const std::size_t count = list->count();
  internal::Request request{nullptr, nullptr, count, count, dtype, op, options, OpKind::kAllReduce};
  request.tensors = std::make_shared<const internal::TensorList>(std::move(*list));
  return request;
}

}  // namespace

// Programs compiled against other sizes must not load this library: its soname is the version's first two parts.
#if defined(__GLIBCXX__) && defined(__x86_64__) && _GLIBCXX_USE_CXX11_ABI
static_assert(RINGWAY_VERSION_CODE / 100 == 5 && sizeof(JoinOptions) == 216 && sizeof(OpOptions) == 72 &&
                  sizeof(OpResult) == 80 && sizeof(Member) == 72,
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

Expected<OpResult> Work::Wait(Milliseconds timeout) {
  if (!impl_) return NoHandle();
  return Guarded([&] { return impl_->session->Wait(&impl_->operation, impl_->session->Within(timeout)); });
}

Expected<std::size_t> Work::WaitAny(const std::vector<Work*>& works, Milliseconds timeout) {
  return Guarded([&]() -> Expected<std::size_t> {
    if (works.empty()) return Error(Code::kInvalidArgument, "WaitAny of no works");
    std::vector<internal::Operation*> operations;
    for (const Work* const work : works) {
      if (work == nullptr || !work->impl_) return NoHandle();
      if (work->impl_->session != works[0]->impl_->session) {
        return Error(Code::kInvalidArgument, "WaitAny of works of different sessions; wait in a thread for each");
      }
      operations.push_back(&work->impl_->operation);
    }
    auto& session = *works[0]->impl_->session;
    return session.WaitAny(operations, session.Within(timeout));
  });
}

bool Work::Test() { return !impl_ || impl_->session->Test(&impl_->operation); }

Error Work::WaitOnStream(void* stream) {
  if (!impl_) return NoHandle();
  return Guarded([&] { return impl_->session->WaitOnStream(&impl_->operation, stream); });
}

Error Work::Cancel() {
  if (!impl_) return NoHandle();
  return Guarded([&] { return impl_->session->Cancel(impl_->operation); });
}

Session::Session(std::shared_ptr<internal::SessionImpl> impl) : impl_(std::move(impl)) {}

Session::~Session() { impl_->Abandon(); }

Expected<std::unique_ptr<Session>> Session::Join(const JoinOptions& options) {
  return Guarded([&]() -> Expected<std::unique_ptr<Session>> {
    auto impl = internal::SessionImpl::Join(options);
    if (!impl.ok()) return impl.error();
    return std::unique_ptr<Session>(new Session(std::move(impl.value())));
  });
}

Expected<Buffer> Session::Allocate(std::size_t bytes) {
  return Guarded([&] { return impl_->Allocate(bytes); });
}

Expected<OpResult> Session::AllReduce(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                                      const OpOptions& options) {
  return Guarded([&] { return impl_->Run({input, output, count, count, dtype, op, options, OpKind::kAllReduce}); });
}

Expected<Work> Session::AllReduceAsync(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                                       const OpOptions& options) {
  return Guarded([&] { return impl_->Start({input, output, count, count, dtype, op, options, OpKind::kAllReduce}); });
}

Expected<OpResult> Session::AllReduceMany(const std::vector<Tensor>& tensors, DType dtype, ReduceOp op,
                                          const OpOptions& options) {
  return Guarded([&]() -> Expected<OpResult> {
    auto request = ManyRequest(tensors, dtype, op, options);
    return request.ok() ? impl_->Run(*request) : request.error();
  });
}

Expected<Work> Session::AllReduceManyAsync(const std::vector<Tensor>& tensors, DType dtype, ReduceOp op,
                                           const OpOptions& options) {
  return Guarded([&]() -> Expected<Work> {
    auto request = ManyRequest(tensors, dtype, op, options);
    return request.ok() ? impl_->Start(*request) : request.error();
  });
}

Expected<OpResult> Session::AllGather(const void* input, std::size_t count, void* output, std::size_t output_count,
                                      DType dtype, const OpOptions& options) {
  return Guarded([&] {
    return impl_->Run({input, output, count, output_count, dtype, ReduceOp::kSum, options, OpKind::kAllGather});
  });
}

Expected<Work> Session::AllGatherAsync(const void* input, std::size_t count, void* output, std::size_t output_count,
                                       DType dtype, const OpOptions& options) {
  return Guarded([&] {
    return impl_->Start({input, output, count, output_count, dtype, ReduceOp::kSum, options, OpKind::kAllGather});
  });
}

Expected<OpResult> Session::ReduceScatter(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                                          const OpOptions& options) {
  return Guarded([&] { return impl_->Run({input, output, count, count, dtype, op, options, OpKind::kReduceScatter}); });
}

Expected<Work> Session::ReduceScatterAsync(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                                           const OpOptions& options) {
  return Guarded([&] {
    return impl_->Start({input, output, count, count, dtype, op, options, OpKind::kReduceScatter});
  });
}

Expected<OpResult> Session::UpdateView(Milliseconds timeout) {
  return Guarded([&] { return impl_->UpdateView(impl_->Within(timeout)); });
}

Error Session::Leave(Milliseconds timeout) {
  return Guarded([&] { return impl_->Leave(impl_->Within(timeout)); });
}

void Session::Abort() {
  // A woken thread may destroy the Session before this returns.
  const std::shared_ptr<internal::SessionImpl> session = impl_;
  session->Abandon();
}

Expected<std::vector<Member>> Session::Members() const {
  return Guarded([&] { return impl_->Members(); });
}

std::uint64_t Session::peer_id() const { return impl_->peer_id(); }
std::uint32_t Session::rank() const { return impl_->rank(); }
std::uint32_t Session::world_size() const { return impl_->world_size(); }
std::uint64_t Session::epoch() const { return impl_->epoch(); }

}  // namespace ringway
