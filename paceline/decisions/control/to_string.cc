#include "paceline/decisions/control/to_string.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace paceline::control {

namespace {

std::string text(const ReplicaJoined& fact) {
  return fmt::format("replica {} ('{}') joins with a batch of {}", fact.replica, fact.name, fact.batch);
}
std::string text(const ReplicaLeft& fact) {
  return fmt::format(
      "replica {} leaves: {}{}", fact.replica, fact.why,
      fact.least_batch ? fmt::format("; from now on at least {} samples", *fact.least_batch) : "");
}
std::string text(const ReplicaReady& fact) {
  return fmt::format("replica {} is ready with iteration {} on version {}, computed in {} s, loss {}{}{}",
                     fact.replica, fact.clock, fact.base, to_seconds(fact.compute), fact.loss,
                     fact.weight ? fmt::format(", weight {}", *fact.weight) : "",
                     fact.data_end ? fmt::format(", the data end at sample {}", *fact.data_end) : "");
}
std::string text(const TimerRang&) { return "the timer rings"; }
std::string text(const StopAsked& fact) { return fmt::format("a stop is asked for: {}", fact.why); }
std::string text(const CommitComplete& fact) { return fmt::format("version {} is complete", fact.version); }
std::string text(const DeviceJoined& fact) {
  const std::string joins = fmt::format("device {} joins", fact.device);
  return fact.memory_bytes == 0 ? joins
                                : fmt::format("{} with {} bytes for a plan", joins, fact.memory_bytes);
}
std::string text(const LinkMeasured& fact) {
  return fmt::format("{}{} bytes from host {} to host {} in {} ms", fact.shared ? "at least " : "",
                     fact.bytes, fact.from, fact.to, to_seconds(fact.took) * 1e3);
}
std::string text(const DeviceLeft& fact) { return fmt::format("device {} leaves", fact.device); }
std::string text(const DeviceOutOfMemory& fact) {
  const std::string of = fact.samples > 0 ? fmt::format(", of {} samples", fact.samples) : "";
  return fmt::format("device {} has no memory for its stage{}", fact.device, of);
}
std::string text(const planner::Plan& plan) {
  std::string line = fmt::format("micro-batches of {}", plan.micro_batch);
  for (const planner::PlannedReplica& replica : plan.replicas) {
    line += fmt::format("; {} samples on devices {}", replica.samples, fmt::join(replica.devices, ", "));
    if (!replica.cuts.empty()) line += fmt::format(" cut before layers {}", fmt::join(replica.cuts, ", "));
  }
  return line;
}
std::string text(const PlanSearched& fact) {
  if (!fact.impossible.empty()) return "no plan is possible: " + fact.impossible;
  return fact.plan ? fmt::format("a plan is found: {}", text(*fact.plan)) : "no plan is found";
}

std::string text(const CommitRecord& order) {
  std::string line =
      fmt::format("commit {}, {} of {} samples after {}, rate {}, fraction {}{}{} ({})", order.version,
                  order.samples, order.nominal, order.committed_before, order.learning_rate, order.fraction,
                  order.of_differences ? ", of differences" : "",
                  order.keep_for_evaluation ? ", to be evaluated" : "", to_string(order.why));
  for (const CommitMember& member : order.members) line += "; " + to_string(member);
  if (order.checkpoint) line += "; checkpoint of " + to_string(*order.checkpoint);
  return line;
}
std::string more(const Release& order) {
  std::string line;
  if (!order.plain()) {
    line = fmt::format(", rate {}, {} commits of fraction {} ahead, {} local steps", order.learning_rate,
                       order.staleness, order.fraction, order.steps);
  }
  for (const Lease& lease : order.ahead) line += ", then " + in_words(lease);
  return line;
}
std::string text(const Release& order) {
  return fmt::format("release replica {} for iteration {} on version {}, {}{} ({})", order.replica,
                     order.clock, order.version, in_words(order.lease), more(order), to_string(order.why));
}
std::string text(const Discard& order) {
  return fmt::format("discard iteration {} of replica {} ({})", order.clock, order.replica,
                     to_string(order.why));
}
std::string text(const Park& order) { return fmt::format("park replica {}", order.replica); }
std::string text(const WakeAt& order) { return fmt::format("wake at {} s", to_seconds(order.at)); }
std::string text(const Finish& order) { return fmt::format("finish: {}", order.why); }
std::string text(const SearchPlan&) { return "search for a better plan"; }
std::string text(const PlanAdopted& order) {
  return fmt::format("from {} s on {}, {} ms predicted ({})", to_seconds(order.at), text(order.plan),
                     order.predicted_ms, order.why);
}
std::string text(const NoPlan& order) { return fmt::format("no plan is left: {}", order.why); }
std::string text(const BatchDone& order) {
  std::string line =
      fmt::format("a batch ended at {} s, {} ms measured, {} predicted{}", to_seconds(order.at),
                  order.measured_ms, order.predicted_ms, order.regular ? "" : ", not a regular one");
  for (const DeviceWork& work : order.work)
    line += fmt::format("; device {} took {} s for {} samples", work.device, to_seconds(work.computed),
                        work.samples);
  if (order.spending) {
    line += fmt::format("; cost {} of {}, {} batches ahead of the budget", order.spending->cost,
                        order.spending->allowed, order.spending->queue);
  }
  return line;
}

}  // namespace

std::string to_string(const Fact& fact) {
  return fmt::format("at {} s: {}", to_seconds(fact.at),
                     std::visit([](const auto& what) { return text(what); }, fact.what));
}

std::string to_string(const CommitMember& member) {
  return fmt::format("iteration {} of replica {} on version {}, {}, weight {}, share {}", member.clock,
                     member.replica, member.base, in_words(member.lease), member.weight, member.share);
}

std::string to_string(const ControllerState& state) {
  std::string line = fmt::format("version {}, next position {}", state.version, state.ledger.next);
  for (const auto& [begin, end] : state.ledger.open) line += fmt::format(", open {} to {}", begin, end);
  if (state.ledger.end) line += fmt::format(", the data end at {}", *state.ledger.end);
  if (state.ledger.least) line += fmt::format(", at least {} in a lease", *state.ledger.least);
  for (const auto& [name, clock] : state.clocks) line += fmt::format(", '{}' at {}", name, clock);
  return line;
}

std::string to_string(const Order& order) {
  return std::visit([](const auto& what) { return text(what); }, order);
}

}  // namespace paceline::control
