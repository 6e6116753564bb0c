#include "paceline/tools/cli/role_commands.h"

#include <memory>

#include "paceline/processes/coordinator_process/coordinator_role.h"
#include "paceline/processes/server_process/server_role.h"
#include "paceline/tools/cli/number_checks.h"

namespace paceline::cli {

void add_reach(CLI::App& role, peer::PeerOptions& options) {
  role.add_option("--coordinator", options.coordinator, "HOST:PORT, or @FILE: a file that holds it")
      ->required();
  role.add_option("--patience", options.patience_s,
                  "how many seconds to wait for a coordinator that is gone; 60 without it")
      ->check(above_zero());
  role.add_option("--first-patience", options.first_patience_s,
                  "how many seconds to wait for a coordinator that does not listen yet; 60 without it")
      ->check(above_zero());
  role.add_option("--certs", options.certs, "the folder with the job's certificates");
  role.add_option("--token-file", options.token_file,
                  "the file with the job's token; certs/token without it");
}

void add_coordinator(CLI::App& app, Command& command) {
  auto own = std::make_shared<coordinator_process::CoordinatorRoleOptions>();
  CLI::App* coordinator =
      app.add_subcommand("coordinator", "one process of a job: decides who commits and who goes on");
  coordinator->add_option("run", own->run, "the run folder")->required();
  coordinator->add_flag_callback(
      "--resume", [own] { own->go_on = runs::GoOn::kYes; }, "go on from the run's newest checkpoint");
  coordinator->add_flag_callback(
      "--again", [own] { own->go_on = runs::GoOn::kIfThereIsACheckpoint; },
      "go on from the run's newest checkpoint; if there is none, begin at the start");
  coordinator->add_option("--listen", own->listen, "HOST:PORT to listen at, instead of the job's");
  coordinator->add_option("--certs", own->certs, "folder of this host's certificates, instead of the job's");
  coordinator->add_option("--token-file", own->token_file, "file of this host's token, instead of the job's");
  coordinator->add_flag("--new-token", own->new_token,
                        "make a new token, which replaces the one in the run folder");
  coordinator->add_option("--host", own->host, "number of this host; 0 without it");
  coordinator->add_option("--reached-at", own->reached_at, "address where the other hosts reach this one");
  coordinator->add_option("--without", own->without, "number of a lost host that the run does not wait for");
  coordinator->add_flag("--hosts-start", own->hosts_start,
                        "wait ten minutes for the other hosts first: they may still be starting");
  coordinator->add_flag("--only-checkpoint", own->only_checkpoint,
                        "go on from the checkpoint, even if servers still have later weights");
  coordinator->add_flag("--shared-folder", own->shared_folder,
                        "all hosts see the run folder; without it, as the job says");
  coordinator->add_option("--address-fd", own->address_fd, "file descriptor to write the address to");
  coordinator->add_option("--listen-fd", own->listen_fd,
                          "file descriptor of a socket that listens there already");
  coordinator->callback(
      [own, &command] { command = [own] { return exit_of(coordinator_process::run_coordinator(*own)); }; });
}

void add_server(CLI::App& app, Command& command) {
  auto shard = std::make_shared<server_process::ServerRoleOptions>();
  CLI::App* server = app.add_subcommand("server", "one process of a job: keeps a shard of the weights");
  add_reach(*server, shard->reach);
  server->add_option("--shard", shard->shard,
                     "number of the server's shard, from 0; on several hosts, the number of its host");
  server->add_option("--exchange", shard->exchange,
                     "address where the servers of other hosts reach this one");
  server->add_option(
      "--fabric", shard->fabric,
      "how data travels between hosts: sealed; or tcp, ucx or auto for a job with cluster.seal = false");
  server->add_option("--keep", shard->keep, "file descriptors of its launcher's keep for its memory")
      ->expected(2);
  server->callback(
      [shard, &command] { command = [shard] { return exit_of(server_process::run_server(*shard)); }; });
}

}  // namespace paceline::cli
