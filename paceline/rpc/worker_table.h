// The workers of a run as the coordinator sees them: who has which place in the job, how far each has come on
// its way into it, and who has gone silent. Of the event loop's thread.
//
// What always holds: a place has at most one worker at a time, and no two workers ever had the same replica.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/ids.h"
#include "paceline/config/job_config.h"
#include "paceline/rpc/paceline.pb.h"
#include "paceline/rpc/peer_stream.h"

namespace paceline::rpc {

using WorkerStream = PeerStream<wire::WorkerMessage, wire::WorkerOrder>;

struct Worker {
  WorkerStream::Pointer stream;
  ReplicaId replica;
  const config::ReplicaConfig* place = nullptr;
  std::optional<wire::WorkerAttached> attached;
  bool boards_sent = false;
  bool joined = false;
  std::vector<ReplicaId> left;  // replicas that have gone since it was last told to sum with others
  std::chrono::steady_clock::time_point heard;
  std::chrono::duration<double> rhythm{0};  // moving average between two messages
};

class WorkerTable {
 public:
  // `places` outlives the table.
  explicit WorkerTable(const std::vector<config::ReplicaConfig>& places);

  // The worker has that place from now on. Errors: there is none of that name, or it is taken.
  absl::StatusOr<ReplicaId> take_place(const WorkerStream::Pointer& stream, const std::string& name);
  // The worker that was there; nothing when there was none.
  std::optional<Worker> remove(const WorkerStream::Pointer& stream);

  // Null when it is not here.
  Worker* find(const WorkerStream::Pointer& stream);
  Worker* find(ReplicaId replica);
  std::map<WorkerStream*, Worker>& all() { return workers_; }
  std::size_t size() const { return workers_.size(); }

  // A message of it came.
  static void hear(Worker& worker);
  // Those that joined and have said nothing for too long by their own rhythm: the stream, and how long.
  std::vector<std::pair<WorkerStream::Pointer, std::chrono::duration<double>>> silent() const;

 private:
  ReplicaId new_replica(std::ptrdiff_t place);

  const std::vector<config::ReplicaConfig>& places_;
  std::map<WorkerStream*, Worker> workers_;
  std::map<ReplicaId, WorkerStream*> by_replica_;
  std::set<std::ptrdiff_t> places_taken_;  // ever
  ReplicaId next_replica_;
};

}  // namespace paceline::rpc
