#include "paceline/computing/train/local_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#include <torch/types.h>

#include "paceline/base/rng.h"
#include "paceline/computing/train/model.h"
#include "paceline/computing/train/testing.h"
#include "paceline/computing/train/testing/bench.h"
#include "paceline/computing/train/threads.h"

namespace paceline::train {
namespace {

class ReplicaOf : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, ReplicaOf,
                         ::testing::Values("mlp", "cnn", "alexnet-small", "resnet20", "vgg11", "gpt-byte"),
                         [](const auto& param) {
                           std::string name = param.param;
                           name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
                           return name;
                         });

TEST_P(ReplicaOf, GradientIsAutogradsOwn) {
  Bench bench = bench_for(GetParam());
  const Batch batch = batch_for(GetParam(), 4);
  auto model = model_for(GetParam());
  const torch::Tensor logits = model->forward(batch.inputs);
  const torch::Tensor loss = torch::nll_loss(torch::log_softmax(logits.reshape({-1, logits.size(-1)}), 1),
                                             batch.targets.reshape({-1}));
  loss.backward();

  const auto result = bench.step(batch);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->loss, loss.item<double>(), 1e-6);
  const auto& tensors = bench.model->layout().tensors();
  const auto parameters = model->named_parameters();
  const auto buffers = model->named_buffers();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool statistic = tensors[i].kind == ps::TensorKind::kStatistic;
    const torch::Tensor expected = statistic ? buffers[tensors[i].name] : parameters[tensors[i].name].grad();
    EXPECT_TRUE(torch::allclose(bench.gradient(i), expected, 1e-6, 1e-6)) << tensors[i].name;
    EXPECT_GT(expected.abs().sum().item<double>(), 0) << tensors[i].name;
  }
}

// A write to the weights would end the process here.
TEST_P(ReplicaOf, WeightsAreOnlyRead) {
  Bench bench = bench_for(GetParam());
  bench.weights->make_read_only();
  EXPECT_TRUE(bench.step(batch_for(GetParam(), 2)).ok());
  EXPECT_TRUE(bench.step(batch_for(GetParam(), 2)).ok());
}

TEST_P(ReplicaOf, SameStepGivesTheSameBits) {
  Bench bench = bench_for(GetParam());
  ASSERT_TRUE(bench.step(batch_for(GetParam(), 4)).ok());
  const auto first = bench.all_gradients();
  ASSERT_TRUE(bench.step(batch_for(GetParam(), 3)).ok());  // another batch between leaves nothing behind
  ASSERT_TRUE(bench.step(batch_for(GetParam(), 4)).ok());
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(torch::equal(first[i], bench.gradient(i))) << i;
}

TEST_P(ReplicaOf, InitialWeightsAreMakeModels) {
  Bench bench = bench_for(GetParam());
  auto model = model_for(GetParam());
  EXPECT_EQ(layout_of(model), bench.model->layout());
  const auto parameters = model->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(std::memcmp(parameters[i].data_ptr<float>(), bench.weight_pointers[i],
                          static_cast<std::size_t>(parameters[i].numel()) * sizeof(float)),
              0)
        << i;
  }
}

TEST(LocalModel, GradientOfABatchIsTheMean) {
  for (const char* name : {"mlp", "gpt-byte"}) {  // no batch norm, which mixes samples
    Bench bench = bench_for(name);
    const Batch both = batch_for(name, 2);
    ASSERT_TRUE(bench.step({both.inputs.slice(0, 0, 1), both.targets.slice(0, 0, 1)}).ok());
    const auto first = bench.all_gradients();
    ASSERT_TRUE(bench.step({both.inputs.slice(0, 1, 2), both.targets.slice(0, 1, 2)}).ok());
    const auto second = bench.all_gradients();
    ASSERT_TRUE(bench.step(both).ok());
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_TRUE(torch::allclose(bench.gradient(i), (first[i] + second[i]) / 2, 1e-4, 1e-6)) << name << i;
      EXPECT_FALSE(torch::allclose(first[i], second[i], 1e-4, 1e-6)) << name << i;
    }
  }
}

TEST(LocalModel, MicroBatchesGiveTheGradientOfTheBatch) {
  for (const char* name : {"mlp", "cnn", "alexnet-small", "gpt-byte"}) {  // no batch norm
    Bench bench = bench_for(name);
    const Batch batch = batch_for(name, 7);
    const auto whole = bench.step(batch);
    ASSERT_TRUE(whole.ok()) << whole.status();
    const auto expected = bench.all_gradients();
    for (const std::int64_t micro_batch : {1, 2, 3, 6, 7, 100}) {  // most leave a smaller last one
      const auto result = bench.step(batch, micro_batch);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_NEAR(result->loss, whole->loss, 1e-5) << name << micro_batch;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(torch::allclose(bench.gradient(i), expected[i], 1e-5, 1e-5)) << name << micro_batch << i;
        if (micro_batch >= 7) {
          EXPECT_TRUE(torch::equal(bench.gradient(i), expected[i])) << name << i;
        }
      }
    }
  }
}

// Each micro-batch is as if it were a batch of its own, and they were averaged by samples.
TEST(LocalModel, MicroBatchesAreAveragedWhereBatchNormMixesSamples) {
  Bench bench = bench_for("resnet20");
  const Batch batch = random_images(5);
  std::vector<torch::Tensor> expected;
  for (const auto& [begin, end] : {std::pair{0, 2}, std::pair{2, 4}, std::pair{4, 5}}) {
    ASSERT_TRUE(bench.step({batch.inputs.slice(0, begin, end), batch.targets.slice(0, begin, end)}).ok());
    std::vector<torch::Tensor> part = bench.all_gradients();
    for (torch::Tensor& one : part) one *= (end - begin) / 5.0;
    for (std::size_t i = 0; i < expected.size(); ++i) part[i] += expected[i];
    expected = std::move(part);
  }
  ASSERT_TRUE(bench.step(batch, 2).ok());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(torch::allclose(bench.gradient(i), expected[i], 1e-4, 1e-6)) << i;
}

TEST(LocalModel, StatisticsMoveATenthTowardsTheBatch) {
  Bench bench = bench_for("vgg11");
  const auto& tensors = bench.model->layout().tensors();
  std::size_t mean = 0;
  while (tensors[mean].name != "bn1_0.running_mean") ++mean;
  float* before = bench.weights->floats().data() + tensors[mean].offset;
  std::fill_n(before, tensors[mean].size, 0.0f);
  ASSERT_TRUE(bench.step(random_images(4)).ok());
  const torch::Tensor from_zero = bench.gradient(mean);
  std::fill_n(before, tensors[mean].size, 5.0f);
  ASSERT_TRUE(bench.step(random_images(4)).ok());
  EXPECT_TRUE(torch::allclose(bench.gradient(mean), from_zero + 0.9 * 5.0));
  EXPECT_EQ(before[0], 5.0f);
}

TEST(LocalModel, ReportsABatchThatDoesNotFit) {
  Bench bench = bench_for("resnet20");
  expect_error(bench.step({torch::randn({2, 1, 28, 28}), torch::zeros({2}, torch::kInt64)}).status(),
               absl::StatusCode::kInternal, {"a training step", "channels"});
  EXPECT_TRUE(bench.step(random_images(2)).ok());  // the model goes on after the error
}

// Five samples. The first three are of class 2.
class FiveSamples : public DataSet {
 public:
  std::int32_t size() const override { return 5; }
  std::int64_t classes() const override { return 10; }
  std::vector<std::int64_t> sample_shape() const override { return kCifar; }
  Batch batch(std::span<const std::int32_t> indices, std::uint64_t) const override {
    std::vector<std::int64_t> targets;
    for (std::int32_t index : indices) targets.push_back(index < 3 ? 2 : 9);
    largest = std::max(largest, indices.size());
    const auto count = static_cast<std::int64_t>(indices.size());
    return {torch::ones({count, 3, 32, 32}), torch::tensor(targets)};
  }
  std::uint64_t digest() const override { return 5; }
  mutable std::size_t largest = 0;
};

const auto kAlways = [] { return true; };

// Weights zero but for one bias: the model says class 2 with logit ln 11, so with probability 11/20.
TEST(LocalModel, EvaluatesAKnownModel) {
  Bench bench = bench_for("mlp");
  std::fill(bench.weights->floats().begin(), bench.weights->floats().end(), 0.0f);
  const_cast<float*>(bench.weight_pointers.back())[2] = std::log(11.0f);
  bench.weights->make_read_only();
  FiveSamples data;
  const auto evaluation = bench.model->evaluate(data, bench.weight_pointers, 2, kAlways);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_DOUBLE_EQ(evaluation->accuracy, 0.6);
  EXPECT_NEAR(evaluation->loss, -(3 * std::log(11.0 / 20) + 2 * std::log(1.0 / 20)) / 5, 1e-6);
  EXPECT_EQ(data.largest, 2u);
}

TEST(LocalModel, EvaluationUsesRunningStatistics) {
  Bench bench = bench_for("resnet20");
  const auto whole = bench.model->evaluate(FiveSamples(), bench.weight_pointers, 5, kAlways);
  const auto single = bench.model->evaluate(FiveSamples(), bench.weight_pointers, 1, kAlways);
  ASSERT_TRUE(whole.ok() && single.ok());
  EXPECT_NEAR(whole->loss, single->loss, 1e-4);
  const auto& last = bench.model->layout().tensors().back();  // a variance
  std::fill_n(bench.weights->floats().data() + last.offset, last.size, 100.0f);
  const auto other = bench.model->evaluate(FiveSamples(), bench.weight_pointers, 5, kAlways);
  ASSERT_TRUE(other.ok());
  EXPECT_GT(std::abs(other->loss - whole->loss), 0.1);
}

TEST(LocalModel, EvaluationLeavesNoTraceInSteps) {
  Bench bench = bench_for("resnet20");
  ASSERT_TRUE(bench.step(random_images(4)).ok());
  const auto before = bench.all_gradients();
  ASSERT_TRUE(bench.model->evaluate(FiveSamples(), bench.weight_pointers, 2, kAlways).ok());
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(torch::equal(before[i], bench.gradient(i))) << i;
  ASSERT_TRUE(bench.step(random_images(4)).ok());
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(torch::equal(before[i], bench.gradient(i))) << i;
}

TEST(LocalModel, EvaluationStopsWhenTold) {
  Bench bench = bench_for("mlp");
  int asked = 0;
  const auto evaluation =
      bench.model->evaluate(FiveSamples(), bench.weight_pointers, 1, [&asked] { return ++asked < 3; });
  EXPECT_EQ(evaluation.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(asked, 3);
}

TEST(LocalModel, CreateRefusesWhatMakeModelRefuses) {
  config::ModelConfig config;
  config.name = "lenet";
  expect_error(LocalModel::create(config, kCifar, 10, 1).status(), absl::StatusCode::kInvalidArgument,
               {"lenet"});
}

TEST(LocalModel, LearnsMnist) {
  PACELINE_SKIP_WITHOUT("../shared/data/mnist");
  config::DataConfig data;
  data.source = "mnist:../shared/data/mnist";
  const auto sets = load_data(data, 0);
  ASSERT_TRUE(sets.ok()) << sets.status();
  config::ModelConfig config;
  config.name = "mlp";
  Bench bench(config, sets->train->sample_shape(), 10);
  const std::vector<std::int32_t> order = permutation(1, sets->train->size());
  for (std::size_t i = 0; i < 100; ++i) {
    const auto result = bench.step(sets->train->batch(std::span(order).subspan(i * 64, 64), 0));
    ASSERT_TRUE(result.ok()) << result.status();
    bench.descend(0.1f);
  }
  const auto evaluation = bench.model->evaluate(*sets->test, bench.weight_pointers, 500, kAlways);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_GT(evaluation->accuracy, 0.85);
}

// The next digit, again and again, from chance to certainty. A small one, for the sake of slow BLAS
// libraries.
TEST(LocalModel, LearnsText) {
  config::ModelConfig config;
  config.name = "gpt-byte";
  config.width = 32;
  config.context = 16;
  Bench bench(config, {16}, 256);
  const torch::Tensor digits = torch::arange(8 * 16, torch::kInt64).view({8, 16}) % 10;
  const Batch batch{digits + '0', (digits + 1) % 10 + '0'};
  double first = 0, last = 0;
  for (int i = 0; i < 100; ++i) {
    const auto result = bench.step(batch);
    ASSERT_TRUE(result.ok()) << result.status();
    (i == 0 ? first : last) = result->loss;
    bench.descend(0.5f);
  }
  EXPECT_NEAR(first, std::log(256.0), 0.3);
  EXPECT_LT(last, 0.5);
}

}  // namespace
}  // namespace paceline::train
