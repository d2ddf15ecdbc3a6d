#include "daemon/net/lane_threads.h"

#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>

#include "daemon/net/stream_lane.h"
#include "daemon/net/threaded_lane.h"

namespace ringway::net {

LaneThread::LaneThread() : waits_for_work_(context_.get_executor()) {
  // Makes the loop open its epoll now: descriptors may have run out when the first lane comes.
  const asio::posix::stream_descriptor first(context_);
  thread_ = std::thread([this] { context_.run(); });
}

LaneThread::~LaneThread() { Stop(); }

void LaneThread::Stop() {
  if (!thread_.joinable()) return;
  asio::post(context_, [this] { context_.stop(); });
  thread_.join();
}

LaneThreads::LaneThreads(asio::io_context& home, std::size_t count) : home_(home), home_bell_(home) {
  for (std::size_t i = 0; i < count; ++i) threads_.push_back(std::make_unique<LaneThread>());
}

LaneThreads::~LaneThreads() {
  for (const auto& thread : threads_) thread->Stop();
}

std::shared_ptr<Lane> LaneThreads::MakeLane(const LaneLabel& label, std::uint32_t send_payload_bytes_max) {
  if (threads_.empty() || send_payload_bytes_max < kPayloadBytesMax) {
    return std::make_shared<StreamLane>(home_, home_pool_, label, send_payload_bytes_max);
  }
  // Spreads the lanes of all pairs, many of which have only one such lane.
  LaneThread& thread = *threads_[(label.link.other.value + label.link.lane.value) % threads_.size()];
  return std::make_shared<ThreadedLane>(home_bell_, thread, label, send_payload_bytes_max);
}

}  // namespace ringway::net
