// The processes of a worker and of the evaluator in the made-up cluster: they send the messages of real ones,
// and compute nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "paceline/simulation/cluster_sim/server_process.h"

namespace paceline::cluster_sim {

class WorkerProcess final : public Process {
 public:
  // `job_host`: its device's, also if one launcher has the processes of all hosts.
  WorkerProcess(Cluster& cluster, std::string name, Home home, int job_host, double pace_ms);

  // Called when new weights may be there.
  void look_for_weights();

 private:
  void begin() override;
  void gone() override;
  void make_memory();
  void connect();
  void lost();
  void beat();
  void take(const wire::WorkerOrder& order);
  void compute(const wire::WorkerRelease& release);
  void say(wire::WorkerMessage message);
  void tell_servers(std::int64_t clock);

  Cluster& cluster_;
  const int job_host_;
  const double pace_ms_;
  std::shared_ptr<Stream<WorkerKind>> stream_;
  std::string path_;
  int memories_ = 0;
  std::optional<std::int32_t> replica_;
  std::optional<wire::WorkerRelease> waiting_;  // a release that waits for its weights
  std::string attempt_;                         // the attempt whose weights it reads
  std::uint64_t iteration_ = 0;
};

class EvaluatorProcess final : public Process {
 public:
  EvaluatorProcess(Cluster& cluster, Home home);

 private:
  void begin() override;
  void gone() override;
  void connect();
  void lost();
  void beat();
  void take(const wire::EvaluatorOrder& order);

  Cluster& cluster_;
  std::shared_ptr<Stream<EvaluatorKind>> stream_;
};

}  // namespace paceline::cluster_sim
