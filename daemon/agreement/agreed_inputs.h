// Operations whose ranks agree on the inputs before they sum: with a quorum, weighted averages, and those that the
// newest members take part in without an input (Descriptor::without_from).
//
// With a quorum or weights:
//
//   at a rank       its input is whole --Offer--> first rank --Inputs--> bound to the attempt: it may start
//                   not submitted here when the inputs are decided --> goes on without an input; its trainer's
//                   submission gets the outcome (CatchUp); its input is dropped, or kept for its next one (feedback.h)
//   at the first    InputQuorum decides, once in a view
//
// Without the newest members' inputs, view and descriptor say which are in: who has submitted starts at once. The
// first whose input is in sends Inputs to those without, which go on as above whether they have submitted or not.
//
// A new view ends the attempt, and the inputs are decided anew: operations that are not submitted here, and have no
// outcome, are forgotten with it.
//
// Ownership: the Peer's. Who calls starts what may start.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/agreement/context.h"
#include "daemon/agreement/input_quorum.h"
#include "daemon/agreement/links.h"
#include "daemon/agreement/membership.h"
#include "daemon/agreement/op_table.h"
#include "daemon/agreement/operation.h"
#include "proto/control.pb.h"
#include "proto/ids.h"
#include "proto/result.h"

namespace ringway::agreement {

class AgreedInputs {
 public:
  // A trainer may be so many operations behind; then its peer leaves, and it comes back as a newcomer.
  static constexpr std::uint64_t kBehindMax = 1024;

  // All outlive it.
  AgreedInputs(Context& ctx, Links& links, OpTable& table, Membership& membership)
      : ctx_(ctx), links_(links), table_(table), membership_(membership) {}
  AgreedInputs(const AgreedInputs&) = delete;
  AgreedInputs& operator=(const AgreedInputs&) = delete;

  void OnView() { quorum_.OnView(); }
  // Returns whether its inputs are agreed on, or need not be. Else it offers its own, once that is whole.
  bool MayStart(Operation& op);
  // Returns kInvalidArgument if the trainer's submission is not of this operation, which went on without it.
  Status CheckCatchUp(const Operation& op, const Submission& submission) const;
  // Adopts the submission. Then the operation settles, if it has its outcome. `feedback`: of the submission's buffers;
  // null: none. REQUIRES: CheckCatchUp allows it.
  void CatchUp(Operation& op, Submission submission, std::shared_ptr<buffers::FeedbackBuffers> feedback);

  // ---- members. REQUIRES: from one, of the view in force.
  void OnOffer(PeerId from, const control::Offer& offer);
  // Returns the operation that may start now; null: none.
  Operation* OnInputs(PeerId from, const control::Inputs& inputs);
  // As the first rank, decides what is due. Returns the operations that may start now.
  std::vector<OpName> Decide();

 private:
  // The inputs that its descriptor says are in, of this view.
  void BindByDescriptor(Operation& op);
  collective::InputSet InputsOf(const Descriptor& descriptor) const;
  // Returns whether `from` may say that these inputs are in.
  bool MaySay(PeerId from, const Descriptor& descriptor, const collective::InputSet& inputs) const;
  Rank Self() const;
  PeerId first() const { return ctx_.view().members.front(); }
  void Offer(Operation& op);
  void Send(Operation& op);
  bool IsDecided(const OpName& name) const;
  // Returns whether honest ranks may be at it now.
  bool IsInReach(const OpName& name) const;
  // Returns whether this rank's input is said to be in, which it has not offered: there may be none.
  bool HasUnoffered(const OpName& name, const collective::InputSet& inputs) const;
  void Take(PeerId from, const OpName& name, const InputQuorum::Offer& offer);
  Operation* Bind(const OpName& name, const Descriptor& descriptor, collective::InputSet inputs);
  // Null: it leaves, for it has no room for the result, or is too far behind.
  Operation* AddUnsubmitted(const OpName& name, const Descriptor& descriptor);

  Context& ctx_;
  Links& links_;
  OpTable& table_;
  Membership& membership_;
  InputQuorum quorum_;
};

}  // namespace ringway::agreement
