#include "paceline/cli/role_commands.h"

#include <memory>

#include "paceline/coordinator_process/coordinator_role.h"
#include "paceline/server/server_role.h"

namespace paceline::cli {

void add_reach(CLI::App& role, peer::PeerOptions& options) {
  role.add_option("--coordinator", options.coordinator, "HOST:PORT, or @FILE with such a line")->required();
  role.add_option("--patience", options.patience_s,
                  "with a coordinator that is gone, in seconds; 60 without it")
      ->check(CLI::PositiveNumber);
  role.add_option("--certs", options.certs, "the folder of this job's certificates");
  role.add_option("--token-file", options.token_file, "the job's token; certs/token without it");
}

void add_coordinator(CLI::App& app, Command& command) {
  auto own = std::make_shared<coordinator_process::CoordinatorRoleOptions>();
  CLI::App* coordinator = app.add_subcommand("coordinator", "one role: decides who commits and who goes on");
  coordinator->add_option("run", own->run, "the run folder")->required();
  coordinator->add_flag_callback(
      "--resume", [own] { own->go_on = runs::GoOn::kYes; }, "from the newest checkpoint in it");
  coordinator->add_flag_callback(
      "--again", [own] { own->go_on = runs::GoOn::kIfThereIsACheckpoint; }, "the same, or from the start");
  coordinator->add_option("--listen", own->listen, "HOST:PORT, instead of the job's");
  coordinator->add_option("--certs", own->certs, "of this host, instead of the job's");
  coordinator->add_option("--token-file", own->token_file, "likewise");
  coordinator->add_flag("--new-token", own->new_token, "instead of the one in the run folder");
  coordinator->add_option("--host", own->host, "of several, that this is; 0 without it");
  coordinator->add_option("--reached-at", own->reached_at, "address of this host that the others reach");
  coordinator->add_option("--without", own->without, "a host that is lost and not waited for any more");
  coordinator->add_option("--address-fd", own->address_fd, "descriptor to write the address to");
  coordinator->add_option("--listen-fd", own->listen_fd, "descriptor of a socket that listens there already");
  coordinator->callback(
      [own, &command] { command = [own] { return exit_of(coordinator_process::run_coordinator(*own)); }; });
}

void add_server(CLI::App& app, Command& command) {
  auto shard = std::make_shared<server::ServerRoleOptions>();
  CLI::App* server = app.add_subcommand("server", "one role: keeps a shard of the weights");
  add_reach(*server, shard->reach);
  server->add_option("--shard", shard->shard, "which shard, from 0; which host, where there are several");
  server->add_option("--exchange", shard->exchange,
                     "address of this host that the other hosts' servers reach");
  server->add_option(
      "--fabric", shard->fabric,
      "what carries it between hosts: sealed, or for a job with cluster.seal = false tcp, ucx or "
      "auto");
  server->callback([shard, &command] { command = [shard] { return exit_of(server::run_server(*shard)); }; });
}

}  // namespace paceline::cli
