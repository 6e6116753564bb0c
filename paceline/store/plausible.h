// Stands between a journal and code that counts on what a Controller promises: replicas that join before they
// do anything, iterations that follow each other, gradients of older versions. A journal whose rows are whole
// may still say what cannot have been, where its bytes are damaged.
//
// Invariant: a listener hears only what can have been. After the first thing that cannot,
// nothing more is told, and status() says what it was. Pure; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <absl/status/status.h>

#include "paceline/control/run_listener.h"

namespace paceline::store {

class Plausible final : public control::RunListener {
 public:
  explicit Plausible(control::RunListener& next) : next_(next) {}

  void on_fact(const control::Fact& fact) override;
  void on_order(Time at, const control::Order& order) override;
  void on_evaluated(const control::Evaluated& evaluated) override;
  void on_side_work(const control::SideWork& work) override;

  // DataLoss, in a line.
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

  control::RunListener& next_;
  std::map<ReplicaId, Replica> replicas_;
  absl::Status status_;
};

}  // namespace paceline::store
