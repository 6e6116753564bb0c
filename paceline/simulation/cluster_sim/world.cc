#include "paceline/simulation/cluster_sim/world.h"

#include <algorithm>

namespace paceline::cluster_sim {

void World::at(SteadyTime when, std::function<void()> what) {
  heap_.push_back({std::max(when, now_), next_++, std::move(what)});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

bool World::step(SteadyTime until) {
  if (heap_.empty() || heap_.front().at > until) return false;
  std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
  const Event event = std::move(heap_.back());
  heap_.pop_back();
  now_ = event.at;
  event.what();
  return true;
}

void World::add_line(std::string line) {
  const double s = std::chrono::duration<double>(now_ - SteadyTime(std::chrono::hours(1))).count();
  lines_.push_back(fmt::format("{:9.4f}  {}", s, line));
}

}  // namespace paceline::cluster_sim
