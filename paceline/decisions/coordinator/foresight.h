// The next commit, if it is certain before its gradients are ready (control::Controller::next_commit()). The servers then
// know the commit, and make it as soon as its members say in memory that they are ready. The coordinator hears from the
// members a little later, and must not decide otherwise meanwhile: a fact that could change the commit waits until each
// server has answered that it did not make the commit, or until the commit is ordered. Pure.
//
// Invariant: if a server has made an expected commit, this commit is the next one that is ordered.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <variant>

#include "paceline/base/ids.h"
#include "paceline/decisions/control/facts.h"
#include "paceline/decisions/control/orders.h"
#include "paceline/decisions/coordinator/process_orders.h"

namespace paceline::coordinator {

class Foresight {
 public:
  // A fact, or an order that comes after it.
  using Held = std::variant<decltype(control::Fact::what), UnmapGradient>;

  // `tell`: tells every server that is here.
  Foresight(std::size_t servers, std::function<void(ServerOrder)> tell);

  // Whether a commit is expected that a server may have made.
  bool expects() const { return expected_.has_value(); }
  // The version of the newest commit that a server may have made; `ordered`: the newest that is ordered.
  Version newest(Version ordered) const { return expects() ? expected_->version : ordered; }

  // Tells the servers of the commit. Requires: !expects(), and nothing is held.
  void expect(control::CommitRecord commit);
  // The Controller has ordered a commit. Requires: the expected one, if there is one.
  void ordered(const control::CommitRecord& commit);

  // Whether the Controller may take this fact now. Otherwise it is to be held.
  bool may_take(const decltype(control::Fact::what)& fact) const;
  // Notes a fact that the Controller takes. Requires: may_take().
  void taken(const decltype(control::Fact::what)& fact);
  // Keeps it until no commit is expected, behind what is held already, and asks the servers not to make the commit.
  void hold(Held one);
  bool holds() const { return !held_.empty(); }
  // Takes out the first one that is held. Nothing as long as a commit is expected.
  std::optional<Held> next_held();
  // Tells the servers of an order that was held.
  void tell(const UnmapGradient& order) const { tell_(order); }

  // Asks the servers not to make the commit.
  void revoke();
  // The server has answered to Revoke.
  void answered(ServerId server, Version version, bool made);
  // The server is back with this version, and has no other order. Returns the order that it needs. `begun`: it may have
  // begun the next version. A part of a version cannot be taken back, so it counts as if all of it were made.
  std::optional<Expect> back(ServerId server, Version version, bool begun);
  // Whether a server that was asked has not answered, and none has made the commit.
  bool awaits_answers() const { return expects() && !made_; }
  // A member that is gone, and whose gradient a server has used before it said that it was ready. Nothing if there is none:
  // only a worker that is wrong does this.
  std::optional<ReplicaId> lost() const;

 private:
  const control::CommitMember* member(ReplicaId replica) const;
  // Whether the Controller knows that the member is ready; it may have said so before the commit was expected.
  bool is_ready(const control::CommitMember& one) const;

  const std::size_t servers_;
  const std::function<void(ServerOrder)> tell_;
  std::optional<control::CommitRecord> expected_;
  std::map<ReplicaId, Clock> ready_;  // the newest iteration with which a replica was ready
  bool revoked_ = false;
  std::set<ServerId> answered_;
  bool made_ = false;  // a server has made the commit, or a part of it, according to its answer
  std::deque<Held> held_;
};

}  // namespace paceline::coordinator
