#include "daemon/local/foreign_files.h"

#include <thread>

namespace ringway::local {

ForeignFiles::~ForeignFiles() {
  if (queue_ == nullptr) return;
  const std::scoped_lock lock(queue_->mutex);
  queue_->is_over = true;
  queue_->changed.notify_one();
}

void ForeignFiles::Close(net::UniqueFd fd, std::uint32_t user) {
  if (queue_ == nullptr) {
    queue_ = std::make_shared<Queue>();
    std::thread([queue = queue_] { Serve(*queue); }).detach();
  }
  const std::scoped_lock lock(queue_->mutex);
  queue_->files.emplace_back(std::move(fd), user);
  ++queue_->open[user];
  queue_->changed.notify_one();
}

bool ForeignFiles::HasTooMany(std::uint32_t user) const {
  if (queue_ == nullptr) return false;
  const std::scoped_lock lock(queue_->mutex);
  const auto found = queue_->open.find(user);
  return found != queue_->open.end() && found->second >= kOpenMax;
}

void ForeignFiles::Serve(Queue& queue) {
  std::unique_lock lock(queue.mutex);
  for (;;) {
    queue.changed.wait(lock, [&] { return queue.is_over || !queue.files.empty(); });
    if (queue.files.empty()) return;
    auto [fd, user] = std::move(queue.files.front());
    queue.files.pop_front();
    lock.unlock();
    fd.Reset();
    lock.lock();
    const auto found = queue.open.find(user);
    if (--found->second == 0) queue.open.erase(found);
  }
}

}  // namespace ringway::local
