// The data and the model that the first worker reported. All others have to report the same. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/messages.h"

namespace paceline::coordinator {

class JobFacts {
 public:
  // `worker`, on `host`, was the first.
  JobFacts(std::string worker, HostRank host, WorkerAttached first)
      : worker_(std::move(worker)), host_(host), first_(std::move(first)) {}

  // Errors: InvalidArgument when that worker has other data, built another model or would cut it elsewhere, has other
  // values in a frozen tensor, or brings another state of the optimizer.
  absl::Status agrees(const std::string& worker, HostRank host, const WorkerAttached& attached) const;
  // The names of constants that have other values in that worker. All workers use one worker's constants, so
  // the run works; but a person may have loaded the wrong file.
  std::vector<std::string> other_constants(const WorkerAttached& attached) const;
  // True if that worker begins with other weights and is on another host, whose servers begin with them.
  bool other_weights(HostRank host, const WorkerAttached& attached) const;
  // "w0 on host 0": the first worker.
  std::string first() const;

 private:
  absl::Status cuts_agree(const std::string& worker, HostRank host, const WorkerAttached& attached) const;
  absl::Status states_agree(const std::string& worker, const WorkerAttached& attached) const;
  absl::Status frozen_agree(const std::string& worker, const WorkerAttached& attached) const;

  const std::string worker_;
  const HostRank host_;
  const WorkerAttached first_;
};

}  // namespace paceline::coordinator
