#include "paceline/records/store/plausible.h"

#include <variant>

#include <fmt/format.h>

namespace paceline::store {

namespace {
// A Controller numbers replicas consecutively; a much higher number would need memory in tables indexed by
// it.
constexpr std::int64_t kSpareNumbers = 4096;
constexpr std::int32_t kMostServers = 4096;
// The sum of two such times still fits.
constexpr Duration kLongest{std::int64_t{1} << 61};
}  // namespace

void Plausible::on_fact(const control::Fact& fact) {
  std::visit([this](const auto& what) { look(what); }, fact.what);
  if (status_.ok()) next_->on_fact(fact);
}

void Plausible::on_order(Time at, const control::Order& order) {
  std::visit([this](const auto& what) { look(what); }, order);
  if (status_.ok()) next_->on_order(at, order);
}

void Plausible::on_evaluated(const control::Evaluated& evaluated) {
  if (status_.ok()) next_->on_evaluated(evaluated);
}

void Plausible::on_side_work(const control::SideWork& work) {
  if (work.server > kMostServers) damaged(fmt::format("server {} is in it", work.server));
  if (work.took > kLongest || work.at.time_since_epoch() > kLongest || work.at.time_since_epoch() < -kLongest)
    damaged(fmt::format("work on version {} took for ever", work.version));
  if (status_.ok()) next_->on_side_work(work);
}

void Plausible::look(const control::ReplicaJoined& joined) {
  const auto before = replicas_.find(joined.replica);
  if (before != replicas_.end() && before->second.here)
    return damaged(fmt::format("replica {} joined twice", joined.replica));
  if (joined.replica.value() > std::ssize(replicas_) + kSpareNumbers)
    return damaged(fmt::format("replica {} cannot have joined", joined.replica));
  replicas_[joined.replica] = {};
}

void Plausible::look(const control::ReplicaLeft& left) {
  if (Replica* one = known(left.replica)) *one = {.here = false};
}

void Plausible::look(const control::ReplicaReady& ready) {
  Replica* one = known(ready.replica);
  if (one == nullptr) return;
  if (one->next != ready.clock.value())
    return damaged(
        fmt::format("replica {} finished iteration {}, which it had not begun", ready.replica, ready.clock));
  ++*one->next;
}

void Plausible::look(const control::Release& release) {
  Replica* one = known(release.replica);
  if (one == nullptr) return;
  if (!one->next) one->next = release.clock.value();
  if (one->next != release.clock.value())
    damaged(fmt::format("replica {} began iteration {} out of turn", release.replica, release.clock));
}

void Plausible::look(const control::Park& park) {
  if (Replica* one = known(park.replica)) one->next.reset();
}

void Plausible::look(const control::CommitRecord& commit) {
  if (commit.members.empty()) return damaged(fmt::format("version {} is of no gradient", commit.version));
  for (const control::CommitMember& member : commit.members) {
    if (member.base >= commit.version)
      return damaged(
          fmt::format("version {} has a gradient of version {} in it", commit.version, member.base));
    known(member.replica);
  }
}

Plausible::Replica* Plausible::known(ReplicaId replica) {
  const auto found = replicas_.find(replica);
  if (found != replicas_.end()) return &found->second;
  damaged(fmt::format("replica {} is in it and never joined", replica));
  return nullptr;
}

void Plausible::damaged(const std::string& what) {
  status_.Update(absl::DataLossError("the journal is damaged: " + what));
}

}  // namespace paceline::store
