#include "paceline/tools/cli/joined_hosts.h"

#include <functional>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/host_port.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/processes/launch/print.h"
#include "paceline/records/store/files.h"
#include "paceline/tools/cli/node_command.h"
#include "paceline/tools/cli/shared_certificates.h"

namespace paceline::cli {

namespace {

constexpr std::size_t kFirstPort = 20'000, kPorts = 10'000;

absl::StatusOr<launch::Placement> place_of(const launch::Tasks& tasks, const launch::SaidPlacement& said,
                                           const launch::Environment& environment) {
  auto placement = launch::find_placement(environment, said);
  launch::SaidPlacement with_address = said;
  with_address.coordinator = "127.0.0.1:1";
  const bool lacks_address = !placement.ok() && launch::find_placement(environment, with_address).ok();
  if (!lacks_address) return placement;
  return absl::InvalidArgumentError(fmt::format(
      "{} started this command {} times on {} hosts, and nothing says where the first host is; set "
      "MASTER_ADDR to its name in the environment of all tasks",
      tasks.starter, tasks.count, tasks.on_host.size()));
}

std::string in_words(const launch::Tasks& tasks) {
  if (tasks.one_a_host())
    return fmt::format("{} started {} tasks on as many hosts; they become the hosts of one job\n",
                       tasks.starter, tasks.count);
  return fmt::format("{} started {} tasks on {} hosts; they become the {} workers of one job\n",
                     tasks.starter, tasks.count, tasks.on_host.size(), tasks.count);
}

}  // namespace

absl::StatusOr<int> train_on_hosts(const launch::Tasks& tasks, const launch::Environment& environment,
                                   TrainOptions train,
                                   std::function<void(const std::string& job_file)> tell_tasks) {
  const launch::SaidPlacement said{.rank = tasks.host, .hosts = std::ssize(tasks.on_host)};
  PACELINE_ASSIGN_OR_RETURN(const launch::Placement placement, place_of(tasks, said, environment));
  PACELINE_ASSIGN_OR_RETURN(config::JobConfig job,
                            config::parse_job(train.text, "the command line", train.sets));
  PACELINE_ASSIGN_OR_RETURN(const std::string runs_dir, store::absolute_path(job.runs_dir));
  SharedCertificates certificates(runs_dir, tasks, placement.rank == 0);
  if (job.reach.token_file.empty()) {
    PACELINE_ASSIGN_OR_RETURN(const std::string certs, certificates.folder_of_job(job.name));
    train.sets.push_back("network.certs=" + certs);
  }
  // Two jobs with the same first host need two ports, and all hosts of a job
  // have to know one.
  if (job.reach.listen == config::JobConfig{}.reach.listen) {
    const bool here = config::is_loopback(host_port(placement.first_host, "0"));
    const bool ipv6 = placement.first_host.find(':') != std::string::npos;
    const std::string own = !here ? "0.0.0.0" : ipv6 ? "[::1]" : "127.0.0.1";
    train.sets.push_back(
        fmt::format("network.listen={}:{}", own, kFirstPort + std::hash<std::string>{}(tasks.name) % kPorts));
  }
  if (placement.rank == 0 && train.shown != launch::Shown::kNothing) launch::print(stderr, in_words(tasks));
  return node_command(
      {.train = std::move(train), .place = {.said = said}, .anew = true, .tell_tasks = std::move(tell_tasks)},
      environment);
}

}  // namespace paceline::cli
