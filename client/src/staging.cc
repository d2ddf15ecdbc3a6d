// The part of a session that is about device memory: inputs to their regions, results from theirs, and the streams that
// wait for results.
#include <algorithm>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "client/src/session.h"
#include "proto/device/signals_blocked.h"

namespace ringway::internal {
namespace {

using Output = DevicePart::Output;

// How often its patience a copy may be kept out of the driver by a thread that waits for a stream.
constexpr int kKeptOut = 30;

constexpr Milliseconds kFinisherLinger = std::chrono::seconds(10);

std::byte* OutputAt(const Operation& operation, const Part& part) {
  return static_cast<std::byte*>(operation.output) + part.begin * SizeOf(operation.spec.dtype);
}

Error InputFailed(const std::string& why) {
  return Error(Code::kDeviceFailed, "the input could not be read from the device: " + why +
                                        "; the operation was cancelled on all ranks, the session goes on");
}

// The others have a result that this rank has not, and go on with it: only a newcomer takes their state.
Error OutOfStep(const std::string& why) {
  return Error(Code::kDeviceFailed,
               "the result did not reach the device: " + why +
                   "; the others have it and the output is unspecified: join again and take the state from them");
}

}  // namespace

void SessionImpl::CopyInput(const Request& request, Region* region, const Operation& operation) {
  const std::size_t bytes = request.input_bytes();
  {
    const Lock lock(mutex_);
    BeginCopy(lock, operation, region);
    operation.device->reads_input = true;
  }
  const DevicePart& part = *operation.device;
  device::CopyJob job;
  job.direction = device::Direction::kToHost;
  job.device = *part.input;
  job.to = region->data();
  job.from = request.input;
  job.bytes = bytes;
  job.after = part.submitted;
  const auto report = [self = shared_from_this(), operation, region, bytes](std::size_t arrived, const Error& error) {
    self->OnInput(operation, region, arrived, bytes, error);
  };
  const auto start = [&part](const device::CopyJob& copy) { return part.library->Start(copy); };
  if (Error error = StartCopy(start, job, report); !error.ok()) OnInput(operation, region, 0, bytes, error);
}

// A copy uses its region until its last report, however the operation ends.
void SessionImpl::BeginCopy(const Lock& /*lock*/, const Operation& operation, Region* region) {
  copies_.push_back(operation.device);
  pool_.AddUser(region);
}

void SessionImpl::EndCopy(const Lock& lock, const DevicePart* part, Region* region) {
  pool_.Release(region);
  const auto found = std::find_if(copies_.begin(), copies_.end(), [&](const auto& one) { return one.get() == part; });
  if (found != copies_.end()) copies_.erase(found);
  TrimPool(lock);
  WakeAll(lock);
}

// For changes that no packet announces: also wakes the leader.
void SessionImpl::WakeAll(const Lock& /*lock*/) {
  changed_.notify_all();
  if (link_->reading) link_->socket.Wake();
}

void SessionImpl::OnInput(const Operation& operation, Region* region, std::size_t arrived, std::size_t bytes,
                          const Error& error) {
  Link* const link = operation.link.get();
  const bool is_last = !error.ok() || arrived == bytes;
  {
    const Lock lock(mutex_);
    DevicePart& part = *operation.device;
    const bool concerns = part.has_slot;
    if (concerns && error.ok()) link->slot(operation.slot).staged_bytes.store(arrived, std::memory_order_release);
    if (concerns && !error.ok()) part.input_error = InputFailed(error.text());
    if (is_last) {
      part.reads_input = false;
      EndCopy(lock, &part, region);
    }
    if (!concerns || !link->end.ok() || (error.ok() && arrived == 0)) return;
  }
  const Error sent =
      error.ok() ? SendProgress(link, operation.slot, is_last) : SendCancel(operation, Deadline(kSendPatience));
  if (!sent.ok()) Lose(link, sent);
}

void SessionImpl::CopyOutput(Lock* lock, Operation* operation) {
  DevicePart& part = *operation->device;
  operation->read = ReadOutcome(*operation);
  const Part result = operation->read->ok() ? operation->read->value().part : Part();
  if (!part.output || result.count == 0) {
    part.output_state = Output::kOver;
    return;
  }
  part.output_state = Output::kCopying;
  part.copying_since = Deadline::Clock::now();
  const std::shared_ptr<HeldStream> hold = part.hold;
  // Of a copy of its own the marked work is done: the input was read after it.
  if (part.input && hold == nullptr) part.moved_at = part.copying_since;
  Region* const region = operation->link->owners[operation->slot].result;
  BeginCopy(*lock, *operation, region);
  lock->unlock();
  device::CopyJob job;
  job.direction = device::Direction::kToDevice;
  job.device = *part.output;
  job.to = OutputAt(*operation, result);
  job.from = region->data() + result.begin * SizeOf(operation->spec.dtype);
  job.bytes = result.count * SizeOf(operation->spec.dtype);
  job.after = part.submitted;
  const auto report = [self = shared_from_this(), copied = *operation, region, bytes = job.bytes](std::size_t arrived,
                                                                                                  const Error& error) {
    self->OnOutput(copied, region, !error.ok() || arrived == bytes, error);
  };
  const auto start = [&](const device::CopyJob& copy) {
    if (hold == nullptr) return part.library->Start(copy);
    hold->Release(copy);
    return device::Status();
  };
  if (const Error error = StartCopy(start, job, report); !error.ok()) report(0, error);
  lock->lock();
}

void SessionImpl::OnOutput(const Operation& operation, Region* region, bool is_last, const Error& error) {
  DevicePart* const part = operation.device.get();
  Lock lock(mutex_);
  part->moved_at = Deadline::Clock::now();
  if (!is_last) return;
  EndCopy(lock, part, region);
  if (part->output_state == Output::kCopying) {  // else it was given up
    part->output_state = Output::kOver;
    if (!error.ok()) part->output_error = OutOfStep(error.text());
  }
  if (part->is_deferred) EndDeferred(&lock, part);
}

// Work that the copy comes after may last; but nobody waits for that once the session has ended.
void SessionImpl::GiveUpHungOutput(const Lock& /*lock*/, DevicePart* part) const {
  const Milliseconds patience = part->library->patience();
  if (part->output_state != Output::kCopying || (!part->moved_at && end_.ok())) return;
  auto since = part->moved_at.value_or(part->copying_since);
  // While a stream waited, it had perhaps no driver.
  if (part->hold == nullptr) since = std::max(since, std::min(HeldStream::NoneSince(), since + kKeptOut * patience));
  if (Deadline::Clock::now() - since < patience) return;
  part->output_state = Output::kOver;
  part->output_error = OutOfStep("nothing of it was copied for " + std::to_string(patience.count()) + " ms");
}

void SessionImpl::GiveUpHungCopies(const Lock& lock, Link* link) {
  for (const std::shared_ptr<DevicePart>& part : copies_) {
    GiveUpHungOutput(lock, part.get());
    if (part->output_error.ok()) continue;
    const Error why = part->output_error;  // whose copy may yet write
    return End(lock, link, why);
  }
}

Error SessionImpl::AwaitOutput(Lock* lock, Operation* operation, const Deadline& deadline) {
  DevicePart& part = *operation->device;
  if (part.output_state == Output::kNone) CopyOutput(lock, operation);
  while (part.output_state == Output::kCopying) {
    const Waited waited = WaitForChange(lock, deadline.Within(kHungCheck));
    GiveUpHungOutput(*lock, &part);
    if (part.output_state != Output::kCopying) break;
    if (waited == Waited::kInterrupted || deadline.HasPassed()) {
      return Error(waited == Waited::kInterrupted ? Code::kInterrupted : Code::kTimeout,
                   "the result is being copied to the device: wait again");
    }
  }
  return {};
}

Error SessionImpl::AwaitFinisher(Lock* lock, const Deadline& deadline, const std::function<bool()>& ready) {
  while (!ready()) {
    const Waited waited = WaitForChange(lock, deadline);
    if (waited == Waited::kChange || ready()) continue;
    return Error(waited == Waited::kInterrupted ? Code::kInterrupted : Code::kTimeout,
                 "the operation goes on, and the streams wait for it: wait again or cancel it");
  }
  return {};
}

Expected<OpResult> SessionImpl::AwaitDeferred(Lock* lock, const Operation& operation, const Deadline& deadline) {
  const DevicePart* const part = operation.device.get();
  const Error error = AwaitFinisher(lock, deadline, [part] { return part->outcome.has_value(); });
  if (!error.ok()) return error;
  if (!part->outcome->ok()) return TellDeferred(*lock, operation);
  return *part->outcome;
}

Error SessionImpl::TellDeferred(const Lock& lock, const Operation& operation) {
  if (std::exchange(operation.device->has_untold_refusal, false)) {
    ++operation.link->refusals_told.at(operation.spec.channel);
  }
  return Tell(lock, operation.device->outcome->error());
}

Error SessionImpl::WaitOnStream(Operation* operation, device::Stream stream, const Deadline& deadline) {
  if (Forked()) return ForkedError();
  const std::shared_ptr<DevicePart> part = operation->device;
  if (operation->output != nullptr && (!part || !part->output)) {
    return Error(Code::kInvalidArgument, "the output is in host memory, which no stream waits for: call Wait");
  }
  if (!part) return {};  // a rank without a result has nothing to wait for
  if (operation->outcome) return operation->outcome->error();
  Lock lock(mutex_);
  if (Error error = AwaitInputs(&lock, *operation, deadline); !error.ok()) return error;
  if (!part->output) return {};
  const std::shared_ptr<HeldStream> earlier = part->hold;
  if (part->outcome) return part->outcome->ok() ? Error() : TellDeferred(lock, *operation);
  const bool is_copied_already = part->output_state != Output::kNone && !earlier;
  const Region* const result = operation->link->owners[operation->slot].result;
  lock.unlock();
  std::shared_ptr<device::Hold> hold;
  device::Status held = {.code = Code::kNotSupported};
  if (earlier) {
    held = earlier->AddStream(stream);
  } else if (!is_copied_already) {
    held = part->library->HoldStream(*part->output, stream, part->submitted, result->data(), &hold);
  }
  if (held.code == Code::kNotSupported) return Wait(operation, deadline).error();
  if (!held.ok() || earlier) return BeforeSubmission(held);
  lock.lock();
  return Defer(&lock, *operation, std::move(hold));
}

Error SessionImpl::Defer(Lock* lock, const Operation& operation, std::shared_ptr<device::Hold> hold) {
  const std::shared_ptr<DevicePart> part = operation.device;
  if (Error error = StartFinisher(*lock); !error.ok()) return error;
  deferred_.push_back(operation);
  part->is_deferred = true;
  part->hold = std::make_shared<HeldStream>(std::move(hold));
  if (MayAdvance(operation)) Advance(lock, part);  // its doorbell may have come already
  WakeAll(*lock);
  return part->outcome && !part->outcome->ok() ? TellDeferred(*lock, operation) : Error();
}

// Reading inputs needs the driver, which a thread that waits for a held stream may keep from all others. So a stream is
// held only once its operation, and those before that it may have to wait for, need the driver no more.
Error SessionImpl::AwaitInputs(Lock* lock, const Operation& operation, const Deadline& deadline) {
  const DevicePart& own = *operation.device;
  const auto concerns = [&own](const std::shared_ptr<DevicePart>& part) {
    return part->reads_input && part->number <= own.number;
  };
  const auto is_over = [&] {
    const bool is_decided = own.outcome || IsSettled(operation) || !IsOpen(*operation.link);  // nothing is held long
    return is_decided || std::none_of(copies_.begin(), copies_.end(), concerns);
  };
  Error error = Await(lock, operation.link.get(), deadline, is_over);
  if (error.code() != Code::kTimeout) return error;
  return Error(Code::kTimeout, "inputs are still being read: call again, or Wait");
}

Error SessionImpl::StartFinisher(const Lock& /*lock*/) {
  if (has_finisher_) return {};
  try {
    const device::SignalsBlocked blocked;
    std::thread([self = shared_from_this()] { self->FinishDeferred(); }).detach();
    has_finisher_ = true;
    return {};
  } catch (const std::exception& exception) {
    return Error(Code::kResourceExhausted, std::string("no thread to finish the operation: ") + exception.what());
  }
}

bool SessionImpl::MayAdvance(const Operation& operation) const {
  const DevicePart& part = *operation.device;
  if (part.output_state != Output::kNone) return part.output_state == Output::kOver;
  return IsSettled(operation) || !IsOpen(*operation.link);
}

void SessionImpl::Advance(Lock* lock, const std::shared_ptr<DevicePart>& part) {
  const auto found = FindDeferred(*part);
  if (found == deferred_.end()) return;
  if (part->output_state == Output::kNone && IsSettled(*found)) CopyOutput(lock, &*found);
  if (part->output_state != Output::kCopying) EndDeferred(lock, part.get());
}

std::list<Operation>::iterator SessionImpl::FindDeferred(const DevicePart& part) {
  return std::find_if(deferred_.begin(), deferred_.end(),
                      [&](const Operation& operation) { return operation.device.get() == &part; });
}

void SessionImpl::EndDeferred(Lock* lock, DevicePart* part) {
  const auto found = FindDeferred(*part);
  if (found == deferred_.end()) return;
  Operation operation = std::move(*found);
  deferred_.erase(found);
  part->outcome = Finish(&operation, lock, operation.read ? Error() : LossOf(*lock));
  if (part->hold) part->hold->GoOn();  // others may have it, too
  part->hold.reset();
  WakeAll(*lock);
}

void SessionImpl::FinishDeferred() {
  Lock lock(mutex_);
  const auto may_advance = [this](const Operation& operation) { return MayAdvance(operation); };
  const auto is_copying = [](const Operation& x) { return x.device->output_state == Output::kCopying; };
  while (end_.ok() || !deferred_.empty()) {
    for (const Operation& operation : deferred_) GiveUpHungOutput(lock, operation.device.get());
    const auto next = std::find_if(deferred_.begin(), deferred_.end(), may_advance);
    if (next != deferred_.end()) {
      Advance(&lock, std::shared_ptr<DevicePart>(next->device));
    } else if (deferred_.empty()) {
      if (changed_.wait_for(lock, kFinisherLinger) == std::cv_status::timeout && deferred_.empty()) break;
    } else if (std::all_of(deferred_.begin(), deferred_.end(), is_copying)) {
      (void)WaitForChange(&lock, Deadline(kHungCheck));
    } else {
      const std::shared_ptr<Link> link = link_;
      (void)Await(&lock, link.get(), Deadline(kHungCheck),
                  [&] { return std::any_of(deferred_.begin(), deferred_.end(), may_advance); });
    }
  }
  has_finisher_ = false;
}

}  // namespace ringway::internal
