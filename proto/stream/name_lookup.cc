#include "proto/stream/name_lookup.h"

#include <netdb.h>
#include <sys/socket.h>

#include <asio/post.hpp>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "proto/device/signals_blocked.h"

namespace ringway::net {

std::string LookupErrorText(int error) {
  return error == EAI_SYSTEM ? std::generic_category().message(errno) : ::gai_strerror(error);
}

namespace {

Result<std::vector<SocketAddress>> AddressesOf(const Endpoint& where) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(where.host.c_str(), std::to_string(where.port).c_str(), &hints, &found);
  if (error != 0) return Status(Code::kIo, LookupErrorText(error));
  std::vector<SocketAddress> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    addresses.push_back(AddressOf(one->ai_addr, one->ai_addrlen));
  }
  ::freeaddrinfo(found);
  return addresses;
}

// The process's thread for lookups. Any thread may add.
class Worker {
 public:
  // Never destroyed: its thread may be busy when the process ends.
  static Worker& Get() {
    static Worker* const worker = new Worker;
    return *worker;
  }

  // kResourceExhausted where too many wait, or the system has no thread.
  Status Add(std::function<void()> look_up) {
    const std::scoped_lock lock(mutex_);
    if (waiting_.size() >= NameLookup::kWaitingMax) {
      return {Code::kResourceExhausted, "too many names wait for their addresses"};
    }
    if (Status status = StartThread(); !status.ok()) return status;
    waiting_.push_back(std::move(look_up));
    added_.notify_one();
    return Status::Ok();
  }

 private:
  // The next lookup tries again where this fails.
  Status StartThread() {
    if (has_thread_) return Status::Ok();
    try {
      const device::SignalsBlocked blocked;
      std::thread([this] { Run(); }).detach();
      has_thread_ = true;
      return Status::Ok();
    } catch (const std::system_error& error) {
      return {Code::kResourceExhausted, "cannot start a thread to look up names: " + error.code().message() +
                                            "; raise the limit of threads (TasksMax of systemd, ulimit -u)"};
    }
  }
  [[noreturn]] void Run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      added_.wait(lock, [this] { return !waiting_.empty(); });
      const std::function<void()> look_up = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      look_up();
    }
  }

  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<std::function<void()>> waiting_;
  bool has_thread_ = false;
};

}  // namespace

// The callers that wait for an answer. Their callbacks stay on the loop's thread; the worker only knows their numbers.
class NameLookup::Answers : public std::enable_shared_from_this<Answers> {
 public:
  explicit Answers(asio::io_context& loop) : loop_(&loop) {}

  // ---- the loop's thread
  void Expect(std::uint64_t number, Done done) {
    const std::scoped_lock lock(mutex_);
    waiting_[number] = std::move(done);
  }
  void Forget(std::uint64_t number) { (void)Take(number); }
  void Give(std::uint64_t number, Result<std::vector<SocketAddress>> found) {
    if (const Done done = Take(number)) done(std::move(found));
  }
  // The loop ends.
  void Close() {
    std::map<std::uint64_t, Done> waiting;  // destroyed without the lock
    const std::scoped_lock lock(mutex_);
    loop_ = nullptr;
    waiting.swap(waiting_);
  }

  // ---- any thread
  bool IsWanted(std::uint64_t number) {
    const std::scoped_lock lock(mutex_);
    return waiting_.contains(number);
  }
  void Post(std::uint64_t number, Result<std::vector<SocketAddress>> found) {
    const std::scoped_lock lock(mutex_);  // so that the loop stays
    if (loop_ == nullptr) return;
    asio::post(*loop_, [self = shared_from_this(), number, found = std::move(found)]() mutable {
      self->Give(number, std::move(found));
    });
  }

 private:
  Done Take(std::uint64_t number) {
    const std::scoped_lock lock(mutex_);
    const auto found = waiting_.extract(number);
    return found ? std::move(found.mapped()) : Done();
  }

  std::mutex mutex_;
  asio::io_context* loop_;  // null once it ends
  std::map<std::uint64_t, Done> waiting_;
};

NameLookup::NameLookup(asio::execution_context& loop)
    : service(loop), answers_(std::make_shared<Answers>(static_cast<asio::io_context&>(loop))) {}

std::uint64_t NameLookup::Start(const Endpoint& where, Done done) {
  const std::uint64_t number = next_++;
  answers_->Expect(number, std::move(done));
  const Status added = Worker::Get().Add([answers = answers_, number, where] {
    if (answers->IsWanted(number)) answers->Post(number, AddressesOf(where));
  });
  if (!added.ok()) answers_->Post(number, added);
  return number;
}

void NameLookup::Cancel(std::uint64_t number) { answers_->Forget(number); }

void NameLookup::shutdown() { answers_->Close(); }

}  // namespace ringway::net
