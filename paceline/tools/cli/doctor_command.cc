#include "paceline/tools/cli/doctor_command.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <grpc/support/log.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "paceline/base/program_version.h"
#include "paceline/base/rng.h"
#include "paceline/base/status_macros.h"
#include "paceline/formats/config/card_memory.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/processes/launch/own_address.h"
#include "paceline/processes/launch/print.h"
#include "paceline/processes/peer/grpc_log.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/records/pages/json_values.h"
#include "paceline/records/store/strict_json.h"
#include "paceline/tools/cli/build_id.h"
#include "paceline/tools/cli/doctor_client.h"
#include "paceline/tools/cli/doctor_messages.h"
#include "paceline/tools/cli/examine_hosts.h"
#include "paceline/tools/cli/host_findings.h"
#include "paceline/tools/cli/models_command.h"
#include "paceline/tools/cli/program_probe.h"
#include "paceline/tools/cli/torch_program.h"
#include "paceline/tools/cli/unused_gpu.h"
#include "paceline/tools/doctor/cluster_report.h"
#include "paceline/tools/doctor/shared_cards.h"
#include "paceline/transport/links/fabric.h"

namespace paceline::cli {

namespace {

constexpr char kToFix[] = "something has to be fixed: host 0 has the report";

void print(const std::vector<Finding>& findings) {
  for (const Finding& one : findings) {
    launch::print(stdout, fmt::format("{:<5} {:<16} {}\n", word_of(one.health), one.what, one.says));
    if (!one.fix.empty()) launch::print(stdout, fmt::format("{:22} fix: {}\n", "", one.fix));
  }
}

void print_json(const std::vector<Finding>& findings) {
  auto document = nlohmann::json::array();
  for (const Finding& one : findings) {
    document.push_back(
        {{"what", one.what}, {"health", word_of(one.health)}, {"says", one.says}, {"fix", one.fix}});
  }
  launch::print(stdout, fmt::format("{}\n", report::indented(document)));
}

int report(const std::vector<Finding>& findings, bool json) {
  json ? print_json(findings) : print(findings);
  const bool failed = std::any_of(findings.begin(), findings.end(),
                                  [](const Finding& one) { return one.health == Health::kFail; });
  return failed ? 2 : 0;
}

// Whether NVIDIA's MPS runs, as programs find it.
bool has_mps() {
  const char* folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  std::error_code error;
  return std::filesystem::exists(
      std::filesystem::path(folder != nullptr ? folder : "/tmp/nvidia-mps") / "control", error);
}

// A job, its resolved text, the command line's words about it, and this host's place among the job's hosts.
struct ExaminedJob {
  const config::JobConfig& job;
  const std::string& toml;
  TrainOptions asked;
  std::int64_t host = 0;

  std::int64_t workers() const {
    return std::count_if(job.devices.begin(), job.devices.end(),
                         [this](const auto& one) { return one.host == host; });
  }
};

void add_unless_fits(const ExaminedJob& of, const absl::Status& fits, std::vector<Finding>& findings) {
  if (fits.ok()) return;
  findings.push_back({"job", Health::kFail, std::string(with_origin(fits, of.asked).message()),
                      "change the job; training refuses it too"});
}

// The job's program is started for that, as a run would do.
std::string data_of_program(const ExaminedJob& of, std::vector<Finding>& findings) {
  const config::JobConfig& job = of.job;
  const auto model = probe_program(job, "", AskMemory::kYes);
  if (!model.ok()) {
    findings.push_back({"program", Health::kFail, std::string(model.status().message()),
                        "start it by hand on this host, as the job does, and install what it does not find"});
    return "";
  }
  findings.push_back({"program", Health::kOk,
                      fmt::format("{} starts{}", config::named(*job.program),
                                  model->device.empty() ? "" : ", and computes on " + model->device),
                      ""});
  if (model->device == "cpu" && has_gpu()) {
    findings.push_back({"program", Health::kWarn, "it computes on the processor, and this host has a GPU",
                        "install a PyTorch for that GPU, and move the model there before join()"});
  }
  if (!model->card.empty()) {
    if (auto shared = doctor::shared_cards(of.workers(), model->cards, has_mps()))
      findings.push_back(*std::move(shared));
  }
  const std::string memory = config::free_memory_words(job, of.host, model->free_memory);
  if (!memory.empty()) findings.push_back({"memory", Health::kOk, memory, ""});
  add_unless_fits(of, with_program(job, of.toml, *model, of.asked).status(), findings);
  return fmt::format("{} samples, {} tensors of {} numbers{}", model->samples, model->layout.tensors().size(),
                     model->layout.size(),
                     model->digest.empty() ? "" : ", " + store::printable(model->digest));
}

// The checks of a training before it starts.
absl::Status check_model(const ExaminedJob& of) {
  PACELINE_ASSIGN_OR_RETURN(const std::string said, ask_torch_program(TorchQuestion::kSizes, of.toml));
  PACELINE_ASSIGN_OR_RETURN(const JobSizes sizes, sizes_in(said));
  return check_fits(of.job, sizes);
}

// A digest of the data set that hosts can compare; empty, with a finding, if it cannot be read.
std::string data_of(const ExaminedJob& of, std::vector<Finding>& findings) {
  if (of.job.program) return data_of_program(of, findings);
  const auto said = ask_torch_program(TorchQuestion::kHost, of.toml);
  if (!said.ok()) {
    findings.push_back({"libtorch", Health::kFail, std::string(said.status().message()),
                        "install paceline-torch beside paceline"});
    return "";
  }
  const HostAnswer host = host_answer_in(*said);
  findings.push_back({"libtorch", Health::kOk, host.libtorch, ""});
  if (host.data.ok()) {
    add_unless_fits(of, check_model(of), findings);
    return *host.data;
  }
  findings.push_back({"data set", Health::kFail,
                      std::string(with_origin(host.data.status(), of.asked).message()),
                      "copy the data here, or name those that are here"});
  return "";
}

absl::StatusOr<config::JobConfig> asked_job(const DoctorOptions& options) {
  PACELINE_ASSIGN_OR_RETURN(const JobText said,
                            job_text({.job_file = options.job_file, .sets = options.sets}));
  return config::parse_job(said.text, said.file, options.sets);
}

// This host's place among those of a job.
struct Place {
  launch::Placement placement;
  config::JobConfig job;
  std::string job_toml;
  std::string address;
  links::Fabric fabric = links::Fabric::kSealed;
};

// The fabric that this host's server would use.
absl::StatusOr<links::Fabric> fabric_of(const config::JobConfig& job, const std::string& address) {
  const auto named = links::fabric_named(job.fabric);
  if (named) return *named;
  return links::fastest_in_the_clear(address);
}

absl::StatusOr<Place> find_place(const DoctorOptions& options, const launch::Placement& placement) {
  TrainOptions train{.job_file = options.job_file, .sets = options.sets};
  train.command = "paceline doctor";
  Place place;
  place.placement = placement;
  PACELINE_ASSIGN_OR_RETURN(place.job, job_of_hosts(train, placement));
  PACELINE_RETURN_IF_ERROR(check_reach(place.job, placement));
  PACELINE_ASSIGN_OR_RETURN(const JobText said, job_text(train));
  PACELINE_ASSIGN_OR_RETURN(place.job_toml, config::resolve_job(said.text, said.file, train.sets));
  PACELINE_ASSIGN_OR_RETURN(place.address,
                            own_address(options.place, placement, std::chrono::seconds(options.wait_s)));
  PACELINE_ASSIGN_OR_RETURN(place.fabric, fabric_of(place.job, place.address));
  return place;
}

ExaminedHost examined_host(const Place& place, std::int64_t wait_s, const std::vector<Finding>& findings,
                           const std::string& data) {
  ExaminedHost host;
  host.reach = {first_address(place.job, place.placement), place.job.reach.certs, place.job.reach.token_file};
  host.reach.patience_s = static_cast<double>(wait_s);
  host.address = place.address;
  host.hello.set_host(static_cast<std::int32_t>(place.placement.rank));
  host.hello.set_hosts(static_cast<std::int32_t>(place.placement.hosts));
  host.hello.set_address(place.address);
  host.hello.set_fabric(std::string(links::name_of(place.fabric)));
  host.hello.set_version(kProgramVersion);
  host.hello.set_build(program_hash());
  host.hello.set_job_toml(place.job_toml);
  host.hello.set_data(data);
  for (const Finding& one : findings) add_to_wire(one, host.hello);
  return host;
}

absl::StatusOr<int> examine_all(const DoctorOptions& options, const Place& place, ExaminedHost own) {
  const config::Reach& reach = place.job.reach;
  PACELINE_ASSIGN_OR_RETURN(const rpc::Access access,
                            peer::read_access(reach.certs, reach.token_file, security::Role::kCoordinator));
  const auto hosts = static_cast<int>(place.placement.hosts);
  gpr_set_log_function(peer::log_of_grpc);  // before the first connection can be refused
  PACELINE_ASSIGN_OR_RETURN(
      const auto server,
      rpc::DoctorServer::open(listen_address(place.job, place.placement, place.address), access, hosts,
                              [](const std::string& line) { spdlog::warn("{}", line); }));
  own.reach.coordinator = launch::from_here(server->address());
  // The client ends with the disconnect.
  const std::jthread own_client([&own] {
    if (const auto end = report_to_first_host(own); !end.ok())
      spdlog::warn("host 0 cannot be examined: {}", std::string(end.status().message()));
  });
  const auto facts =
      examine_hosts(*server, {place.job, place.job_toml, hosts, std::chrono::seconds(options.wait_s),
                              [](const std::string& line) { launch::print(stderr, line + "\n"); }});
  const auto findings = doctor::examine(facts);
  const bool failed = doctor::any_failed(findings);
  server->send_disconnect(failed, failed ? kToFix : "nothing has to be fixed");
  launch::print(stdout, options.json ? doctor::json_of(facts, findings) : doctor::text_of(facts, findings));
  return failed ? 2 : 0;
}

absl::StatusOr<int> be_examined(ExaminedHost own) {
  PACELINE_ASSIGN_OR_RETURN(const wire::Disconnect end, report_to_first_host(std::move(own)));
  if (end.refused()) return absl::FailedPreconditionError(end.why());
  return 0;
}

absl::StatusOr<int> examine_with_others(const DoctorOptions& options, const Place& place,
                                        std::vector<Finding> findings) {
  const std::string data = data_of(
      {place.job, place.job_toml, {.job_file = options.job_file, .sets = options.sets}, place.placement.rank},
      findings);
  ExaminedHost own = examined_host(place, options.wait_s, findings, data);
  const bool first = place.placement.rank == 0;
  auto ended = first ? examine_all(options, place, std::move(own)) : be_examined(std::move(own));
  // A host that is alone with what it found says so itself.
  if (!first || !ended.ok()) report(findings, options.json);
  return ended;
}

bool says_where(const PlaceOptions& place) {
  return place.said.rank || place.said.hosts || !place.said.coordinator.empty() || !place.address.empty();
}

}  // namespace

absl::StatusOr<int> doctor_command(const DoctorOptions& options, const launch::Environment& environment) {
  const bool of_job = !options.job_file.empty() || !options.sets.empty();
  if (!of_job && says_where(options.place))
    return absl::InvalidArgumentError(
        "write the job file too: --rank, --hosts, --coordinator and --address are for the hosts of a job");
  if (!of_job) return report(host_findings(), options.json);
  PACELINE_ASSIGN_OR_RETURN(const launch::Placement placement,
                            launch::find_placement(environment, options.place.said));
  const bool alone = placement.hosts == 1;
  // A wrong job is said before this host is examined.
  TrainOptions asked{.job_file = options.job_file, .sets = options.sets};
  asked.command = "paceline doctor";
  PACELINE_ASSIGN_OR_RETURN(config::JobConfig job,
                            alone ? asked_job(options) : job_of_hosts(asked, placement));
  std::vector<Finding> findings = host_findings();
  std::optional<Place> place;
  if (alone) {
    PACELINE_ASSIGN_OR_RETURN(const JobText said, job_text(asked));
    PACELINE_ASSIGN_OR_RETURN(const std::string job_toml,
                              config::resolve_job(said.text, said.file, options.sets));
    const ExaminedJob of{job, job_toml, asked};
    const std::string data = data_of(of, findings);
    if (!data.empty()) add_unless_fits(of, check_plan(job_toml, false), findings);
    if (!data.empty()) findings.push_back({"data set", Health::kOk, data, ""});
  } else {
    PACELINE_ASSIGN_OR_RETURN(place, find_place(options, placement));
    job = place->job;
  }
  if (placement.rank == 0)
    findings.push_back(port_finding(alone ? job.reach.listen : listen_address(job, placement)));
  for (Finding& one : job_findings(job)) findings.push_back(std::move(one));
  if (alone) return report(findings, options.json);
  return examine_with_others(options, *place, std::move(findings));
}

}  // namespace paceline::cli
