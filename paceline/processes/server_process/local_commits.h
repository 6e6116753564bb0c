// Versions of a shard from the gradients of this host alone.
#pragma once

#include "paceline/processes/server_process/commits.h"
#include "paceline/processes/server_process/gradients.h"
#include "paceline/processes/server_process/kept_shards.h"

namespace paceline::server_process {

class LocalCommits final : public Commits {
 public:
  // Both outlive this.
  LocalCommits(const KeptShards& shards, Gradients& gradients) : shards_(shards), gradients_(gradients) {}

  std::vector<std::string> boards() const override { return {shards_.own().board().path()}; }
  absl::Status map_gradient(const wire::MapGradient& order) override {
    return gradients_.map(order.replica(), order.path());
  }
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
  void drop(Version, bool) override {}
  void release_reader(int) override {}
  bool host_lost() override { return false; }

 private:
  static absl::Status no_other_hosts() {
    return absl::InternalError("the coordinator speaks of other hosts, and the job has none");
  }

  const KeptShards& shards_;
  Gradients& gradients_;
};

}  // namespace paceline::server_process
