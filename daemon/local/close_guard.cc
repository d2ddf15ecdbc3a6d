#include "daemon/local/close_guard.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

namespace ringway::local {
namespace {

int Signal() { return SIGRTMIN; }

// Once for the process; without SA_RESTART.
bool TakeSignal() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  return ::sigaction(Signal(), &action, nullptr) == 0;
}

class ThreadTimer {
 public:
  ThreadTimer() = default;
  ~ThreadTimer() {
    if (is_made_) ::timer_delete(id_);
  }
  ThreadTimer(const ThreadTimer&) = delete;
  ThreadTimer& operator=(const ThreadTimer&) = delete;

  void Begin() {
    if (guards_++ == 0) Set(CloseGuard::kPatience);
  }
  void End() {
    if (--guards_ == 0) Set({});
  }

 private:
  // A user may have no signal left for a while (RLIMIT_SIGPENDING): the next guard tries again.
  void Make() {
    static const bool is_taken = TakeSignal();
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, Signal());
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = Signal();
    event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
    is_made_ = is_taken && ::pthread_sigmask(SIG_UNBLOCK, &ours, nullptr) == 0 &&
               ::timer_create(CLOCK_MONOTONIC, &event, &id_) == 0;
  }
  void Set(std::chrono::nanoseconds period) {
    if (!is_made_) Make();
    itimerspec spec{};
    spec.it_value.tv_nsec = spec.it_interval.tv_nsec = period.count();
    if (is_made_) ::timer_settime(id_, 0, &spec, nullptr);
  }

  bool is_made_ = false;
  timer_t id_{};
  int guards_ = 0;  // that live
};

ThreadTimer& OfThisThread() {
  static thread_local ThreadTimer timer;
  return timer;
}

}  // namespace

CloseGuard::CloseGuard() { OfThisThread().Begin(); }

CloseGuard::~CloseGuard() { OfThisThread().End(); }

}  // namespace ringway::local
