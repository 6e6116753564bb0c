// The workers of a run from the coordinator's view, one for each device: which worker has which place in the
// job, how far each has come in joining, and which have gone silent. Pure.
//
// Invariant: a place has at most one worker at a time, and no two workers ever have the same number.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/actions.h"
#include "paceline/decisions/coordinator/job_settings.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/phi_accrual.h"
#include "paceline/decisions/coordinator/refusal.h"

namespace paceline::coordinator {

struct Worker {
  WorkerPeer peer;
  std::int32_t number = 0;  // from 0, never used twice in a run
  int reader = 0;           // its number as a reader of the weights; no two that are here have the same
  DevicePlace device{};     // its place in the job
  HostPlace host{};         // host of the device
  std::string name;         // name of the device
  std::optional<WorkerAttached> attached;
  bool boards_sent = false;
  bool joined = false;
  std::optional<ReplicaId> replica;  // the replica in which it has a role
  bool takes_last = false;      // the worker was asked to take the job's last weights, and has not answered
  std::vector<ReplicaId> left;  // replicas that ended since it was last told to sum with others
  PhiAccrual heard;
};

class WorkerTable {
 public:
  // `job` outlives the table.
  explicit WorkerTable(const JobSettings& job)
      : places_(job.devices), left_out_(job.left_out), readers_(most_readers(job.hosts)) {}

  // Gives the worker its place, or returns why not: there is no such name, or it is taken.
  std::optional<Refusal> take_place(WorkerPeer peer, const std::string& name, SteadyTime at);
  // Removes the worker, and returns it; nothing when there was none.
  std::optional<Worker> remove(WorkerPeer peer);

  // Null if the worker is not here.
  Worker* find(WorkerPeer peer);
  Worker* at(DevicePlace device);
  // A worker on that host that has attached.
  const Worker* first_attached(HostPlace host) const;
  // The one whose program writes what one process of a job writes: the first place whose worker has the last weights, if
  // there is such a worker. Nothing if no worker is here.
  std::optional<WorkerPeer> first_left() const;
  // The worker on that host whose gradient is at this path.
  const Worker* with_memory(HostPlace host, const std::string& gradient_path) const;
  // All places, in their order.
  std::vector<DevicePlace> devices() const;
  // The places whose workers are not here.
  std::vector<DevicePlace> missing() const;
  std::vector<std::string> names(const std::vector<DevicePlace>& devices) const;
  bool here(DevicePlace device) const { return by_device_.contains(device); }
  std::map<WorkerPeer, Worker>& all() { return workers_; }
  const std::map<WorkerPeer, Worker>& all() const { return workers_; }
  std::size_t size() const { return workers_.size(); }
  // The hosts that have a worker.
  std::set<HostPlace> hosts() const;

  // The workers that have been silent for too long (after joining, by their own rhythm), and why.
  std::vector<std::pair<WorkerPeer, std::string>> silent(SteadyTime now) const;

 private:
  static int most_readers(std::int64_t hosts);
  int free_reader();

  const std::vector<JobSettings::Device>& places_;
  const std::vector<std::string>& left_out_;  // names of devices that were left out
  std::map<WorkerPeer, Worker> workers_;
  std::map<DevicePlace, WorkerPeer> by_device_;
  std::int32_t next_number_ = 0;
  const int readers_;
  int last_reader_ = -1;
};

}  // namespace paceline::coordinator
