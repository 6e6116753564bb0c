// Events of every kind, and a listener that writes down the events it hears, for tests of the journal.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "paceline/decisions/control/controller.h"
#include "paceline/decisions/control/run_listener.h"

namespace paceline::store {

using Event =
    std::variant<control::Fact, std::pair<Time, control::Order>, control::Evaluated, control::SideWork>;

constexpr Time at(std::int64_t ns) { return Time(Duration(ns)); }

// One event of each kind, with odd values.
std::vector<Event> every_kind_of_event();

// The facts and orders of a Controller with four replicas under `policy`, until `samples` samples are done.
control::ControllerConfig controller_config(std::int64_t samples, std::int64_t ahead = 0);
std::vector<Event> controller_events(const std::string& policy, std::int64_t samples, std::int64_t ahead = 0);

void tell(const Event& event, control::RunListener& listener);
void tell(const std::vector<Event>& events, control::RunListener& listener);

// Every field of an event in one line.
std::string describe(const Event& event);

struct Recorder final : control::RunListener {
  std::vector<std::string> lines;

  void on_fact(const control::Fact& fact) override { lines.push_back(describe(fact)); }
  void on_order(Time at, const control::Order& order) override {
    lines.push_back(describe(std::pair(at, order)));
  }
  void on_evaluated(const control::Evaluated& evaluated) override { lines.push_back(describe(evaluated)); }
  void on_side_work(const control::SideWork& work) override { lines.push_back(describe(work)); }
};

std::vector<std::string> describe(const std::vector<Event>& events);

}  // namespace paceline::store
