#include "paceline/decisions/coordinator/evaluations.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"

namespace paceline::coordinator {

Evaluations::Evaluations(std::size_t servers, std::function<void(const ServerOrder&)> tell_servers,
                         std::function<void(Version)> evaluate, std::function<bool()> in_host)
    : servers_(servers),
      tell_servers_(std::move(tell_servers)),
      evaluate_(std::move(evaluate)),
      in_host_(std::move(in_host)) {}

void Evaluations::committed(const control::CommitRecord& record, Time at, bool last) {
  newest_.emplace(record.version, Waiting{.at = at, .samples = record.committed_after()});
  if (!record.keep_for_evaluation || given_up_ || (!last && waiting_.size() >= kMostWaiting)) return;
  request(newest_->first, newest_->second);
}

absl::StatusOr<Version> Evaluations::next_out_of_turn() const {
  using absl::FailedPreconditionError;
  if (!newest_ || given_up_)
    return FailedPreconditionError("there is no new version that could be measured yet");
  const Version version = newest_->first;
  if (measured_ == version)
    return FailedPreconditionError(fmt::format("version {} is measured already", version));
  if (waiting_.contains(version))
    return FailedPreconditionError(fmt::format("version {} is being measured already", version));
  const bool one =
      std::any_of(waiting_.begin(), waiting_.end(), [](const auto& it) { return it.second.out_of_turn; });
  if (one || waiting_.size() >= kMostWaiting)
    return FailedPreconditionError("an evaluation is under way; ask again when its result is there");
  return version;
}

void Evaluations::request_out_of_turn() {
  PACELINE_CHECK(next_out_of_turn().ok(), "nothing can be measured out of turn");
  newest_->second.out_of_turn = true;
  request(newest_->first, newest_->second);
}

void Evaluations::request(Version version, Waiting waiting) {
  waiting.in_host = in_host_();
  tell_servers_(Keep{.version = version, .in_host = waiting.in_host});
  waiting_[version] = std::move(waiting);
}

void Evaluations::kept(ServerId server, Version version) {
  const auto found = waiting_.find(version);
  if (found == waiting_.end() || !found->second.kept_by.insert(server).second) return;
  if (evaluator_ready_ && found->second.kept_by.size() == servers_) evaluate_(version);
}

void Evaluations::evaluator_is_ready(bool in_host) {
  evaluator_ready_ = true;
  std::erase_if(waiting_, [&](const auto& one) {
    const bool lost = in_host && !one.second.in_host;
    if (lost) drop(one.first);
    return lost;
  });
  for (const auto& [version, waiting] : waiting_) {
    if (waiting.kept_by.size() == servers_) evaluate_(version);
  }
}

std::optional<Evaluations::Measured> Evaluations::evaluated(const Evaluated& message) {
  const auto found = waiting_.find(message.version);
  if (found == waiting_.end()) return std::nullopt;
  Measured measured{.result = {.at = found->second.at,
                               .version = found->first,
                               .samples = found->second.samples,
                               .loss = message.loss,
                               .accuracy = message.accuracy,
                               .metrics = message.metrics},
                    .out_of_turn = found->second.out_of_turn};
  measured_ = std::max(measured_.value_or(found->first), found->first);
  waiting_.erase(found);
  drop(measured.result.version);
  return measured;
}

void Evaluations::give_up() {
  given_up_ = true;
  for (const auto& [version, waiting] : waiting_) drop(version);
  waiting_.clear();
}

void Evaluations::drop(Version version) { tell_servers_(Drop{version}); }

}  // namespace paceline::coordinator
