#include "paceline/control/to_string.h"

#include <fmt/format.h>

namespace paceline::control {

namespace {

std::string text(const Lease& lease) {
  return fmt::format("samples {} to {} of epoch {}", lease.begin, lease.end, lease.epoch);
}

std::string text(const ReplicaJoined& fact) {
  return fmt::format("replica {} ('{}') joins with a batch of {}", fact.replica, fact.name, fact.batch);
}
std::string text(const ReplicaLeft& fact) {
  return fmt::format("replica {} leaves: {}", fact.replica, fact.why);
}
std::string text(const ReplicaReady& fact) {
  return fmt::format("replica {} is ready with iteration {} on version {}, computed in {} s, loss {}",
                     fact.replica, fact.clock, fact.base, to_seconds(fact.compute), fact.loss);
}
std::string text(const TimerRang&) { return "the timer rings"; }
std::string text(const StopAsked& fact) { return fmt::format("a stop is asked for: {}", fact.why); }
std::string text(const CommitComplete& fact) { return fmt::format("version {} is complete", fact.version); }

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
  for (const Lease& lease : order.ahead) line += ", then " + text(lease);
  return line;
}
std::string text(const Release& order) {
  return fmt::format("release replica {} for iteration {} on version {}, {}{} ({})", order.replica,
                     order.clock, order.version, text(order.lease), more(order), to_string(order.why));
}
std::string text(const Discard& order) {
  return fmt::format("discard iteration {} of replica {} ({})", order.clock, order.replica,
                     to_string(order.why));
}
std::string text(const Park& order) { return fmt::format("park replica {}", order.replica); }
std::string text(const WakeAt& order) { return fmt::format("wake at {} s", to_seconds(order.at)); }
std::string text(const Finish& order) { return fmt::format("finish: {}", order.why); }

}  // namespace

std::string to_string(const Fact& fact) {
  return fmt::format("at {} s: {}", to_seconds(fact.at),
                     std::visit([](const auto& what) { return text(what); }, fact.what));
}

std::string to_string(const CommitMember& member) {
  return fmt::format("iteration {} of replica {} on version {}, {}, weight {}, share {}", member.clock,
                     member.replica, member.base, text(member.lease), member.weight, member.share);
}

std::string to_string(const ControllerState& state) {
  std::string line = fmt::format("version {}, next position {}", state.version, state.ledger.next);
  for (const auto& [begin, end] : state.ledger.open) line += fmt::format(", open {} to {}", begin, end);
  for (const auto& [name, clock] : state.clocks) line += fmt::format(", '{}' at {}", name, clock);
  return line;
}

std::string to_string(const Order& order) {
  return std::visit([](const auto& what) { return text(what); }, order);
}

}  // namespace paceline::control
