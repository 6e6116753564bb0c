// Versions of a shard from the gradients of this host alone.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/processes/server_process/commits.h"
#include "paceline/processes/server_process/gradients.h"
#include "paceline/processes/server_process/host_mirror.h"
#include "paceline/processes/server_process/kept_shards.h"

namespace paceline::server_process {

class LocalCommits final : public Commits {
 public:
  // `mirror`: of the own shard; nothing if all workers read where it lies. Both others outlive this.
  LocalCommits(const KeptShards& shards, Gradients& gradients, std::optional<HostMirror> mirror)
      : shards_(shards), gradients_(gradients), mirror_(std::move(mirror)) {}

  std::vector<std::string> boards() const override { return {shards_.own().board().path()}; }
  std::string mirror() const override { return mirror_ ? mirror_->path() : ""; }
  absl::Status keep_in_host(Version version) override;
  absl::Status map_gradient(const wire::MapGradient& order) override;
  absl::Status unmap_gradient(std::int32_t replica) override {
    gradients_.unmap(replica);
    return absl::OkStatus();
  }
  absl::Status send_early(const wire::SendEarly&) override { return no_other_hosts(); }
  absl::Status make(const wire::Apply& order) override;
  absl::Status prepare(const wire::Apply&) override { return no_other_hosts(); }
  absl::Status send_ahead(const wire::Apply&) override { return no_other_hosts(); }
  void publish(Version) override {}
  void want(int, Version) override {}
  bool keeps_elsewhere(Version) override { return false; }
  void drop(Version version, bool checkpoint) override {
    if (mirror_ && !checkpoint) mirror_->drop(version);
  }
  void release_reader(int slot) override {
    if (mirror_) mirror_->release_reader(slot);
  }
  bool host_lost() override { return false; }

 private:
  // No version is copied that no worker needs.
  absl::Status show_to_host();
  static absl::Status no_other_hosts() {
    return absl::InternalError("the coordinator speaks of other hosts, and the job has none");
  }

  const KeptShards& shards_;
  Gradients& gradients_;
  std::optional<HostMirror> mirror_;
};

}  // namespace paceline::server_process
