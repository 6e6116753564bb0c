// The ways of a state machine from one phase to another, as a table. Pure.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace paceline {

template <class Phase>
struct Transition {
  Phase from;
  Phase to;
  std::string_view when;
};

template <class Phase>
bool may_follow(std::span<const Transition<Phase>> transitions, Phase from, Phase to) {
  return std::any_of(transitions.begin(), transitions.end(),
                     [&](const Transition<Phase>& one) { return one.from == from && one.to == to; });
}

// All transitions, as a state diagram for Mermaid. Requires: name_of(Phase), beside the phases.
template <class Phase>
std::string diagram(std::span<const Transition<Phase>> transitions, Phase first,
                    std::initializer_list<Phase> last) {
  const auto name = [](Phase phase) { return std::string(name_of(phase)); };
  std::string text = "stateDiagram-v2\n  [*] --> " + name(first) + "\n";
  for (const Transition<Phase>& one : transitions)
    text += "  " + name(one.from) + " --> " + name(one.to) + ": " + std::string(one.when) + "\n";
  for (const Phase phase : last) text += "  " + name(phase) + " --> [*]\n";
  return text;
}

}  // namespace paceline
