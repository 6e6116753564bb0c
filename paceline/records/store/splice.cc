#include "paceline/records/store/splice.h"

#include <variant>

#include <fmt/format.h>

#include "paceline/base/overloaded.h"

namespace paceline::store {

void Splice::begin(std::optional<Version> last) {
  last_ = last;
  cut_ = false;
  numbers_.clear();
  here_.clear();
}

void Splice::end() {
  returning_.clear();
  for (const ReplicaId replica : here_) {
    next_->on_fact(
        {latest_, control::ReplicaLeft{replica, fmt::format("the run was resumed from version {}", *last_)}});
    returning_[names_.at(replica)] = replica;
  }
}

void Splice::on_fact(const control::Fact& fact) {
  if (cut_) return;
  control::Fact told = fact;
  std::visit(Overloaded{
                 [&](control::ReplicaJoined& joined) { join(joined); },
                 [&](control::ReplicaLeft& left) {
                   renumber(left.replica);
                   here_.erase(left.replica);
                 },
                 [&](control::ReplicaReady& ready) { renumber(ready.replica); },
                 [](auto&) {},
             },
             told.what);
  if (cut_) return;
  latest_ = fact.at;
  next_->on_fact(told);
}

void Splice::on_order(Time at, const control::Order& order) {
  if (cut_) return;
  control::Order told = order;
  std::visit(Overloaded{
                 [&](control::CommitRecord& commit) {
                   for (control::CommitMember& member : commit.members) renumber(member.replica);
                 },
                 [&](control::Release& release) { renumber(release.replica); },
                 [&](control::Discard& discard) { renumber(discard.replica); },
                 [&](control::Park& park) { renumber(park.replica); },
                 [](auto&) {},
             },
             told);
  if (cut_) return;
  next_->on_order(at, told);
  const auto* commit = std::get_if<control::CommitRecord>(&order);
  cut_ = commit != nullptr && last_ && commit->version >= *last_;
}

void Splice::on_evaluated(const control::Evaluated& evaluated) {
  if (!last_ || evaluated.version <= *last_) next_->on_evaluated(evaluated);
}

void Splice::on_side_work(const control::SideWork& work) {
  if (!last_ || work.version <= *last_) next_->on_side_work(work);
}

void Splice::join(control::ReplicaJoined& joined) {
  ReplicaId number = joined.replica;
  if (const auto again = returning_.extract(joined.name); !again.empty()) {
    number = again.mapped();
  } else if (names_.contains(number)) {
    for (number = ReplicaId(0); names_.contains(number);) number = number.next();
  }
  numbers_[joined.replica] = number;
  names_[number] = joined.name;
  here_.insert(number);
  joined.replica = number;
}

void Splice::renumber(ReplicaId& replica) {
  const auto found = numbers_.find(replica);
  if (found != numbers_.end()) {
    replica = found->second;
    return;
  }
  status_.Update(absl::DataLossError(
      fmt::format("the journal is damaged: replica {} is in it and never joined", replica)));
  cut_ = true;
}

}  // namespace paceline::store
