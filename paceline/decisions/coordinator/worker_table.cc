#include "paceline/decisions/coordinator/worker_table.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"
#include "paceline/base/one_line.h"
#include "paceline/decisions/coordinator/reader_slots.h"

namespace paceline::coordinator {

namespace {
constexpr std::size_t kLongestName = 40;  // a longer name is not worth repeating
// The limit before a worker has joined: a process that loads libtorch and its data on a busy host has no
// rhythm yet.
constexpr std::chrono::seconds kComingLimit{30};
}  // namespace

std::optional<Refusal> WorkerTable::take_place(WorkerPeer peer, const std::string& name, SteadyTime at) {
  const auto is_it = [&](const JobSettings::Device& one) { return one.name == name; };
  const auto place = std::find_if(places_.begin(), places_.end(), is_it);
  if (std::find(left_out_.begin(), left_out_.end(), name) != left_out_.end())
    return host_given_up("the host of " + name);
  if (place == places_.end()) {
    return Refusal{fmt::format("the job has no device '{}'; it has {} to {}",
                               one_line(name.substr(0, kLongestName)), places_.front().name,
                               places_.back().name)};
  }
  const DevicePlace device(static_cast<std::int32_t>(place - places_.begin()));
  if (by_device_.contains(device) || workers_.contains(peer)) return place_taken(name);
  workers_.emplace(peer, Worker{.peer = peer,
                                .number = next_number_++,
                                .reader = free_reader(),
                                .device = device,
                                .host = place->host,
                                .name = name,
                                .attached = {},
                                .replica = {},
                                .left = {},
                                .heard = PhiAccrual(at)});
  by_device_[device] = peer;
  return std::nullopt;
}

// Beside the evaluator and the other hosts' servers.
int WorkerTable::most_readers(std::int64_t hosts) { return kReaderSlots - 1 - static_cast<int>(hosts); }

// Gives numbers in turn, so that one is reused as late as possible: a process that died may still hold a
// version through its number.
int WorkerTable::free_reader() {
  PACELINE_CHECK(workers_.size() < static_cast<std::size_t>(readers_), "more than {} workers", readers_);
  const auto taken = [this](const auto& one) { return one.second.reader == last_reader_; };
  do {
    last_reader_ = (last_reader_ + 1) % readers_;
  } while (std::any_of(workers_.begin(), workers_.end(), taken));
  return last_reader_;
}

std::optional<Worker> WorkerTable::remove(WorkerPeer peer) {
  const auto found = workers_.find(peer);
  if (found == workers_.end()) return std::nullopt;
  by_device_.erase(found->second.device);
  return std::move(workers_.extract(found).mapped());
}

Worker* WorkerTable::find(WorkerPeer peer) {
  const auto found = workers_.find(peer);
  return found == workers_.end() ? nullptr : &found->second;
}

Worker* WorkerTable::at(DevicePlace device) {
  const auto found = by_device_.find(device);
  return found == by_device_.end() ? nullptr : &workers_.at(found->second);
}

std::vector<DevicePlace> WorkerTable::devices() const {
  std::vector<DevicePlace> devices;
  for (std::size_t i = 0; i < places_.size(); ++i) devices.emplace_back(static_cast<std::int32_t>(i));
  return devices;
}

const Worker* WorkerTable::first_attached(HostPlace host) const {
  for (const auto& [peer, worker] : workers_) {
    if (worker.attached && worker.host == host) return &worker;
  }
  return nullptr;
}

std::optional<WorkerPeer> WorkerTable::first_left() const {
  const auto place = [](const Worker& worker) {
    return std::tuple(!worker.joined, worker.takes_last, worker.device);
  };
  const auto first = std::min_element(
      workers_.begin(), workers_.end(),
      [&](const auto& one, const auto& other) { return place(one.second) < place(other.second); });
  return first == workers_.end() ? std::nullopt : std::optional(first->first);
}

const Worker* WorkerTable::with_memory(HostPlace host, const std::string& gradient_path) const {
  for (const auto& [peer, worker] : workers_) {
    if (worker.attached && worker.host == host && worker.attached->gradient_path == gradient_path)
      return &worker;
  }
  return nullptr;
}

std::vector<DevicePlace> WorkerTable::missing() const {
  std::vector<DevicePlace> missing = devices();
  std::erase_if(missing, [this](DevicePlace device) { return here(device); });
  return missing;
}

std::vector<std::string> WorkerTable::names(const std::vector<DevicePlace>& devices) const {
  std::vector<std::string> names;
  for (const DevicePlace device : devices)
    names.push_back(places_[static_cast<std::size_t>(device.value())].name);
  return names;
}

std::set<HostPlace> WorkerTable::hosts() const {
  std::set<HostPlace> hosts;
  for (const auto& [peer, worker] : workers_) hosts.insert(worker.host);
  return hosts;
}

std::vector<std::pair<WorkerPeer, std::string>> WorkerTable::silent(SteadyTime now) const {
  std::vector<std::pair<WorkerPeer, std::string>> found;
  for (const auto& [peer, worker] : workers_) {
    const bool dead = worker.joined ? worker.heard.dead(now) : worker.heard.silence(now) > kComingLimit;
    if (dead) found.emplace_back(peer, in_words(worker.heard, now));
  }
  return found;
}

}  // namespace paceline::coordinator
