#include "paceline/rpc/worker_table.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace paceline::rpc {

namespace {

// A crash ends the stream and is known at once. This is for a process that is stopped, or hangs: so many
// times its own rhythm without a word, and never less than the floor, which a busy machine's scheduler needs.
constexpr double kSilentRhythms = 12;
constexpr std::chrono::duration<double> kSilentFloor{3.0};

}  // namespace

absl::Status WorkerTable::take_place(const WorkerStream::Pointer& stream, const std::string& name) {
  const auto is_it = [&](const config::ReplicaConfig& one) { return one.name == name; };
  const auto place = std::find_if(places_.begin(), places_.end(), is_it);
  if (place == places_.end()) {
    return absl::NotFoundError(fmt::format("the job has no replica '{}'; it has {} to {}", name,
                                           places_.front().name, places_.back().name));
  }
  const auto device = static_cast<std::size_t>(place - places_.begin());
  if (by_device_.contains(device) || workers_.contains(stream.get()))
    return absl::AlreadyExistsError(fmt::format("{} is here already", name));
  workers_[stream.get()] = {.stream = stream,
                            .number = next_number_++,
                            .device = device,
                            .name = name,
                            .attached = {},
                            .replica = {},
                            .left = {},
                            .heard = std::chrono::steady_clock::now()};
  by_device_[device] = stream.get();
  return absl::OkStatus();
}

std::optional<Worker> WorkerTable::remove(const WorkerStream::Pointer& stream) {
  const auto found = workers_.find(stream.get());
  if (found == workers_.end()) return std::nullopt;
  by_device_.erase(found->second.device);
  return std::move(workers_.extract(found).mapped());
}

Worker* WorkerTable::find(const WorkerStream::Pointer& stream) {
  const auto found = workers_.find(stream.get());
  return found == workers_.end() ? nullptr : &found->second;
}

Worker* WorkerTable::at(std::size_t device) {
  const auto found = by_device_.find(device);
  return found == by_device_.end() ? nullptr : &workers_.at(found->second);
}

const Worker* WorkerTable::first_attached(int host) const {
  for (const auto& [stream, worker] : workers_) {
    if (worker.attached && places_[worker.device].host == host) return &worker;
  }
  return nullptr;
}

void WorkerTable::hear(Worker& worker) {
  const auto now = std::chrono::steady_clock::now();
  worker.rhythm = 0.9 * worker.rhythm + 0.1 * std::chrono::duration<double>(now - worker.heard);
  worker.heard = now;
}

std::vector<std::pair<WorkerStream::Pointer, std::chrono::duration<double>>> WorkerTable::silent() const {
  const auto now = std::chrono::steady_clock::now();
  std::vector<std::pair<WorkerStream::Pointer, std::chrono::duration<double>>> found;
  for (const auto& [stream, worker] : workers_) {
    const std::chrono::duration<double> silence = now - worker.heard;
    const bool too_long = silence > std::max(kSilentFloor, kSilentRhythms * worker.rhythm);
    if (worker.joined && too_long) found.emplace_back(worker.stream, silence);
  }
  return found;
}

}  // namespace paceline::rpc
