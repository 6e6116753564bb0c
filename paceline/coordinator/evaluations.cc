#include "paceline/coordinator/evaluations.h"

#include <utility>

namespace paceline::coordinator {

Evaluations::Evaluations(std::size_t servers, std::function<void(const wire::ServerOrder&)> tell_servers,
                         std::function<void(Version)> evaluate)
    : servers_(servers), tell_servers_(std::move(tell_servers)), evaluate_(std::move(evaluate)) {}

void Evaluations::request(const control::CommitRecord& record, Time at, bool last) {
  if (given_up_ || (!last && waiting_.size() >= kMostWaiting)) return;
  waiting_[record.version] = {.at = at, .samples = record.committed_after()};
  wire::ServerOrder order;
  order.mutable_keep()->set_version(record.version.value());
  tell_servers_(order);
}

void Evaluations::kept(ServerId server, Version version) {
  const auto found = waiting_.find(version);
  if (found == waiting_.end() || !found->second.kept_by.insert(server).second) return;
  if (evaluator_ready_ && found->second.kept_by.size() == servers_) evaluate_(version);
}

void Evaluations::evaluator_is_ready() {
  evaluator_ready_ = true;
  for (const auto& [version, waiting] : waiting_) {
    if (waiting.kept_by.size() == servers_) evaluate_(version);
  }
}

std::optional<control::Evaluated> Evaluations::evaluated(const wire::Evaluated& message) {
  const auto found = waiting_.find(Version(message.version()));
  if (found == waiting_.end()) return std::nullopt;
  const control::Evaluated evaluated{.at = found->second.at,
                                     .version = found->first,
                                     .samples = found->second.samples,
                                     .loss = message.loss(),
                                     .accuracy = message.accuracy(),
                                     .metrics = {message.metrics().begin(), message.metrics().end()}};
  waiting_.erase(found);
  drop(evaluated.version);
  return evaluated;
}

void Evaluations::give_up() {
  given_up_ = true;
  for (const auto& [version, waiting] : waiting_) drop(version);
  waiting_.clear();
}

void Evaluations::drop(Version version) {
  wire::ServerOrder order;
  order.mutable_drop()->set_version(version.value());
  tell_servers_(order);
}

}  // namespace paceline::coordinator
