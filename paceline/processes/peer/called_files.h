// The files of a checkpoint in the run folder of another host: its coordinator takes and gives them in calls.
// Files that were read stay in memory of this process until this object is destroyed.
#pragma once

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/processes/peer/peer.h"
#include "paceline/processes/rpc/access.h"
#include "paceline/records/store/checkpoint_files.h"

namespace paceline::peer {

class CalledFiles final : public store::CheckpointFiles {
 public:
  // `names`: the files that are there; none for a checkpoint that is being written. Calls under way end when
  // a stop is asked for. All other arguments outlive this object.
  CalledFiles(Stub& stub, const rpc::Access& access, std::string dir, std::vector<std::string> names,
              std::stop_token stop);

  // Errors of the sink: those of the other host's disk; Unavailable if that host is gone.
  absl::StatusOr<std::unique_ptr<store::FileSink>> create(const std::string& name) override;
  absl::StatusOr<std::vector<std::string>> names() override { return names_; }
  absl::StatusOr<std::filesystem::path> to_read(const std::string& name) override;
  // Copies the file to the sink, and commits it.
  absl::Status copy(const std::string& name, store::FileSink& to);
  std::string where() const override { return dir_; }
  absl::Status in_words(const absl::Status& status) const override;

 private:
  struct Fetched {
    std::string name;
    FileDescriptor memory;
    std::string path;  // the path of `memory`
  };

  Stub& stub_;
  const rpc::Access& access_;
  const std::string dir_;
  const std::vector<std::string> names_;
  const std::stop_token stop_;
  std::vector<Fetched> fetched_;
};

}  // namespace paceline::peer
