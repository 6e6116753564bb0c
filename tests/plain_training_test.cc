// Training through the whole system equals plain libtorch training on the same global batches: with one
// worker, and with BSP over several, on one shard or more.
#include <gtest/gtest.h>
#include <torch/nn/functional/loss.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "paceline/base/sample_order.h"
#include "paceline/computing/train/dataset.h"
#include "paceline/computing/train/local_model.h"
#include "paceline/computing/train/model.h"
#include "paceline/formats/config/job_config.h"
#include "tests/program.h"
#include "tests/recorded_run.h"
#include "tests/small_job.h"

namespace paceline::tests {
namespace {

constexpr std::size_t kSteps = 20;

struct Case {
  std::string name;
  int replicas;
  int servers;
  std::string optimizer;  // the [optimizer] section
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

std::unique_ptr<torch::optim::Optimizer> plain_optimizer(const config::JobConfig& job,
                                                         std::vector<torch::Tensor> weights) {
  const ps::OptimizerConfig& optimizer = job.optimizer;
  if (optimizer.kind == ps::OptimizerKind::kSgd) {
    return std::make_unique<torch::optim::SGD>(weights, torch::optim::SGDOptions(job.learning_rate)
                                                            .momentum(optimizer.momentum)
                                                            .weight_decay(optimizer.weight_decay));
  }
  const auto betas = std::make_tuple(optimizer.beta1, optimizer.beta2);
  if (optimizer.kind == ps::OptimizerKind::kAdam) {
    return std::make_unique<torch::optim::Adam>(weights, torch::optim::AdamOptions(job.learning_rate)
                                                             .betas(betas)
                                                             .eps(optimizer.epsilon)
                                                             .weight_decay(optimizer.weight_decay));
  }
  return std::make_unique<torch::optim::AdamW>(weights, torch::optim::AdamWOptions(job.learning_rate)
                                                            .betas(betas)
                                                            .eps(optimizer.epsilon)
                                                            .weight_decay(optimizer.weight_decay));
}

// The losses of an ordinary training loop: one model, one optimizer, one batch a step.
std::vector<double> plain_losses(const config::JobConfig& job) {
  const train::DataSets data = *train::load_data(job.data, job.model.context);
  auto model = *train::make_model(job.model, data.train->sample_shape(), data.train->classes(), job.seed);
  const auto optimizer = plain_optimizer(job, model->parameters());
  SampleOrder order(job.seed, data.train->size());
  const auto global = static_cast<std::int64_t>(job.devices.size()) * job.devices[0].batch;
  std::vector<double> losses;
  for (std::size_t step = 0; step < kSteps; ++step) {
    const auto begin = static_cast<std::int64_t>(step) * global;
    const train::Batch batch = data.train->batch(order.samples({0, begin, begin + global}), 0);
    optimizer->zero_grad();
    const torch::Tensor logits = model->forward(batch.inputs);
    const torch::Tensor loss = torch::nn::functional::cross_entropy(logits.reshape({-1, logits.size(-1)}),
                                                                    batch.targets.reshape({-1}));
    loss.backward();
    optimizer->step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

class PlainTraining : public testing::TestWithParam<Case> {};

TEST_P(PlainTraining, GivesTheSameLosses) {
  const TempFolder folder;
  const Case& one = GetParam();
  const auto job = small_job(folder.path(), "epochs = 1\n");
  write_text(
      job, read_text(job) + fmt::format("[optimizer]\n{}\n[cluster]\nservers = {}\n[[device]]\ncount = {}\n",
                                        one.optimizer, one.servers, one.replicas));
  const Ended ended = run({"train", job.string()});
  ASSERT_EQ(ended.status, 0) << ended.errors;
  const auto losses = RecordedRun::read(only_run(folder / "runs")).commit_losses();
  const auto expected = plain_losses(*config::parse_job(read_text(job), "job.toml"));
  ASSERT_GE(losses.size(), kSteps);
  for (std::size_t step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(losses[step], expected[step], 1e-5 * expected[step]) << "step " << step;
  }
  EXPECT_LT(expected.back(), expected.front()) << "a loop that learns nothing proves nothing";
}

INSTANTIATE_TEST_SUITE_P(
    Cases, PlainTraining,
    testing::Values(Case{"sgd_1", 1, 1, "name = \"sgd\"\nlr = 0.5\nmomentum = 0.9\nweight_decay = 1e-3"},
                    Case{"sgd_3_on_2_servers", 3, 2,
                         "name = \"sgd\"\nlr = 0.5\nmomentum = 0.9\nweight_decay = 1e-3"},
                    Case{"adam_2", 2, 1, "name = \"adam\"\nlr = 0.01\nweight_decay = 1e-3"},
                    Case{"adamw_2_on_3_servers", 2, 3, "name = \"adamw\"\nlr = 0.01\nweight_decay = 0.1"}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace paceline::tests
