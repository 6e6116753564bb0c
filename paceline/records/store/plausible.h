// Stands between a journal and code that relies on a Controller's promises: replicas join before they do
// anything, iterations follow each other, gradients have older versions. A journal with damaged bytes may
// have whole rows with impossible contents.
//
// Invariant: a listener hears only a possible course of a run. After the first impossible event nothing more
// is told, and status() says what it was. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <absl/status/status.h>

#include "paceline/decisions/control/run_listener.h"

namespace paceline::store {

class Plausible final : public control::RunListener {
 public:
  explicit Plausible(control::RunListener& next) : next_(&next) {}
  // Goes on as `other` would, for another listener.
  Plausible(const Plausible& other, control::RunListener& next) : Plausible(other) { next_ = &next; }

  void on_fact(const control::Fact& fact) override;
  void on_order(Time at, const control::Order& order) override;
  void on_evaluated(const control::Evaluated& evaluated) override;
  void on_side_work(const control::SideWork& work) override;

  // DataLoss with one line about the first impossible event.
  const absl::Status& status() const { return status_; }

 private:
  struct Replica {
    bool here = true;
    std::optional<std::int64_t> next{};  // the iteration that it computes or waits for, once it was released
  };

  void look(const control::ReplicaJoined& joined);
  void look(const control::ReplicaLeft& left);
  void look(const control::ReplicaReady& ready);
  void look(const control::CommitRecord& commit);
  void look(const control::Release& release);
  void look(const control::Discard& discard) { known(discard.replica); }
  void look(const control::Park& park);
  template <class Other>
  void look(const Other&) {}
  Replica* known(ReplicaId replica);
  void damaged(const std::string& what);

  control::RunListener* next_;
  std::map<ReplicaId, Replica> replicas_;
  absl::Status status_;
};

}  // namespace paceline::store
