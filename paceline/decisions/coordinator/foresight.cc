#include "paceline/decisions/coordinator/foresight.h"

#include <algorithm>
#include <utility>

#include "paceline/base/check.h"
#include "paceline/decisions/coordinator/apply_order.h"

namespace paceline::coordinator {

Foresight::Foresight(std::size_t servers, std::function<void(ServerOrder)> tell)
    : servers_(servers), tell_(std::move(tell)) {}

void Foresight::expect(control::CommitRecord commit) {
  PACELINE_CHECK(!expects() && held_.empty(), "version {} is expected too early", commit.version);
  expected_ = std::move(commit);
  answered_.clear();
  revoked_ = made_ = false;
  tell_(Expect{apply_order(*expected_)});
}

void Foresight::ordered(const control::CommitRecord& commit) {
  if (!expects()) return;
  PACELINE_CHECK(apply_order(commit) == apply_order(*expected_),
                 "version {} is ordered, and is not as the servers know it", commit.version);
  expected_.reset();
}

// A gradient with a weight counts otherwise, and an end of the data changes leases.
bool Foresight::may_take(const decltype(control::Fact::what)& fact) const {
  if (!expects()) return held_.empty();
  const auto* const ready = std::get_if<control::ReplicaReady>(&fact);
  if (ready == nullptr || ready->weight || ready->data_end) return false;
  const control::CommitMember* const one = member(ready->replica);
  return one != nullptr && !is_ready(*one) && one->clock == ready->clock && one->base == ready->base;
}

void Foresight::taken(const decltype(control::Fact::what)& fact) {
  if (const auto* const ready = std::get_if<control::ReplicaReady>(&fact))
    ready_[ready->replica] = ready->clock;
  if (const auto* const left = std::get_if<control::ReplicaLeft>(&fact)) ready_.erase(left->replica);
}

void Foresight::hold(Held one) {
  held_.push_back(std::move(one));
  revoke();
}

std::optional<Foresight::Held> Foresight::next_held() {
  if (expects() || held_.empty()) return std::nullopt;
  Held one = std::move(held_.front());
  held_.pop_front();
  return one;
}

void Foresight::revoke() {
  if (!expects() || std::exchange(revoked_, true)) return;
  tell_(Revoke{expected_->version});
}

// An answer may come after the commit was ordered.
void Foresight::answered(ServerId server, Version version, bool made) {
  if (!expects() || !revoked_ || version != expected_->version) return;
  answered_.insert(server);
  made_ = made_ || made;
  if (answered_.size() == servers_ && !made_) expected_.reset();
}

std::optional<Expect> Foresight::back(ServerId server, Version version, bool begun) {
  if (!expects()) return std::nullopt;
  const bool has_all = version >= expected_->version;
  made_ = made_ || (begun && version.next() == expected_->version);
  if (revoked_) answered(server, expected_->version, has_all);
  if (has_all || revoked_) return std::nullopt;
  return Expect{apply_order(*expected_)};
}

std::optional<ReplicaId> Foresight::lost() const {
  if (!made_ || !expects()) return std::nullopt;
  for (const Held& one : held_) {
    const auto* const fact = std::get_if<decltype(control::Fact::what)>(&one);
    const auto* const left = fact != nullptr ? std::get_if<control::ReplicaLeft>(fact) : nullptr;
    const control::CommitMember* const gone = left != nullptr ? member(left->replica) : nullptr;
    if (gone != nullptr && !is_ready(*gone)) return left->replica;
  }
  return std::nullopt;
}

bool Foresight::is_ready(const control::CommitMember& one) const {
  const auto found = ready_.find(one.replica);
  return found != ready_.end() && found->second == one.clock;
}

const control::CommitMember* Foresight::member(ReplicaId replica) const {
  const auto found = std::find_if(expected_->members.begin(), expected_->members.end(),
                                  [&](const control::CommitMember& one) { return one.replica == replica; });
  return found == expected_->members.end() ? nullptr : &*found;
}

}  // namespace paceline::coordinator
