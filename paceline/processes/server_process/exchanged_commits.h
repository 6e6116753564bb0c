// Versions of a server's shards from the gradients of several hosts (exchange::CommitExchange).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/formats/config/job_config.h"
#include "paceline/parameters/exchange/commit_exchange.h"
#include "paceline/parameters/exchange/exchange.h"
#include "paceline/processes/server/shards.h"
#include "paceline/processes/server_process/commits.h"
#include "paceline/processes/server_process/gradients.h"
#include "paceline/processes/server_process/kept_shards.h"

namespace paceline::server_process {

class ExchangedCommits final : public Commits {
 public:
  // Starts the exchange, whose thread calls `traffic`. `shards` and `gradients` outlive this; this outlives the exchange. Errors: Internal if the
  // order makes no sense; those of Exchange::start().
  static absl::StatusOr<std::unique_ptr<ExchangedCommits>> start(
      const wire::ServerStart& order, const config::JobConfig& job, const KeptShards& shards,
      Gradients& gradients, exchange::Exchange& exchange, const server::Shards::Traffic& traffic);
  // Sends the first weights from the second host to the first one, which has no worker and starts its shards with
  // them. `first`: on the second host, that of the whole model. Errors: FailedPrecondition if the optimizer has a state,
  // which does not go this way; those of the exchange and of the memory.
  absl::Status pass_on_first(const FirstWeights& first);

  std::vector<std::string> boards() const override { return exchange_.boards(); }
  absl::Status map_gradient(const wire::MapGradient& order) override;
  absl::Status unmap_gradient(std::int32_t replica) override;
  absl::Status send_early(const wire::SendEarly& order) override;
  absl::Status make(const wire::Apply& order) override;
  absl::Status prepare(const wire::Apply& order) override;
  absl::Status send_ahead(const wire::Apply& order) override;
  void publish(Version version) override;
  void want(int host, Version version) override { exchange_.want(host, version); }
  bool keeps_elsewhere(Version version) override;
  void drop(Version version, bool checkpoint) override;
  void release_reader(int slot) override { exchange_.release_reader(slot); }
  bool host_lost() override { return exchange_.ended(); }

 private:
  ExchangedCommits(const KeptShards& shards, Gradients& gradients, exchange::Exchange& exchange, int host,
                   int evaluator_host)
      : shards_(shards),
        gradients_(gradients),
        exchange_(exchange),
        host_(host),
        evaluator_host_(evaluator_host) {}

  absl::StatusOr<int> host_of(std::int32_t replica) const;
  absl::StatusOr<std::vector<exchange::HostMember>> members_of(const wire::Apply& order);

  const KeptShards& shards_;
  Gradients& gradients_;
  exchange::Exchange& exchange_;
  const int host_;  // this one
  const int evaluator_host_;
  std::map<std::int32_t, int> hosts_;  // key: replica
  std::optional<exchange::CommitExchange> commits_;
};

}  // namespace paceline::server_process
