// Copies and sums that no frame brings along, in slices:
//
//   own input     into the copy that others get (one_shot), and into the sums that wait for it
//   early frames  what came before their operation was submitted here
//   result        delivered to the trainer, where a copy is retained; then it is reported
//
// Whatever makes such work possible calls Do, which does what the slice has left, and Keep, which keeps the rest; the
// slice begins anew with each Refill. So between two of those no more than one slice is done, however many events there
// were.
//
// Ownership: the Peer's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>

#include "daemon/agreement/context.h"
#include "daemon/agreement/op_frames.h"
#include "daemon/agreement/operation.h"
#include "proto/ids.h"

namespace ringway::agreement {

class OpWork {
 public:
  // Both outlive it.
  OpWork(Context& ctx, OpFrames& frames) : ctx_(ctx), frames_(frames), slice_left_(ctx.options.slice_bytes) {}
  OpWork(const OpWork&) = delete;
  OpWork& operator=(const OpWork&) = delete;

  // The progress that a slice of work has brought an operation.
  enum class Done : std::uint8_t { kNothing, kComputed, kDelivered };
  // Works on the operation until the slice is used up.
  [[nodiscard]] Done Do(Operation& op);
  // The next slice continues with the operation, if any work is left.
  void Keep(const Operation& op);
  // The next slice looks at the operation.
  void Add(const OpName& name) { names_.insert(name); }
  void Forget(const OpName& name) { names_.erase(name); }
  void ForgetAll() { names_.clear(); }

  std::size_t size() const { return names_.size(); }
  bool has_slice() const { return slice_left_ > 0; }
  void Refill() { slice_left_ = ctx_.options.slice_bytes; }
  // Round robin. REQUIRES: size() > 0.
  OpName Next();

 private:
  bool HasLeft(const Operation& op) const;
  void DoInput(Operation& op);
  Done Deliver(Operation& op);
  void Spend(std::uint64_t bytes) { slice_left_ -= std::min(slice_left_, bytes); }

  Context& ctx_;
  OpFrames& frames_;
  std::set<OpName> names_;  // operations with copies or sums to do
  OpName cursor_;
  std::uint64_t slice_left_;  // until the next Refill
};

}  // namespace ringway::agreement
