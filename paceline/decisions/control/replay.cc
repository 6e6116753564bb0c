#include "paceline/decisions/control/replay.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/control/to_string.h"

namespace paceline::control {

namespace {

constexpr std::string_view kNothing = "nothing more";

// A commit of a thousand members is too long to read: of a long text, the part around `at`.
std::string excerpt(std::string_view text, std::size_t at) {
  constexpr std::size_t kLongest = 400;
  constexpr std::size_t kBefore = 150;
  if (text.size() <= kLongest) return std::string(text);
  const std::size_t from = at > kBefore ? at - kBefore : 0;
  return fmt::format("{}{}{}", from > 0 ? "... " : "", text.substr(from, kLongest),
                     from + kLongest < text.size() ? " ..." : "");
}

// A C library, or a processor, rounds a schedule's cosine otherwise in the last digits. Another schedule is farther off.
constexpr double kRounding = 1e-12;  // this part of the schedule's highest rate

// A commit has a checkpoint's state, and few differ.
bool agrees(const CommitRecord& was, const CommitRecord& is, double rounding) {
  if (was == is || std::abs(was.learning_rate - is.learning_rate) > rounding) return was == is;
  CommitRecord rounded = is;
  rounded.learning_rate = was.learning_rate;
  return was == rounded;
}

// A journal does not have what is reserved ahead.
bool agrees(const Release& was, const Release& is, double rounding) {
  Release known = is;
  if (was.ahead.empty()) known.ahead.clear();
  if (std::abs(was.learning_rate - is.learning_rate) <= rounding) known.learning_rate = was.learning_rate;
  return was == known;
}

bool agrees(const Order& recorded, const Order& expected, double rounding) {
  if (const auto* commit = std::get_if<CommitRecord>(&recorded))
    return std::holds_alternative<CommitRecord>(expected) &&
           agrees(*commit, std::get<CommitRecord>(expected), rounding);
  const auto* was = std::get_if<Release>(&recorded);
  const auto* is = std::get_if<Release>(&expected);
  return was != nullptr && is != nullptr ? agrees(*was, *is, rounding) : recorded == expected;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Replay>> Replay::make(ControllerConfig config,
                                                     std::unique_ptr<policy::SyncPolicy> policy,
                                                     const std::optional<ControllerState>& start,
                                                     std::unique_ptr<Replanner> replanner) {
  std::unique_ptr<Replay> replay(new Replay(std::move(config), std::move(policy), std::move(replanner)));
  if (start) PACELINE_RETURN_IF_ERROR(replay->controller_.restore(*start));
  return replay;
}

Replay::Replay(ControllerConfig config, std::unique_ptr<policy::SyncPolicy> policy,
               std::unique_ptr<Replanner> replanner)
    : looks_at_plans_(replanner != nullptr),
      rounding_(kRounding * std::max(config.schedule.base, config.schedule.last)),
      controller_(std::move(config), std::move(policy), std::move(replanner)) {}

void Replay::on_fact(const Fact& fact) {
  if (difference_) return;
  if (seen_ < expected_.size()) return differ(kNothing, to_string(expected_[seen_]));
  expected_.clear();
  seen_ = 0;
  fact_ = fact;
  ++facts_;
  if (const auto* searched = std::get_if<PlanSearched>(&fact.what);
      searched != nullptr && !same_search(*searched))
    return;
  const absl::Status taken = controller_.handle(fact, expected_);
  if (!taken.ok())
    difference_ =
        fmt::format("{}; the Controller refuses it: {}", fact_in_words(), std::string(taken.message()));
}

bool Replay::same_search(const PlanSearched& recorded) {
  if (!looks_at_plans_) return true;
  if (searched_ && searched_->plan == recorded.plan && searched_->impossible == recorded.impossible)
    return true;
  differ("that", searched_ ? to_string(Fact{fact_->at, *searched_}) : "no search");
  return false;
}

void Replay::on_order(Time at, const Order& order) {
  if (difference_ || (!looks_at_plans_ && of_planning(order))) return;
  if (!fact_) {
    difference_ = fmt::format("before the first fact: recorded: {}", to_string(order));
  } else if (at != fact_->at) {
    differ(fmt::format("at {} s: {}", to_seconds(at), to_string(order)), "nothing at that time");
  } else if (seen_ == expected_.size()) {
    differ(to_string(order), kNothing);
  } else if (!agrees(order, expected_[seen_], rounding_)) {
    differ(to_string(order), to_string(expected_[seen_]));
  } else {
    if (const auto* search = std::get_if<SearchPlan>(&expected_[seen_])) searched_ = searched(*search);
    ++seen_;
    ++orders_;
  }
}

void Replay::differ(std::string_view recorded, std::string_view now) {
  const auto first = std::mismatch(recorded.begin(), recorded.end(), now.begin(), now.end()).first;
  const auto at = static_cast<std::size_t>(first - recorded.begin());
  difference_ = fmt::format("{}; recorded: {}; the Controller orders: {}", fact_in_words(),
                            excerpt(recorded, at), excerpt(now, at));
}

std::string Replay::fact_in_words() const { return fmt::format("fact {}, {}", facts_, to_string(*fact_)); }

}  // namespace paceline::control
