// What the first worker said of the job: its data and its model. All others have to say the same. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <absl/status/status.h>

#include "paceline/wire/paceline.pb.h"

namespace paceline::coordinator {

class JobFacts {
 public:
  explicit JobFacts(wire::WorkerAttached first) : first_(std::move(first)) {}

  // Errors: InvalidArgument when that worker has other data, or built another model.
  absl::Status agrees(const std::string& worker, const wire::WorkerAttached& attached) const;
  // The constants that have other values there, by their names. One worker's are everybody's, so nothing
  // breaks; but somebody may have loaded the wrong file.
  std::vector<std::string> other_constants(const wire::WorkerAttached& attached) const;

 private:
  const wire::WorkerAttached first_;
};

}  // namespace paceline::coordinator
