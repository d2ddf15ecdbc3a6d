// Uses a store as a master does, step by step: waits until it leads, and for the outcome of each write.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "master/leadership/store.h"

namespace ringway {

class StoreUser final : public StoreSink {
 public:
  // `wait` lets the store work until the condition holds, or returns false; empty for one that answers at once.
  using Wait = std::function<bool(const std::function<bool()>& condition)>;

  explicit StoreUser(std::unique_ptr<Store> store, Wait wait = {}) : store_(std::move(store)), wait_(std::move(wait)) {
    store_->Start(this);
  }

  // Returns whether it leads, after the wait for that.
  bool Lead() {
    return Until([this] { return leads_; });
  }
  bool leads() const { return leads_; }
  const std::string& leader() const { return leader_; }
  const Status& deposed() const { return deposed_; }
  std::uint32_t term() const { return tenure_.term; }
  const std::vector<record::Group>& groups() const { return tenure_.groups; }

  Status Write(const std::vector<record::Group>& groups) {
    outcome_ = store_->Write(groups);
    if (Until([this] { return outcome_.has_value() || !leads_; }) && outcome_) return *outcome_;
    return {Code::kIo, leads_ ? "no outcome" : "it leads no more: " + deposed_.text()};
  }
  Status Check() { return store_->Check(); }
  Store& store() { return *store_; }

  void OnLead(Tenure tenure) override {
    tenure_ = std::move(tenure);
    leads_ = true;
  }
  void OnStandby(const std::string& leader, const Status& why) override {
    leads_ = false;
    leader_ = leader;
    if (!why.ok()) deposed_ = why;
  }
  void OnWritten(const Status& status) override { outcome_ = status; }

 private:
  bool Until(const std::function<bool()>& condition) { return condition() || (wait_ && wait_(condition)); }

  Tenure tenure_;
  std::string leader_;
  Status deposed_;
  std::optional<Status> outcome_;
  bool leads_ = false;
  const std::unique_ptr<Store> store_;  // its end first
  const Wait wait_;
};

}  // namespace ringway
