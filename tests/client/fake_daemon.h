// A daemon of one peer that speaks the local ABI over a real socket, for tests of the client library alone.
//
// It answers Hello and Join as its settings say and completes operations with `result byte = input byte + increment`,
// so that a test can tell a result from its input. One session at a time, on its own thread; tests look at it and steer
// it from theirs.
#pragma once

#include <ringway/types.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "proto/local_abi.h"

namespace ringway::testing {

class FakeDaemon {
 public:
  // The algorithm that is reported for operations that asked for none.
  static constexpr Algorithm kPlansChoice = Algorithm::kDirect;

  struct Behaviour {
    Code hello_code = Code::kOk;
    std::uint32_t version = abi::kVersion;
    Code join_code = Code::kOk;
    std::string join_text = {};
    Code progress_code = Code::kOk;
    std::string join_progress = {};  // sent before the reply, if not empty
    bool answers_hello = true;
    bool answers_join = true;
    bool answers_leave = true;
    unsigned increment = 1;  // result byte = input byte + increment
    bool holds = false;      // operations stay submitted until CompleteHeld, FailHeld
    std::uint32_t regions_mib_max = 0;
  };

  // The events so far. Guarded: read it through Look or WaitUntil.
  struct Seen {
    std::vector<abi::Submit> submits;
    std::vector<std::uint64_t> progress;  // staged_bytes at each Progress packet
    std::vector<std::uint32_t> cancels;
    std::vector<std::uint64_t> region_bytes;
    std::uint32_t unregistered = 0;
    std::uint32_t joins = 0;
    std::uint32_t leaves = 0;
    std::uint32_t disconnects = 0;
    bool seals_were_right = true;
    std::string group;
  };

  explicit FakeDaemon(Behaviour behaviour);
  FakeDaemon() : FakeDaemon(Behaviour()) {}
  ~FakeDaemon();
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  const std::string& socket_path() const { return path_; }
  Seen Look();
  // False if it did not happen within half a minute.
  bool WaitUntil(const std::function<bool(const Seen&)>& condition);

  // Results come without this rank's inputs, even of an operation that is cancelled.
  void SetLate(bool late, bool kept = false);

  // Each is done when the call returns, but for operations whose input is not whole: they are completed once it is.
  void CompleteHeld();
  void FailHeld(Code code, const std::string& text);
  // The regions that come next are of no use for as long as they are registered, as where there is no room for them.
  void SetRefusesRegions(bool refuses);
  void SetHolds(bool holds);
  void SendEnded(Code code, const std::string& text);
  void Die();       // closes the session without a word; another instance takes the next
  void Drop();      // the same, but stays who it is
  void GoAway();    // the same, but nobody listens until ComeBack
  void ComeBack();  // on the same path

  void SetJoin(Code code, bool answers = true);

  // Sets what the next results and memberships say. The first member is peer 77, the next of this daemon 78, and so on.
  void SetWorld(std::uint64_t epoch, std::uint32_t rank, std::uint32_t world_size);

 private:
  struct Mapped {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    bool is_refused = false;
  };

  void Listen();
  void Loop();
  void AcceptOne();
  void ReadOne();
  void Handle(const std::byte* packet, int descriptor);
  void HandleHello(int descriptor);
  void HandleJoin(const abi::Join& join);
  void HandleRegister(const abi::RegisterRegion& packet, int descriptor);
  void HandleSubmit(const abi::Submit& submit);
  void HandleProgress(const abi::Progress& progress);
  void CompleteIfWhole(std::uint32_t slot);
  void Complete(const abi::Submit& submit);
  bool IsRefused(const abi::Submit& submit) const;
  void Finish(std::uint32_t slot, Code code, const std::string& text, bool refused = false);
  void Disconnect();
  void Run(std::function<void()> action);
  template <typename T>
  void Send(const T& packet);

  Behaviour behaviour_;
  std::string directory_;
  std::string path_;
  int listener_ = -1;
  int wake_ = -1;

  // Only the daemon's thread uses these.
  int connection_ = -1;
  abi::SessionPage* page_ = nullptr;
  std::map<std::uint32_t, Mapped> regions_;
  std::map<std::uint32_t, abi::Submit> open_;  // by slot
  std::set<std::uint32_t> released_;           // of their slots, those that are not held any more
  bool refuses_regions_ = false;
  bool is_late_ = false;
  bool is_kept_ = false;
  std::uint64_t instance_ = 1;
  std::uint64_t epoch_ = 1;
  std::uint32_t rank_ = 0;
  std::uint32_t world_size_ = 1;

  std::mutex mutex_;
  std::condition_variable changed_;
  Seen seen_;
  std::vector<std::function<void()>> actions_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ringway::testing
